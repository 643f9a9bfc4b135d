// Package archive keeps the evidence: the payloads of deliveries as they were sent, encrypted, under names that follow from
// where they come from and what they hold.
//
// A pack of payloads becomes one object of a store, written before the transaction that refers to it and never replaced. A
// payload may be as large as a disk: it is sealed, stored and read in segments, and never held in memory.
// After a crash the same batch is archived again: it finds its name taken, verifies what is there and reuses it, so that
// failing attempts leave one object and no half-written one. Tables: artifact (objects that a committed transaction refers
// to) and tenant_key (each tenant's key, wrapped by the master key).
package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"github.com/offerlog/offerlog/pkg/fault"
	"github.com/offerlog/offerlog/pkg/offer"
)

// ErrExists reports a name that a store holds already.
var ErrExists = errors.New("object exists")

// ErrNoKey reports a key id that a tenant never had.
var ErrNoKey = errors.New("no such key")

// A Store holds objects by name. Names are slash-separated, as Pack.Name writes them.
type Store interface {
	// Put stores the size bytes of content, durably and all of them or nothing. It never replaces an object: a name that is
	// taken is ErrExists, and the object under it is durable too.
	Put(ctx context.Context, name string, content io.Reader, size int64) error
	// Get returns what Put was given, from byte offset on, to be closed; fs.ErrNotExist where there is no such object.
	Get(ctx context.Context, name string, offset int64) (io.ReadCloser, error)
	// Remove removes an object for good; one that is not there is no error.
	Remove(ctx context.Context, name string) error
	// Names are those of all objects, in any order. An error ends them.
	Names(ctx context.Context) iter.Seq2[string, error]
	// Ready says what keeps objects from being stored, as far as a quick look tells.
	Ready(ctx context.Context) error
	// Close releases what the store holds of this process.
	Close() error
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
	// Forget drops what is remembered of a tenant's keys.
	Forget(tenant string)
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
	ref, err := a.keep(ctx, p)
	if shredded := (*ShreddedError)(nil); errors.As(err, &shredded) && ref.Reused {
		// An earlier attempt wrote it, and the key was destroyed before any row named it: nobody will ever read it.
		if err = a.store.Remove(ctx, ref.Name); err == nil {
			ref, err = a.keep(ctx, p)
		}
	}
	if err != nil {
		return Ref{}, fmt.Errorf("archive pack %s: %w", p.Name(), err)
	}
	fault.Point("ingest.artifact_verified")
	return ref, nil
}

// keep puts a pack and reads it back.
func (a *Archive) keep(ctx context.Context, p *Pack) (Ref, error) {
	ref, err := a.put(ctx, p)
	if err == nil {
		err = a.readBack(ctx, p.Tenant, &ref)
	}
	return ref, err
}

// Forget drops what is remembered of a tenant's keys: they have changed.
func (a *Archive) Forget(tenant string) { a.keys.Forget(tenant) }

func (a *Archive) put(ctx context.Context, p *Pack) (Ref, error) {
	key, err := a.keys.Current(ctx, p.Tenant)
	if err != nil {
		return Ref{}, err
	}
	name := p.Name()
	s, err := newSealer(p, name, key)
	if err != nil {
		return Ref{}, err
	}
	if p.large() {
		err = a.stream(ctx, s)
	} else {
		content := bytes.NewBuffer(make([]byte, 0, s.size))
		if err = s.writeTo(content); err == nil {
			err = a.store.Put(ctx, name, bytes.NewReader(content.Bytes()), s.size)
		}
	}
	switch {
	case errors.Is(err, ErrExists):
		return Ref{Name: name, Reused: true}, nil
	case err != nil:
		return Ref{}, err
	}
	return Ref{Name: name, KeyID: key.ID}, nil
}

// stream puts a pack that has payloads in files, while it is sealed. An earlier attempt's object is looked for first, since
// the store would take the whole of this one before it says that there is one.
func (a *Archive) stream(ctx context.Context, s *sealer) error {
	there, err := a.store.Get(ctx, s.name, 0)
	if err == nil {
		return errors.Join(ErrExists, there.Close())
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.CloseWithError(s.writeTo(w))
	}()
	err = a.store.Put(ctx, s.name, r, s.size)
	_ = r.Close() // a store that did not read to the end leaves nobody waiting
	<-done
	return err
}

// readBack opens every entry of the object that was put or found; ref learns what is there. An object that is reused may be
// sealed under an older key than the current one.
func (a *Archive) readBack(ctx context.Context, tenant string, ref *Ref) error {
	o, err := a.open(ctx, tenant, *ref)
	if err != nil {
		return err
	}
	// The name is the pack's own, and open held the object's table against it: what remains is each entry's content.
	if err := o.verify(); err != nil {
		return err
	}
	ref.KeyID, ref.Length = o.keyID, o.size()
	return nil
}

// Open returns one entry of the object that ref names, to be read and closed. Of ref it needs Name and KeyID.
func (a *Archive) Open(ctx context.Context, tenant string, ref Ref, offset int64, item int) (*Content, error) {
	c, err := a.openEntry(ctx, tenant, ref, place{offset, item})
	if err != nil {
		return nil, fmt.Errorf("read archive: %w", err)
	}
	return c, nil
}

func (a *Archive) openEntry(ctx context.Context, tenant string, ref Ref, at place) (_ *Content, err error) {
	o, err := a.open(ctx, tenant, ref)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	i, ok := o.find(at)
	if !ok {
		return nil, o.mismatch(at, "the object holds no such entry")
	}
	if i > 0 {
		o.close()
		body, err := a.store.Get(ctx, ref.Name, o.begins(i))
		if err != nil {
			return nil, err
		}
		o.body = newSource(body)
	}
	return o.unseal(i)
}

// Read returns one entry of the object that ref names, verified and whole in memory. Of ref it needs Name and KeyID.
func (a *Archive) Read(ctx context.Context, tenant string, ref Ref, offset int64, item int) (Entry, error) {
	c, err := a.Open(ctx, tenant, ref, offset, item)
	if err != nil {
		return Entry{}, err
	}
	defer c.Close()
	var payload bytes.Buffer
	payload.Grow(int(min(c.Length, segmentBytes)) + bytes.MinRead)
	if _, err := payload.ReadFrom(c); err != nil {
		return Entry{}, fmt.Errorf("read archive: %w", err)
	}
	return Entry{Offset: c.Offset, Item: c.Item, Envelope: c.Envelope, Payload: payload.Bytes(), Sum: c.Sum}, nil
}

// Verify opens every entry of the object that ref names and returns what the object holds.
func (a *Archive) Verify(ctx context.Context, tenant string, ref Ref) ([]Member, error) {
	o, err := a.open(ctx, tenant, ref)
	if err != nil {
		return nil, fmt.Errorf("verify archive: %w", err)
	}
	if err := o.verify(); err != nil {
		return nil, fmt.Errorf("verify archive: %w", err)
	}
	return o.table, nil
}

// open gets an object, checks its table against its name, and finds its key: what comes next of it is its first entry. An
// empty ref.KeyID takes the object's word.
func (a *Archive) open(ctx context.Context, tenant string, ref Ref) (_ *object, err error) {
	body, err := a.store.Get(ctx, ref.Name, 0)
	if err != nil {
		return nil, err
	}
	o := &object{name: ref.Name, tenant: tenant, body: newSource(body)}
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	if err := o.readTable(); err != nil {
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
	if o.seals, err = objectSeals(key, ref.Name); err != nil {
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
