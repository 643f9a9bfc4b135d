package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/quarantine"
	"github.com/offerlog/offerlog/pkg/replay"
	"github.com/offerlog/offerlog/streams"
)

// A LaneAdopt is the data of a command that lets a halted partition go on. It names the halt as the operator saw it.
type LaneAdopt struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Halt      string `json:"halt"`
	From      int64  `json:"from"`
	To        int64  `json:"to"` // exclusive
}

func (c *LaneAdopt) gap() lane.Gap {
	return lane.Gap{Topic: c.Topic, Partition: c.Partition, Reason: c.Halt, From: c.From, To: c.To}
}

func readLaneAdopt(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	c, fault := readData[LaneAdopt](ev)
	if fault == nil && tenant != offer.SystemTenant {
		fault = refusal("", "partitions are no tenant's: the tenant of this command is %s", offer.SystemTenant)
	}
	return c, fault
}

func (c *LaneAdopt) apply(ctx context.Context, tx pgx.Tx, st *settlement, e *event) (*offer.Fault, error) {
	d := lane.Decision{Command: uuid.UUID(e.key.Delivery), Actor: e.item.Event.Attributes[streams.ExtActor],
		Why: e.item.Event.Attributes[streams.ExtReason], At: st.hold(e).RecordedAt}
	err := lane.Adopt(ctx, tx, c.gap(), d)
	if errors.Is(err, lane.ErrOtherHalt) {
		return refusal("", "%v", err), nil
	}
	if err != nil || c.Topic != streams.Replays {
		return nil, err
	}
	// What is let go are references, and nobody else sends those again.
	if err := replay.Again(ctx, tx); err != nil {
		return nil, err
	}
	return nil, quarantine.Reopen(ctx, tx)
}

// AdoptCommands lets a halted lane of the commands themselves go on, which cannot read the command that would: the decision is
// written where the command's transaction would have written it. ev is that command. Its evidence is an object of no
// partition, since no log holds it.
func AdoptCommands(ctx context.Context, pool *pgxpool.Pool, arch Archive, topicID uuid.UUID, ev *delivery.Event) error {
	c, fault := readData[LaneAdopt](ev)
	if fault != nil {
		return fault
	}
	if c.Topic != streams.Commands {
		return fmt.Errorf("adopt %s: only commands are adopted directly: use a command", c.gap())
	}
	envelope, err := ev.Envelope()
	if err != nil {
		return fmt.Errorf("adopt %s: %w", c.gap(), err)
	}
	pack := &archive.Pack{Tenant: offer.SystemTenant, TopicID: topicID, Partition: -1,
		Entries: []archive.Entry{{Envelope: envelope, Payload: ev.Data, Sum: offer.Sum(ev.Data)}}}
	ref, err := arch.Write(ctx, pack)
	if err != nil {
		return fmt.Errorf("adopt %s: %w", c.gap(), err)
	}
	return postgres.InTx(ctx, pool, postgres.Ingest, func(tx pgx.Tx) error {
		d := lane.Decision{Command: uuid.UUID(commandKey(offer.SystemTenant, ev).Delivery), Actor: ev.Attributes[streams.ExtActor],
			Why: ev.Attributes[streams.ExtReason], Artifact: ref.Name}
		if err := tx.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&d.At); err != nil {
			return fmt.Errorf("read the clock: %w", err)
		}
		if err := lane.Adopt(ctx, tx, c.gap(), d); err != nil {
			return err
		}
		return archive.Record(ctx, tx, []archive.Stored{{Pack: pack, Ref: ref}})
	})
}

// readData reads the data of a command, once it is known to conform to the schema of its type.
func readData[T any](ev *delivery.Event) (*T, *offer.Fault) {
	if fault := Conforms(ev.Type, ev.Data); fault != nil {
		return nil, fault
	}
	c := new(T)
	if err := json.Unmarshal(ev.Data, c); err != nil {
		return nil, refusal("", "%v", err)
	}
	return c, nil
}

// refusal is why a command cannot be carried out.
func refusal(path, format string, args ...any) *offer.Fault {
	return &offer.Fault{Reason: offer.ReasonSchemaInvalid, Path: path, Message: fmt.Sprintf(format, args...)}
}
