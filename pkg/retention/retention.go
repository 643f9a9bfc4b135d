// Package retention keeps a receipt of everything that was removed on purpose, in the table pruning: what is gone without one
// was lost. Receipts are never removed.
package retention

import (
	"context"
	_ "embed" // for the statement
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

//go:embed add.sql
var addSQL string

// Kinds of record that are removed.
const (
	Keys       = "keys"       // of a tenant, and with them what its objects hold
	Artifacts  = "artifacts"  // objects whose feeds do not keep them longer
	Runs       = "runs"       // with their pages and events
	Quarantine = "quarantine" // entries that are settled
)

// A Receipt says what was removed, and on whose word.
type Receipt struct {
	Tenant     string
	ID         uuid.UUID // of the command that asked for it, or derived from what it is about
	Kind       string
	Feed       string     // whose retention it was; "": of the whole tenant
	Before     *time.Time // what was recorded before it has gone; nil: all of it
	Removed    int64      // how many of the kind
	Actor      string     // who decided, where somebody did
	Reason     string
	RecordedAt time.Time
}

// Add records what this transaction removes.
func Add(ctx context.Context, tx pgx.Tx, r Receipt) error {
	if _, err := tx.Exec(ctx, addSQL, r.Tenant, r.ID, r.Kind, r.Feed, r.Before, r.Removed, r.Actor, r.Reason, r.RecordedAt); err != nil {
		return fmt.Errorf("record what is removed (%s of tenant %q): %w", r.Kind, r.Tenant, err)
	}
	return nil
}
