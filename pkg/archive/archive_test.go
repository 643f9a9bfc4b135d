package archive_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/offer"
)

// token is a text that no stored byte may show.
const token = "AX-440-R2;6;820.00;EUR"

var topic = uuid.MustParse("8a3f0000-0000-4000-8000-000000000001")

func entry(offset int64, item int, payload string) archive.Entry {
	return archive.Entry{Offset: offset, Item: item, Payload: []byte(payload), Sum: offer.Sum([]byte(payload))}
}

func pack() *archive.Pack {
	return &archive.Pack{Tenant: "demo", TopicID: topic, Partition: 3, First: 10, Last: 14, Entries: []archive.Entry{
		entry(10, 0, token), entry(12, 0, ""), entry(12, 1, strings.Repeat("x", 22)), entry(14, 0, "last"),
	}}
}

// memory is a Store; damage, where set, changes what Get returns, and down makes every call fail.
type memory struct {
	mu      sync.Mutex
	objects map[string][]byte
	damage  func(content []byte) []byte
	down    error
}

func (m *memory) Put(_ context.Context, name string, r io.Reader, size int64) error {
	content, err := io.ReadAll(r)
	if err != nil || int64(len(content)) != size {
		return errors.Join(err, fmt.Errorf("got %d bytes, want %d", len(content), size))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down != nil {
		return m.down
	}
	if _, ok := m.objects[name]; ok {
		return archive.ErrExists
	}
	if m.objects == nil {
		m.objects = map[string][]byte{}
	}
	m.objects[name] = content
	return nil
}

func (m *memory) Get(_ context.Context, name string, offset int64) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	content, ok := m.objects[name]
	switch {
	case m.down != nil:
		return nil, m.down
	case !ok:
		return nil, fs.ErrNotExist
	case m.damage != nil:
		content = m.damage(bytes.Clone(content))
	}
	return io.NopCloser(bytes.NewReader(content[min(offset, int64(len(content))):])), nil
}

func (m *memory) Remove(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, name)
	return m.down
}

func (m *memory) Names(context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for name := range m.objects {
			if !yield(name, nil) {
				return
			}
		}
	}
}

func (m *memory) Ready(context.Context) error { return m.down }

func (m *memory) Close() error { return nil }

// only returns the one object there is.
func (m *memory) only(t *testing.T) (name string, content []byte) {
	t.Helper()
	if len(m.objects) != 1 {
		t.Fatalf("got objects %v, want one", slices.Collect(maps.Keys(m.objects)))
	}
	for name, content = range m.objects {
	}
	return name, content
}

// keys gives every tenant the same keys: what keeps tenants apart in these tests is the associated data alone.
type keys struct{ current string }

func (k *keys) Current(ctx context.Context, tenant string) (archive.Key, error) {
	return k.ByID(ctx, tenant, k.current)
}

func (k *keys) Forget(string) {}

func (k *keys) ByID(_ context.Context, _, id string) (archive.Key, error) {
	if id > k.current {
		return archive.Key{}, archive.ErrNoKey
	}
	secret := offer.Sum([]byte(id))
	return archive.Key{ID: id, Secret: secret[:]}, nil
}

func mustWrite(t *testing.T, a *archive.Archive, p *archive.Pack) archive.Ref {
	t.Helper()
	ref, err := a.Write(t.Context(), p)
	if err != nil {
		t.Fatalf("write: %v", err)
	}
	return ref
}

func TestS_000_29_an_object_holds_no_plaintext_and_two_attempts_write_one_name(t *testing.T) {
	store := &memory{}
	a := archive.New(store, &keys{"k1"})
	first := mustWrite(t, a, pack())
	second := mustWrite(t, a, pack())
	name, content := store.only(t)
	if bytes.Contains(content, []byte(token)) || bytes.Contains(content, []byte("last")) {
		t.Error("the object shows its plaintext")
	}
	if first.Name != name || second.Name != name {
		t.Errorf("got names %s and %s, want %s twice", first.Name, second.Name, name)
	}
	if first.Reused || !second.Reused || first.KeyID != second.KeyID || first.Length != int64(len(content)) || second.Length != first.Length {
		t.Errorf("got %+v, then %+v", first, second)
	}
	for _, e := range pack().Entries {
		got, err := a.Read(t.Context(), "demo", second, e.Offset, e.Item)
		if err != nil || !bytes.Equal(got.Payload, e.Payload) {
			t.Errorf("offset %d item %d: got %q, %v, want %q", e.Offset, e.Item, got.Payload, err, e.Payload)
		}
	}
}

// Every byte of an object is flipped, cut off and doubled: what is stored is found to be wrong in Write, Read and Verify.
func TestS_000_30_any_changed_byte_is_a_digest_mismatch(t *testing.T) {
	store := &memory{}
	a := archive.New(store, &keys{"k1"})
	ref := mustWrite(t, a, pack())
	_, content := store.only(t)
	last := pack().Entries[3]

	damages := map[string]func([]byte, int) []byte{
		"flipped bit":    func(b []byte, i int) []byte { b[i] ^= 1 << (i % 8); return b },
		"cut off before": func(b []byte, i int) []byte { return b[:i] },
		"byte doubled":   func(b []byte, i int) []byte { return slices.Insert(b, i, b[i]) },
	}
	for name, damage := range damages {
		for i := range content {
			store.damage = func(b []byte) []byte { return damage(b, i) }
			if bytes.Equal(store.damage(bytes.Clone(content)), content) {
				continue
			}
			_, err := a.Write(t.Context(), pack())
			wantMismatch(t, fmt.Sprintf("write, %s %d", name, i), ref.Name, err)
			_, err = a.Verify(t.Context(), "demo", ref)
			wantMismatch(t, fmt.Sprintf("verify, %s %d", name, i), ref.Name, err)
		}
	}

	store.damage = func(b []byte) []byte { b[len(b)-1] ^= 1; return b }
	_, err := a.Read(t.Context(), "demo", ref, last.Offset, last.Item)
	wantMismatch(t, "read", ref.Name, err)
	if mismatch := (*archive.DigestError)(nil); errors.As(err, &mismatch) && (mismatch.Offset != 14 || mismatch.Item != 0) {
		t.Errorf("got a mismatch at offset %d item %d, want 14, 0", mismatch.Offset, mismatch.Item)
	}
	if _, err := a.Read(t.Context(), "demo", ref, 10, 0); err != nil {
		t.Errorf("an entry beside the damaged one: %v", err)
	}
}

// A first attempt, too: the object is not there yet and is damaged on its way.
func TestS_000_30_a_first_write_that_is_damaged_does_not_succeed(t *testing.T) {
	store := &memory{damage: func(b []byte) []byte { b[len(b)/2] ^= 4; return b }}
	_, err := archive.New(store, &keys{"k1"}).Write(t.Context(), pack())
	wantMismatch(t, "write", pack().Name(), err)
}

func wantMismatch(t *testing.T, what, object string, err error) {
	t.Helper()
	var mismatch *archive.DigestError
	if !errors.As(err, &mismatch) || mismatch.Code() != "artifact_digest_mismatch" || mismatch.Object != object {
		t.Errorf("%s: got %v, want artifact_digest_mismatch of %s", what, err, object)
	}
}

func TestS_000_32_five_failing_attempts_and_a_success_leave_one_object(t *testing.T) {
	files, list := openFiles(t)
	failing := &failingStore{Store: files}
	a := archive.New(failing, &keys{"k1"})
	for attempt, fail := range []failure{beforePut, afterPut, inGet, nowhere, nowhere} {
		failing.at = fail
		if _, err := a.Write(t.Context(), pack()); (err != nil) != (fail != nowhere) {
			t.Fatalf("attempt %d: got %v", attempt, err)
		} // the last two succeed, and the transaction after them does not
	}
	ref := mustWrite(t, a, pack())
	want := []string{"demo/" + topic.String() + "/3/10-14." + ref.Name[strings.LastIndex(ref.Name, "/")+1:]}
	if got := list(); !ref.Reused || !slices.Equal(got, want) {
		t.Errorf("got files %v, reused %v, want %v, reused", got, ref.Reused, want)
	}
}

// A failingStore fails once it has come to a place.
type failingStore struct {
	archive.Store
	at failure
}

type failure int

const (
	nowhere failure = iota
	beforePut
	afterPut
	inGet
)

var errStore = errors.New("the store is out of reach")

func (s *failingStore) Put(ctx context.Context, name string, content io.Reader, size int64) error {
	if s.at == beforePut {
		return errStore
	}
	err := s.Store.Put(ctx, name, content, size)
	if s.at == afterPut {
		return errStore
	}
	return err
}

func (s *failingStore) Get(ctx context.Context, name string, offset int64) (io.ReadCloser, error) {
	if s.at == inGet {
		return nil, errStore
	}
	return s.Store.Get(ctx, name, offset)
}

// large is a pack with a payload in a file between two in memory. It ends where segments end, or before or after.
func large(t *testing.T, length int) *archive.Pack {
	t.Helper()
	payload := bytes.Repeat([]byte(token), length/len(token)+1)[:length]
	path := filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(path, append(payload, "what comes later is not part of it"...), 0o600); err != nil {
		t.Fatal(err)
	}
	p := pack()
	p.Entries[2] = archive.Entry{Offset: 12, Item: 1, Envelope: []byte("{}"), File: path, Length: int64(length), Sum: offer.Sum(payload)}
	return p
}

func TestAPayloadInAFileIsAnEntryLikeAnother(t *testing.T) {
	const segment = 1 << 20
	for _, length := range []int{0, 1, segment - 2, segment - 1, segment, segment + 1, 3*(segment-16) - 42, 3*(segment-16) - 41, 5 << 20} {
		t.Run(fmt.Sprint(length, " bytes"), func(t *testing.T) {
			files, list := openFiles(t)
			a := archive.New(files, &keys{"k1"})
			p := large(t, length)
			ref, again := mustWrite(t, a, p), mustWrite(t, a, p)
			if got := list(); len(got) != 1 || ref.Reused || !again.Reused || ref.Length != again.Length {
				t.Errorf("got files %v, %+v, then %+v, want one object, reused", got, ref, again)
			}
			inMemory, err := os.ReadFile(p.Entries[2].File)
			if err != nil {
				t.Fatal(err)
			}
			inMemory = inMemory[:length]
			q := pack()
			q.Entries[2] = entry(12, 1, string(inMemory))
			q.Entries[2].Envelope = []byte("{}")
			if found := mustWrite(t, a, q); !found.Reused {
				t.Error("the same payload in memory has another name")
			}
			for _, want := range q.Entries {
				c, err := a.Open(t.Context(), "demo", ref, want.Offset, want.Item)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(c)
				if err := errors.Join(err, c.Close()); err != nil || !bytes.Equal(got, want.Payload) || !bytes.Equal(c.Envelope, want.Envelope) || c.Sum != want.Sum {
					t.Errorf("offset %d item %d: got %d bytes in %q, %v, want %d", want.Offset, want.Item, len(got), c.Envelope, err, len(want.Payload))
				}
			}
			content, err := get(t, files, ref.Name)
			if err != nil || int64(len(content)) != ref.Length || bytes.Contains(content, []byte(token)) {
				t.Errorf("got an object of %d bytes, %v, want %d without plaintext", len(content), err, ref.Length)
			}
		})
	}
}

// Bytes at both sides of each place where something begins or ends are flipped, cut off and doubled, and segments change
// places.
func TestS_000_30_a_changed_segment_is_a_digest_mismatch(t *testing.T) {
	const segment, begin = 1 << 20, 8 + 1 + 1 + 2 + 4 + 4*(8+4+4+32+8+32) + (22 + 28) + 28
	store := &memory{}
	a := archive.New(store, &keys{"k1"})
	p := large(t, 4*segment)
	ref := mustWrite(t, a, p)
	damages := map[string]func([]byte) []byte{
		"two segments change places": func(b []byte) []byte {
			return slices.Concat(b[:begin+segment], b[begin+2*segment:begin+3*segment], b[begin+segment:begin+2*segment], b[begin+3*segment:])
		},
		"a segment is lost":  func(b []byte) []byte { return slices.Delete(b, begin+segment, begin+2*segment) },
		"a segment is twice": func(b []byte) []byte { return slices.Insert(b, begin+segment, b[begin:begin+segment]...) },
	}
	for _, place := range []int{begin, begin + 1, begin + 33, begin + 40, begin + segment, begin + 4*segment, int(ref.Length)} {
		for i := max(0, place-1); i <= min(place+1, int(ref.Length)-1); i++ {
			damages[fmt.Sprint("flipped bit ", i)] = func(b []byte) []byte { b[i] ^= 4; return b }
			damages[fmt.Sprint("cut off before ", i)] = func(b []byte) []byte { return b[:i] }
			damages[fmt.Sprint("byte doubled ", i)] = func(b []byte) []byte { return slices.Insert(b, i, b[i]^1) }
		}
	}
	for name, damage := range damages {
		store.damage = damage
		_, err := a.Verify(t.Context(), "demo", ref)
		wantMismatch(t, "verify, "+name, ref.Name, err)
	}
	store.damage = func(b []byte) []byte { b[begin+3*segment] ^= 1; return b }
	c, err := a.Open(t.Context(), "demo", ref, 12, 1)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	_, err = got.ReadFrom(c)
	wantMismatch(t, "read", ref.Name, errors.Join(err, c.Close()))
	if want := bytes.Repeat([]byte(token), 1<<18); !bytes.HasPrefix(want, got.Bytes()) || got.Len() > 3*segment {
		t.Errorf("got %d bytes, want nothing that did not decrypt", got.Len())
	}
}

func TestAFileThatChangedIsNotSealed(t *testing.T) {
	for sentence, change := range map[string]func(path string) error{
		"other bytes": func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("y"), 3<<20), 0o600) },
		"cut off":     func(path string) error { return os.Truncate(path, 2<<20) },
		"removed":     os.Remove,
	} {
		t.Run(sentence, func(t *testing.T) {
			files, list := openFiles(t)
			p := large(t, 3<<20)
			if err := change(p.Entries[2].File); err != nil {
				t.Fatal(err)
			}
			_, err := archive.New(files, &keys{"k1"}).Write(t.Context(), p)
			if err == nil || len(list()) > 0 {
				t.Errorf("got %v and files %v, want an error and none", err, list())
			}
		})
	}
}

func TestMemoryIsFlatInTheSizeOfAPayload(t *testing.T) {
	const length = 64 << 20
	path := filepath.Join(t.TempDir(), "payload")
	err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, length)) // zeros, which take no room on the disk
	f, errOpen := os.Open(path)
	if err := errors.Join(err, errOpen); err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); errors.Join(err, f.Close()) != nil {
		t.Fatal(err)
	}
	p := pack()
	p.Entries = append(p.Entries[:3:3], archive.Entry{Offset: 13, File: path, Length: length, Sum: offer.Digest(sum.Sum(nil))})
	files, _ := openFiles(t)
	a := archive.New(files, &keys{"k1"})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ref := mustWrite(t, a, p)
	c, err := a.Open(t.Context(), "demo", ref, 13, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, c)
	if err := errors.Join(err, c.Close()); err != nil || n != length {
		t.Errorf("got %d bytes, %v, want %d", n, err, length)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
		t.Errorf("%d MiB were allocated to write, verify and read %d MiB", got>>20, length>>20)
	}
}

// A store that breaks off in the middle of an object says nothing about the object.
func TestAReadThatBreaksOffIsNoFaultOfTheEvidence(t *testing.T) {
	store := &memory{}
	a := archive.New(store, &keys{"k1"})
	ref := mustWrite(t, a, large(t, 2<<20))
	for _, at := range []int64{0, 5, 30, 400, 500, 600, 700, 1 << 20, ref.Length - 1, ref.Length} {
		_, err := archive.New(&breaking{store, at}, &keys{"k1"}).Verify(t.Context(), "demo", ref)
		var coded interface{ Code() string }
		if !errors.Is(err, errStore) || errors.As(err, &coded) {
			t.Errorf("broken off after %d bytes: got %v, want the store's error without a code", at, err)
		}
	}
}

// breaking is a store whose objects cannot be read on from a place.
type breaking struct {
	archive.Store
	at int64
}

func (b *breaking) Get(ctx context.Context, name string, offset int64) (io.ReadCloser, error) {
	r, err := b.Store.Get(ctx, name, offset)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(io.MultiReader(io.LimitReader(r, b.at-offset), iotest.ErrReader(errStore))), nil
}

func TestAStoreThatIsDownIsNoFaultOfTheEvidence(t *testing.T) {
	full := errors.New("no space left on device")
	store := &memory{down: full}
	a := archive.New(store, &keys{"k1"})
	_, err := a.Write(t.Context(), pack())
	var coded interface{ Code() string }
	if !errors.Is(err, full) || errors.As(err, &coded) {
		t.Errorf("got %v, want the store's error without a code", err)
	}
	if len(store.objects) != 0 {
		t.Error("a failed write left an object")
	}
	store.down = nil
	if ref := mustWrite(t, a, pack()); ref.Reused {
		t.Error("the write after it found an object")
	}
}

func TestPackName(t *testing.T) {
	base := pack().Name()
	for sentence, change := range map[string]func(*archive.Pack){
		"other content":            func(p *archive.Pack) { p.Entries[3] = entry(14, 0, "LAST") },
		"one entry less":           func(p *archive.Pack) { p.Entries = p.Entries[:3] },
		"an entry elsewhere":       func(p *archive.Pack) { p.Entries[3].Offset = 13 },
		"another item of a batch":  func(p *archive.Pack) { p.Entries[3].Item = 1 },
		"another tenant":           func(p *archive.Pack) { p.Tenant = "acme" },
		"another topic":            func(p *archive.Pack) { p.TopicID[0]++ },
		"another partition":        func(p *archive.Pack) { p.Partition++ },
		"a batch that begins less": func(p *archive.Pack) { p.First-- },
		"a batch that ends later":  func(p *archive.Pack) { p.Last++ },
	} {
		p := pack()
		change(p)
		if p.Name() == base {
			t.Errorf("%s: got the same name %s", sentence, base)
		}
	}
	for tenant, want := range map[string]string{"demo": "demo", "_system": "_system", "a/b": "a%2Fb", "..": "%2E.", ".tmp": "%2Etmp", "é%": "%C3%A9%25"} {
		p := pack()
		p.Tenant = tenant
		if got, _, _ := strings.Cut(p.Name(), "/"); got != want {
			t.Errorf("tenant %q: got %q, want %q", tenant, got, want)
		}
		files, _ := openFiles(t)
		mustWrite(t, archive.New(files, &keys{"k1"}), p)
	}
}

func TestWriteRefusesWhatNoBatchMayHandIn(t *testing.T) {
	for sentence, change := range map[string]func(*archive.Pack){
		"no tenant":           func(p *archive.Pack) { p.Tenant = "" },
		"no entries":          func(p *archive.Pack) { p.Entries = nil },
		"offset before first": func(p *archive.Pack) { p.Entries[0].Offset = 9 },
		"offset after last":   func(p *archive.Pack) { p.Entries[3].Offset = 15 },
		"negative item":       func(p *archive.Pack) { p.Entries[0].Item = -1 },
		"an entry twice":      func(p *archive.Pack) { p.Entries[1] = p.Entries[0] },
		"entries unsorted":    func(p *archive.Pack) { slices.Reverse(p.Entries) },
	} {
		store, p := &memory{}, pack()
		change(p)
		if _, err := archive.New(store, &keys{"k1"}).Write(t.Context(), p); err == nil || len(store.objects) > 0 {
			t.Errorf("%s: got %v and %d objects, want an error and none", sentence, err, len(store.objects))
		}
	}
	wrong := pack()
	wrong.Entries[0].Sum[0]++
	_, err := archive.New(&memory{}, &keys{"k1"}).Write(t.Context(), wrong)
	wantMismatch(t, "a digest of another payload", wrong.Name(), err)
}

// The associated data binds an entry to its tenant, object and place: with keys that all tenants share, nothing else
// would keep a stored entry from being shown as another one.
func TestAnEntryOpensOnlyWhereItBelongs(t *testing.T) {
	store := &memory{}
	a := archive.New(store, &keys{"k1"})
	ref := mustWrite(t, a, pack())
	_, content := store.only(t)

	_, err := a.Read(t.Context(), "acme", ref, 10, 0)
	wantMismatch(t, "another tenant", ref.Name, err)

	moved := ref
	moved.Name = strings.Replace(ref.Name, "/3/", "/4/", 1)
	store.objects[moved.Name] = content
	_, err = a.Read(t.Context(), "demo", moved, 10, 0)
	wantMismatch(t, "another object", moved.Name, err)

	// The payloads of the first and third entry have the same length, so their sealed bytes can change places.
	const sealed, header = 22 + 28, 8 + 1 + 1 + 2 + 4
	first := header + 4*(8+4+4+32+8+32)
	third := first + sealed + 28
	swapped := bytes.Clone(content)
	copy(swapped[first:], content[third:third+sealed])
	copy(swapped[third:], content[first:first+sealed])
	store.objects[ref.Name] = swapped
	_, err = a.Read(t.Context(), "demo", ref, 10, 0)
	wantMismatch(t, "another entry", ref.Name, err)

	store.objects[ref.Name] = content
	_, err = a.Read(t.Context(), "demo", ref, 11, 0)
	wantMismatch(t, "an entry that is not there", ref.Name, err)
	if _, err := a.Read(t.Context(), "demo", ref, 10, 0); err != nil {
		t.Errorf("the entry itself: %v", err)
	}
}

func TestRotationLeavesOldObjectsReadable(t *testing.T) {
	store, ks := &memory{}, &keys{"k1"}
	a := archive.New(store, ks)
	old := mustWrite(t, a, pack())
	ks.current = "k2"

	if got, err := a.Read(t.Context(), "demo", old, 10, 0); err != nil || string(got.Payload) != token {
		t.Errorf("old object: got %q, %v", got.Payload, err)
	}
	if again := mustWrite(t, a, pack()); !again.Reused || again.KeyID != "k1" {
		t.Errorf("a retry after the rotation: got %+v, want the object under k1 reused", again)
	}
	p := pack()
	p.Last++
	if fresh := mustWrite(t, a, p); fresh.KeyID != "k2" {
		t.Errorf("new object: got key %s, want k2", fresh.KeyID)
	}
	old.KeyID = "k2"
	_, err := a.Read(t.Context(), "demo", old, 10, 0)
	wantMismatch(t, "a row that names another key", old.Name, err)
}

func TestAPackReadsBackAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &archive.Pack{Tenant: rapid.StringN(1, 20, 40).Draw(t, "tenant"), TopicID: topic, First: 0, Last: 40}
		payloads := rapid.MapOfN(rapid.Int64Range(0, 40), rapid.SliceOf(rapid.Byte()), 1, 10).Draw(t, "payloads")
		for _, offset := range slices.Sorted(maps.Keys(payloads)) {
			e := entry(offset, 0, string(payloads[offset]))
			e.Envelope = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "envelope")
			p.Entries = append(p.Entries, e)
		}
		a := archive.New(&memory{}, &keys{"k1"})
		ref, err := a.Write(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		members, err := a.Verify(context.Background(), p.Tenant, ref)
		if err != nil || len(members) != len(p.Entries) {
			t.Fatalf("verify: got %d members, %v, want %d", len(members), err, len(p.Entries))
		}
		for i, e := range p.Entries {
			if want := (archive.Member{Offset: e.Offset, Item: e.Item, Length: int64(len(e.Payload)), Sum: e.Sum}); members[i] != want {
				t.Errorf("got member %+v, want %+v", members[i], want)
			}
			got, err := a.Read(context.Background(), p.Tenant, ref, e.Offset, e.Item)
			if err != nil || !bytes.Equal(got.Payload, e.Payload) || !bytes.Equal(got.Envelope, e.Envelope) {
				t.Errorf("got %q in %q, %v, want %q in %q", got.Payload, got.Envelope, err, e.Payload, e.Envelope)
			}
		}
	})
}

// FuzzVerify opens what anyone may have put into the store.
func FuzzVerify(f *testing.F) {
	store := &memory{}
	a := archive.New(store, &keys{"k1"})
	ref, err := a.Write(context.Background(), pack())
	if err != nil {
		f.Fatal(err)
	}
	good := store.objects[ref.Name]
	f.Add(good)
	f.Add(good[:40])
	f.Add(binary.BigEndian.AppendUint32([]byte("offerlog\x01\x02k1"), 1<<31))
	f.Fuzz(func(t *testing.T, content []byte) {
		store.objects[ref.Name] = content
		members, err := a.Verify(t.Context(), "demo", ref)
		if err != nil {
			wantMismatch(t, "other bytes", ref.Name, err)
			return
		}
		// Each process seals with other nonces, so other bytes can be right; but they hold the same.
		for i, e := range pack().Entries {
			if members[i].Sum != e.Sum {
				t.Errorf("entry %d: got digest %s, want %s", i, members[i].Sum, e.Sum)
			}
		}
	})
}
