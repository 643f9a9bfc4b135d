// Package archive keeps the evidence: the payloads of deliveries as they were sent, encrypted, under names that follow from
// where they come from and what they hold.
//
// A pack of payloads becomes one object of a store, written before the transaction that refers to it and never replaced.
// After a crash the same batch is archived again: it finds its name taken, verifies what is there and reuses it, so that
// failing attempts leave one object and no half-written one. Tables: artifact (objects that a committed transaction refers
// to) and tenant_key (each tenant's key, wrapped by the master key).
package archive

import (
	"context"
	"errors"
	"fmt"

	"github.com/offerlog/offerlog/pkg/fault"
	"github.com/offerlog/offerlog/pkg/offer"
)

// ErrExists reports a name that a store holds already.
var ErrExists = errors.New("object exists")

// ErrNoKey reports a key id that a tenant never had.
var ErrNoKey = errors.New("no such key")

// A Store holds objects by name. Names are slash-separated, as Pack.Name writes them.
type Store interface {
	// Put stores content, durably and all of it or nothing. It never replaces an object: a name that is taken is
	// ErrExists, and the object under it is durable too.
	Put(ctx context.Context, name string, content []byte) error
	// Get returns the content that Put was given; fs.ErrNotExist where there is none.
	Get(ctx context.Context, name string) ([]byte, error)
}

// A Key is one key of a tenant, unwrapped.
type Key struct {
	ID     string // k1, k2, ...
	Secret []byte // 32 bytes
}

// A KeySource knows the tenants' keys.
type KeySource interface {
	// Current returns the key for new objects.
	Current(ctx context.Context, tenant string) (Key, error)
	// ByID returns the key of an existing object: ErrNoKey where the tenant never had it, *ShreddedError where it was
	// destroyed.
	ByID(ctx context.Context, tenant, id string) (Key, error)
}

// A Ref says where an object is and how to open it.
type Ref struct {
	Name   string
	KeyID  string
	Length int64 // of the object, in bytes
	Reused bool  // an earlier attempt had written it
}

// A DigestError reports an object that is not what its name and digests say: the evidence was changed, or another object
// stands in its place.
type DigestError struct {
	Object  string
	Offset  int64 // of the entry; -1: the object as a whole
	Item    int
	Problem string
}

// Code is the name of this fault in logs, metrics and the API.
func (e *DigestError) Code() string { return "artifact_digest_mismatch" }

func (e *DigestError) Error() string {
	at := ""
	if e.Offset >= 0 {
		at = fmt.Sprintf(", offset %d item %d", e.Offset, e.Item)
	}
	return fmt.Sprintf("artifact_digest_mismatch: object %s%s: %s", e.Object, at, e.Problem)
}

// A ShreddedError reports evidence that cannot be read any more, because its tenant's key was destroyed on purpose.
type ShreddedError struct{ Tenant, KeyID string }

// Code is the name of this fault in logs, metrics and the API.
func (e *ShreddedError) Code() string { return "artifact_shredded" }

func (e *ShreddedError) Error() string {
	return fmt.Sprintf("artifact_shredded: key %s of tenant %q was destroyed", e.KeyID, e.Tenant)
}

// An Archive seals packs into a store and opens them again.
type Archive struct {
	store Store
	keys  KeySource
}

// New returns an archive over store.
func New(store Store, keys KeySource) *Archive { return &Archive{store: store, keys: keys} }

// Write archives a pack, or finds it archived by an earlier attempt, and returns only after it has read the object back,
// opened it and compared every digest: what Write returns may be referred to. An object that does not hold the pack is a
// *DigestError; any other error means that store or keys are out of reach, and the same call may succeed later.
func (a *Archive) Write(ctx context.Context, p *Pack) (Ref, error) {
	if err := p.check(); err != nil {
		return Ref{}, fmt.Errorf("archive pack %s: %w", p.Name(), err)
	}
	ref, err := a.put(ctx, p)
	if err == nil {
		err = a.readBack(ctx, p.Tenant, &ref)
	}
	if err != nil {
		return Ref{}, fmt.Errorf("archive pack %s: %w", p.Name(), err)
	}
	fault.Point("ingest.artifact_verified")
	return ref, nil
}

func (a *Archive) put(ctx context.Context, p *Pack) (Ref, error) {
	key, err := a.keys.Current(ctx, p.Tenant)
	if err != nil {
		return Ref{}, err
	}
	name := p.Name()
	content, err := seal(p, name, key)
	if err != nil {
		return Ref{}, err
	}
	switch err = a.store.Put(ctx, name, content); {
	case errors.Is(err, ErrExists):
		return Ref{Name: name, Reused: true}, nil
	case err != nil:
		return Ref{}, err
	}
	return Ref{Name: name, KeyID: key.ID}, nil
}

// readBack opens every entry of the object that was put or found; ref learns what is there. An object that is reused may be
// sealed under an older key than the current one.
func (a *Archive) readBack(ctx context.Context, tenant string, ref *Ref) error {
	o, err := a.open(ctx, tenant, *ref)
	if err != nil {
		return err
	}
	// The name is the pack's own, and open held the object's table against it: what remains is each entry's content.
	if err := o.unsealAll(); err != nil {
		return err
	}
	ref.KeyID, ref.Length = o.keyID, o.length
	return nil
}

// Read returns one entry of the object that ref names, verified. Of ref it needs Name and KeyID.
func (a *Archive) Read(ctx context.Context, tenant string, ref Ref, offset int64, item int) (Entry, error) {
	o, err := a.open(ctx, tenant, ref)
	if err != nil {
		return Entry{}, fmt.Errorf("read archive: %w", err)
	}
	at := place{offset, item}
	i, ok := o.find(at)
	if !ok {
		return Entry{}, fmt.Errorf("read archive: %w", o.mismatch(at, "the object holds no such entry"))
	}
	e, err := o.unseal(i)
	if err != nil {
		return Entry{}, fmt.Errorf("read archive: %w", err)
	}
	return e, nil
}

// Verify opens every entry of the object that ref names and returns what the object holds.
func (a *Archive) Verify(ctx context.Context, tenant string, ref Ref) ([]Member, error) {
	o, err := a.open(ctx, tenant, ref)
	if err != nil {
		return nil, fmt.Errorf("verify archive: %w", err)
	}
	if err := o.unsealAll(); err != nil {
		return nil, fmt.Errorf("verify archive: %w", err)
	}
	return o.table, nil
}

// open gets an object, checks its table against its name, and finds its key. An empty ref.KeyID takes the object's word.
func (a *Archive) open(ctx context.Context, tenant string, ref Ref) (*object, error) {
	content, err := a.store.Get(ctx, ref.Name)
	if err != nil {
		return nil, err
	}
	o, err := parse(ref.Name, tenant, content)
	if err != nil {
		return nil, err
	}
	if ref.KeyID != "" && ref.KeyID != o.keyID {
		return nil, o.damaged(fmt.Sprintf("sealed under key %q, want %q", o.keyID, ref.KeyID))
	}
	key, err := a.keys.ByID(ctx, tenant, o.keyID)
	if errors.Is(err, ErrNoKey) {
		return nil, o.damaged(fmt.Sprintf("sealed under key %q, which the tenant never had", o.keyID))
	}
	if err != nil {
		return nil, err
	}
	if o.aead, err = objectKey(key, ref.Name); err != nil {
		return nil, err
	}
	return o, nil
}

// A Member is what an object's table says about one entry.
type Member struct {
	Offset int64
	Item   int
	Length int64 // of the payload, in bytes
	Sum    offer.Digest
}

func (m Member) at() place { return place{m.Offset, m.Item} }
