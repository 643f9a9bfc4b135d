package receipt

import (
	"context"
	_ "embed" // for the statement
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed kept.sql
var keptSQL string

// Kept says where what an event brought is kept.
type Kept struct {
	Topic       string // that the event came from, by its own name
	Object      string // of the archive
	KeyID       string
	Feed        string // that expected it; "": none did
	RetrievedAt time.Time
}

// KeptAt finds the evidence of a tenant's event; ok is false where there is none, or none any more.
func KeptAt(ctx context.Context, tx pgx.Tx, tenant string, p Place) (ev Kept, ok bool, err error) {
	var retrieved int64
	err = tx.QueryRow(ctx, keptSQL, tenant, p.Lane, p.Offset, p.Item).Scan(&ev.Topic, &ev.Object, &ev.KeyID, &retrieved, &ev.Feed)
	if errors.Is(err, pgx.ErrNoRows) {
		return ev, false, nil
	}
	if err != nil {
		return ev, false, fmt.Errorf("find the evidence at lane %d, offset %d, item %d: %w", p.Lane, p.Offset, p.Item, err)
	}
	ev.RetrievedAt = time.Unix(0, retrieved).UTC()
	return ev, true, nil
}
