package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/user"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams"
)

// commandSource is the source of the command events that this program publishes.
const commandSource = "/offerlog/cli"

// A decision says who wants something, and why.
type decision struct{ actor, reason string }

// needReason makes sure that what is kept with a decision says why.
func (d *decision) needReason() error {
	if d.reason == "" {
		return usage("say why with --reason; it is kept with the decision", "a decision needs a reason")
	}
	return nil
}

// flags gives a command that publishes decisions its flags.
func (d *decision) flags(cmd *cobra.Command, timeout *time.Duration) {
	cmd.Flags().StringVar(&d.actor, "actor", userName(), "who decides this")
	cmd.Flags().StringVar(&d.reason, "reason", "", "why; kept with the command")
	cmd.Flags().DurationVar(timeout, "timeout", 30*time.Second, "how long to wait for the outcome")
}

// sendCommand publishes a command event of a type of streams, with a JSON payload and an id of its own, and waits for its
// outcome. A refusal is an error with its fault; nothing was changed then.
func sendCommand(ctx context.Context, cl *kgo.Client, cluster kafka.Cluster, pool *pgxpool.Pool, tenant, kind string, payload []byte, d decision) (receipt.Document, error) {
	id := uuid.NewString()
	rec, err := commandEvent(id, tenant, kind, payload, d)
	if err != nil {
		return receipt.Document{}, err
	}
	records, err := produce(ctx, cl, cluster, []*kgo.Record{rec})
	if err != nil {
		return receipt.Document{}, err
	}
	documents, err := awaitOutcomes(ctx, pool, tenant, records)
	if err != nil {
		return receipt.Document{}, fmt.Errorf("wait for command %s: %w", id, err)
	}
	if len(documents) != 1 {
		return receipt.Document{}, &exitError{exitFailed, "command_refused", "run offerlog quarantine list --tenant _system, which says why",
			fmt.Errorf("command %s is not one that ingest can read: is the running offerlog older than this one?", id)}
	}
	doc := documents[0]
	if doc.Outcome == offer.Quarantined {
		return doc, &exitError{exitConflict, doc.Reason, "mend what the message names and try again; nothing was changed", fmt.Errorf("refused: %s", doc.Message)}
	}
	return doc, nil
}

// commandEvent is a command as a record.
func commandEvent(id, tenant, kind string, payload []byte, d decision) (*kgo.Record, error) {
	e := cloudevents.NewEvent()
	e.SetID(id)
	e.SetSource(commandSource)
	e.SetType(kind)
	e.SetTime(time.Now())
	e.SetExtension(streams.ExtTenant, tenant)
	if d.actor != "" {
		e.SetExtension(streams.ExtActor, d.actor)
	}
	if d.reason != "" {
		e.SetExtension(streams.ExtReason, d.reason)
	}
	e.SetDataContentType(cloudevents.ApplicationJSON)
	e.DataEncoded = payload
	rec, err := delivery.Encode(e, streams.Commands, []byte(tenant))
	if err != nil {
		return nil, usage("check --actor and --reason", "%w", err)
	}
	return rec, nil
}

// command publishes a command of the settings' tenant and waits for its outcome.
func (a *app) command(ctx context.Context, kind string, payload any, d decision) (receipt.Document, error) {
	body, err := json.Marshal(payload)
	if err != nil {
		return receipt.Document{}, err
	}
	a.findDev()
	cl, err := a.openKafka(ctx)
	if err != nil {
		return receipt.Document{}, err
	}
	defer cl.Close()
	pool, err := a.openTenant(ctx, postgres.Audit)
	if err != nil {
		return receipt.Document{}, err
	}
	defer pool.Close()
	return sendCommand(ctx, cl, a.settings.Cluster(), pool, a.settings.Tenant, kind, body, d)
}

// userName is who the operating system says runs this.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// withTimeout bounds a wait, and says so where it ends.
func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("timed out after %s", d))
}
