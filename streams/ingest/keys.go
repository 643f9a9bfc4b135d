package ingest

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/retention"
)

// readOwnTenant reads the data of a command about a whole tenant, which names the tenant once more: what is destroyed was meant.
func readOwnTenant(tenant string, ev *delivery.Event) *offer.Fault {
	data, fault := readData[struct {
		Tenant string `json:"tenant"`
	}](ev)
	if fault == nil && data.Tenant != tenant {
		fault = refusal("/tenant", "the data names tenant %q, the command is of tenant %q", data.Tenant, tenant)
	}
	return fault
}

// A keyRotate gives the tenant's next objects a new key.
type keyRotate struct{ tenant string }

func readKeyRotate(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	if f := readOwnTenant(tenant, ev); f != nil {
		return nil, f
	}
	return &keyRotate{tenant}, nil
}

func (c *keyRotate) apply(ctx context.Context, tx pgx.Tx, st *settlement, e *event) (*offer.Fault, error) {
	_, err := archive.Retire(ctx, tx, c.tenant, st.hold(e).RecordedAt)
	return nil, err
}

// A keyShred destroys the tenant's keys.
type keyShred struct{ tenant, actor, reason string }

func readKeyShred(tenant string, ev *delivery.Event) (command, *offer.Fault) {
	if f := readOwnTenant(tenant, ev); f != nil {
		return nil, f
	}
	actor, reason, fault := why(ev)
	if fault != nil {
		return nil, fault
	}
	return &keyShred{tenant, actor, reason}, nil
}

// apply puts it off until the batch's own objects are recorded: what came before the command, and the command, go with the rest.
func (c *keyShred) apply(_ context.Context, _ pgx.Tx, st *settlement, e *event) (*offer.Fault, error) {
	st.shreds = append(st.shreds, retention.Receipt{Tenant: c.tenant, ID: uuid.UUID(e.key.Delivery), Kind: retention.Keys,
		Actor: c.actor, Reason: c.reason, RecordedAt: st.hold(e).RecordedAt})
	return nil, nil
}

// shred destroys the keys that commands of the batch name.
func (st *settlement) shred(ctx context.Context, tx pgx.Tx) error {
	for _, r := range st.shreds {
		var err error
		if _, r.Removed, err = archive.Shred(ctx, tx, r.Tenant, r.ID, r.RecordedAt); err != nil {
			return err
		}
		if err := retention.Add(ctx, tx, r); err != nil {
			return err
		}
	}
	return nil
}
