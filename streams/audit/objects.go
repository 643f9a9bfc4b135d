package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/offer"
)

// objectsAtOnce bounds one page of objects, so that no statement waits for the archive.
const objectsAtOnce = 100

// An object is one row of audit_v1.artifact_object.
type object struct {
	Tenant    string
	TopicID   uuid.UUID
	Partition int32
	First     int64
	Name      string
	Last      int64
	KeyID     string
	State     string
	Offsets   []int64
	Items     []int
	SHA256    [][]byte `db:"sha256"`
	Lengths   []int64
}

// objects opens every object of the archive and holds it against its row.
func (a *auditor) objects(ctx context.Context) error {
	if a.in.Archive == nil {
		a.skip("there is no archive to read", "I4")
		return nil
	}
	var last object
	for {
		rows, err := a.tx.Query(ctx, statement("objects"), last.Tenant, last.TopicID, last.Partition, last.First, last.Name, objectsAtOnce)
		if err != nil {
			return fmt.Errorf("list the archived objects: %w", err)
		}
		page, err := pgx.CollectRows(rows, pgx.RowToStructByName[object])
		if err != nil {
			return fmt.Errorf("list the archived objects: %w", err)
		}
		for i := range page {
			if err := a.object(ctx, &page[i]); err != nil {
				return err
			}
		}
		if len(page) < objectsAtOnce {
			return nil
		}
		last = page[len(page)-1]
	}
}

func (a *auditor) object(ctx context.Context, o *object) error {
	a.count("I4", 1, "objects")
	if o.State != "stored" {
		return nil // its row says why it cannot be read
	}
	bad := func(what, detail string) {
		a.found(Violation{Invariant: "I4", What: what, Where: Where{Tenant: o.Tenant, Object: o.Name}, Detail: detail})
	}
	if n := len(o.Offsets); len(o.Items) != n || len(o.SHA256) != n || len(o.Lengths) != n {
		bad("the row of an object is not whole", fmt.Sprintf("%d offsets, %d items, %d digests, %d lengths", n, len(o.Items), len(o.SHA256), len(o.Lengths)))
		return nil
	}
	// The name says where the entries come from; that it says what they hold, too, Verify finds.
	pack := archive.Pack{Tenant: o.Tenant, TopicID: o.TopicID, Partition: o.Partition, First: o.First, Last: o.Last}
	if want := path.Dir(pack.Name()); want != path.Dir(o.Name) {
		bad("an object does not have the name of its place", "want "+want)
	}
	members, err := a.in.Archive.Verify(ctx, o.Tenant, archive.Ref{Name: o.Name, KeyID: o.KeyID})
	if damage := damageOf(err); damage != "" {
		bad(damage, err.Error())
		return nil
	}
	if err != nil {
		return fmt.Errorf("check the archive: %w", err)
	}
	if len(members) != len(o.Offsets) {
		bad("an object holds other entries than its row says", fmt.Sprintf("%d entries, want %d", len(members), len(o.Offsets)))
		return nil
	}
	for i, m := range members {
		if want := (archive.Member{Offset: o.Offsets[i], Item: o.Items[i], Length: o.Lengths[i], Sum: digest(o.SHA256[i])}); m != want {
			bad("an entry of an object is not what its row says", fmt.Sprintf("offset %d item %d, %d bytes, %s; want offset %d item %d, %d bytes, %s",
				m.Offset, m.Item, m.Length, m.Sum, want.Offset, want.Item, want.Length, want.Sum))
		}
	}
	return nil
}

// damageOf is what an error of the archive says about an object, "" where it is one of the way to it.
func damageOf(err error) string {
	var (
		digest   *archive.DigestError
		shredded *archive.ShreddedError
	)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "an object is missing"
	case errors.As(err, &digest):
		return "an object is damaged"
	case errors.As(err, &shredded):
		return "an object cannot be opened, and its row does not say that it was shredded"
	}
	return ""
}

// digest reads a column; what has another length is no digest of anything.
func digest(b []byte) (d offer.Digest) {
	if len(b) == len(d) {
		copy(d[:], b)
	}
	return d
}
