package archive

import (
	"bufio"
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/tink-crypto/tink-go/v2/aead/subtle"
	streaming "github.com/tink-crypto/tink-go/v2/streamingaead/subtle"

	"github.com/offerlog/offerlog/pkg/offer"
)

// An object's bytes, all numbers big endian:
//
//	header      "offerlog" and the version      8 + 1
//	key id      length 1, then its text
//	count       of entries                      4
//	table       count times: offset 8, item 4, envelope length 4, envelope SHA-256 32, payload length 8, payload SHA-256 32
//	entries     count times: envelope, then payload, sealed together
//
// The table is in the clear, and its digest is part of the object's name. An entry of at most segmentBytes is sealed whole:
// nonce 12, ciphertext, tag 16 of AES-256-GCM. A longer one is sealed in segments of that size (AES256_GCM_HKDF_1MB of Tink:
// a salt and a nonce's prefix, then segments, each numbered, the last one marked), so that it can be written and read
// without being held. Both have keys that HKDF derives from the tenant's key and the name, with tenant, name, place and
// digest as associated data: an entry that was moved to another place, object or tenant does not open.
const (
	header       = "offerlog\x01"
	memberBytes  = 8 + 4 + 4 + sha256.Size + 8 + sha256.Size
	sealBytes    = subtle.AESGCMIVSize + subtle.AESGCMTagSize
	segmentBytes = 1 << 20
	// maxPayload bounds what a table may claim, far above what a store takes.
	maxPayload = 1 << 44
)

// seals are the ciphers of one object.
type seals struct {
	whole    *subtle.AESGCM
	segments *streaming.AESGCMHKDF
}

// objectSeals derives the ciphers of the object name.
func objectSeals(key Key, name string) (s seals, err error) {
	derive := func(purpose string) (secret []byte) {
		if err == nil {
			secret, err = hkdf.Key(sha256.New, key.Secret, nil, purpose+"\n"+name, secretBytes)
		}
		return secret
	}
	whole, segments := derive("offerlog archive 1"), derive("offerlog archive 1 segments")
	if err == nil {
		s.whole, err = subtle.NewAESGCM(whole)
	}
	if err == nil {
		s.segments, err = streaming.NewAESGCMHKDF(segments, "SHA256", secretBytes, segmentBytes, 0)
	}
	if err != nil {
		return seals{}, fmt.Errorf("derive the keys of object %s: %w", name, err)
	}
	return s, nil
}

// sealedSize is how many bytes an entry of plain ones takes.
func sealedSize(plain int64) int64 {
	if plain <= segmentBytes {
		return plain + sealBytes
	}
	const head = 1 + secretBytes + streaming.AESGCMHKDFNoncePrefixSizeInBytes
	const perSegment = segmentBytes - streaming.AESGCMHKDFTagSizeInBytes
	segments := (head + plain + perSegment - 1) / perSegment // the head is part of the first one
	return head + plain + segments*streaming.AESGCMHKDFTagSizeInBytes
}

// associate is the associated data of one entry; each text is prefixed with its length.
func associate(tenant, name string, at place, sum offer.Digest) []byte {
	b := make([]byte, 0, 64+len(tenant)+len(name))
	for _, s := range [...]string{tenant, name} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	return append(at.encode(b), sum[:]...)
}

// A sealer writes the object of a pack.
type sealer struct {
	pack  *Pack
	name  string
	size  int64 // of the object
	key   string
	seals seals
}

func newSealer(p *Pack, name string, key Key) (*sealer, error) {
	if len(key.ID) > 255 {
		return nil, fmt.Errorf("key id of %d bytes: at most 255", len(key.ID))
	}
	seals, err := objectSeals(key, name)
	if err != nil {
		return nil, err
	}
	s := &sealer{p, name, int64(len(header) + 1 + len(key.ID) + 4), key.ID, seals}
	for i := range p.Entries {
		s.size += memberBytes + sealedSize(int64(len(p.Entries[i].Envelope))+p.Entries[i].size())
	}
	return s, nil
}

func (s *sealer) writeTo(w io.Writer) error {
	entries := s.pack.Entries
	b := append([]byte(header), byte(len(s.key))) //nolint:gosec // at most 255
	b = append(b, s.key...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(entries))) //nolint:gosec // a batch is bounded by its 64 MiB
	for i := range entries {
		e := &entries[i]
		envelope := offer.Sum(e.Envelope)
		b = e.at().encode(b)
		b = binary.BigEndian.AppendUint32(b, uint32(len(e.Envelope))) //nolint:gosec // attributes are bounded by the record's size
		b = append(b, envelope[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(e.size())) //nolint:gosec // a length
		b = append(b, e.Sum[:]...)
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	for i := range entries {
		if err := s.entry(w, &entries[i]); err != nil {
			return fmt.Errorf("seal offset %d item %d: %w", entries[i].Offset, entries[i].Item, err)
		}
	}
	return nil
}

func (s *sealer) entry(w io.Writer, e *Entry) error {
	data := associate(s.pack.Tenant, s.name, e.at(), e.Sum)
	if plain := int64(len(e.Envelope)) + e.size(); plain <= segmentBytes {
		b := bytes.NewBuffer(make([]byte, 0, plain))
		b.Write(e.Envelope)
		if err := s.payload(b, e); err != nil {
			return err
		}
		sealed, err := s.seals.whole.Encrypt(b.Bytes(), data)
		if err == nil {
			_, err = w.Write(sealed)
		}
		return err
	}
	sealing, err := s.seals.segments.NewEncryptingWriter(w, data)
	if err == nil {
		_, err = sealing.Write(e.Envelope)
	}
	if err == nil {
		err = s.payload(sealing, e)
	}
	if err != nil {
		return err
	}
	return sealing.Close()
}

// payload writes the payload of an entry. A file that is not what the entry says would seal what its digest denies.
func (s *sealer) payload(w io.Writer, e *Entry) error {
	if e.File == "" {
		_, err := w.Write(e.Payload)
		return err
	}
	f, err := os.Open(e.File)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(f, e.Length)); err != nil {
		return err
	}
	if have := offer.Digest(sum.Sum(nil)); have != e.Sum {
		return &DigestError{s.name, e.Offset, e.Item, fmt.Sprintf("the first %d bytes of its file have digest %s, want %s", e.Length, have, e.Sum)}
	}
	return nil
}

// An object is one that is being read: its table agrees with its name, and its entries come one after the other.
type object struct {
	name, tenant string
	body         *source
	keyID        string
	table        []Member
	envelopes    []envelope
	seals        seals
}

// An envelope is what the table says of an entry's.
type envelope struct {
	length int64
	sum    offer.Digest
}

// nowhere is the place of what concerns an object as a whole.
var nowhere = place{offset: -1}

// A source is the bytes of an object. It remembers what kept it from reading, which is no fault of the object.
type source struct {
	*bufio.Reader
	body   io.ReadCloser
	broken error
}

func newSource(body io.ReadCloser) *source {
	s := &source{body: body}
	s.Reader = bufio.NewReaderSize(reader(func(p []byte) (int, error) {
		n, err := body.Read(p)
		if err != nil && err != io.EOF {
			s.broken = err
		}
		return n, err
	}), 32<<10)
	return s
}

// A reader is a function that reads.
type reader func(p []byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

// readTable reads all that comes before the entries and holds it against the name. What does not fit is a *DigestError.
func (o *object) readTable() error {
	var start [len(header) + 1]byte
	if _, err := io.ReadFull(o.body, start[:]); err != nil || string(start[:len(header)]) != header {
		return o.wrong(nowhere, "its first bytes are not those of an archive object")
	}
	rest := make([]byte, int(start[len(header)])+4) // key id and count
	if _, err := io.ReadFull(o.body, rest); err != nil {
		return o.wrong(nowhere, "it is shorter than its table")
	}
	text, count := rest[:len(rest)-4], binary.BigEndian.Uint32(rest[len(rest)-4:])
	o.keyID = string(text)
	var d nameDigest
	row := make([]byte, memberBytes)
	for range count {
		if _, err := io.ReadFull(o.body, row); err != nil {
			return o.wrong(nowhere, "it is shorter than its table")
		}
		m := Member{
			Offset: int64(binary.BigEndian.Uint64(row)), //nolint:gosec // any value: the digest of the table decides
			Item:   int(binary.BigEndian.Uint32(row[8:])),
			Length: int64(binary.BigEndian.Uint64(row[48:])), //nolint:gosec // checked below
			Sum:    offer.Digest(row[56:]),
		}
		e := envelope{int64(binary.BigEndian.Uint32(row[12:])), offer.Digest(row[16:])}
		if m.Length < 0 || m.Length > maxPayload {
			return o.mismatch(m.at(), fmt.Sprintf("a payload of %d bytes", m.Length))
		}
		o.table, o.envelopes = append(o.table, m), append(o.envelopes, e)
		d.add(m.at(), e.sum, m.Sum)
	}
	if want := o.name[strings.LastIndexByte(o.name, '/')+1:]; d.sum().String() != want {
		return o.damaged("its table does not have the digest in its name")
	}
	return nil
}

// begins is the offset of entry i in the object; after the last one, it is the object's size.
func (o *object) begins(i int) int64 {
	at := int64(len(header)+1+len(o.keyID)+4) + int64(len(o.table))*memberBytes
	for n := range i {
		at += sealedSize(o.envelopes[n].length + o.table[n].Length)
	}
	return at
}

func (o *object) size() int64 { return o.begins(len(o.table)) }

// unseal opens entry i, which is the next one of the body.
func (o *object) unseal(i int) (*Content, error) {
	m, e := o.table[i], o.envelopes[i]
	c := &Content{Member: m, object: o, sum: sha256.New()}
	data := associate(o.tenant, o.name, m.at(), m.Sum)
	size := sealedSize(e.length + m.Length)
	if e.length+m.Length <= segmentBytes {
		b := make([]byte, size)
		_, err := io.ReadFull(o.body, b)
		if err == nil {
			b, err = o.seals.whole.Decrypt(b, data)
		}
		if err != nil {
			return nil, o.wrong(m.at(), doesNotDecrypt)
		}
		c.Envelope, c.plain = b[:e.length:e.length], bytes.NewReader(b[e.length:])
	} else {
		var envelope bytes.Buffer // takes no more than there is
		var err error
		c.plain, err = o.seals.segments.NewDecryptingReader(io.LimitReader(o.body, size), data)
		if err == nil {
			_, err = io.CopyN(&envelope, c.plain, e.length)
		}
		if err != nil {
			return nil, o.wrong(m.at(), doesNotDecrypt)
		}
		c.Envelope = envelope.Bytes()
	}
	if have := offer.Sum(c.Envelope); have != e.sum {
		return nil, o.mismatch(m.at(), fmt.Sprintf("digest of the envelope %s, want %s", have, e.sum))
	}
	return c, nil
}

const doesNotDecrypt = "it does not decrypt"

// verify reads an object to its end and closes it.
func (o *object) verify() error {
	defer o.close()
	for i := range o.table {
		c, err := o.unseal(i)
		if err == nil {
			_, err = io.Copy(io.Discard, c)
		}
		if err != nil {
			return err
		}
	}
	if _, err := o.body.ReadByte(); err != io.EOF { //nolint:errorlint // readers return it as it is
		return o.wrong(nowhere, "it is longer than its table says")
	}
	return nil
}

func (o *object) close() { _ = o.body.body.Close() } // it was only read

func (o *object) find(at place) (int, bool) {
	return slices.BinarySearchFunc(o.table, at, func(m Member, at place) int { return m.at().compare(at) })
}

// wrong says what is wrong with an object, unless it could not be read.
func (o *object) wrong(at place, problem string) error {
	if o.body.broken != nil {
		return fmt.Errorf("object %s: %w", o.name, o.body.broken)
	}
	return o.mismatch(at, problem)
}

func (o *object) damaged(problem string) *DigestError { return o.mismatch(nowhere, problem) }

func (o *object) mismatch(at place, problem string) *DigestError {
	return &DigestError{Object: o.name, Offset: at.offset, Item: at.item, Problem: problem}
}

// A Content is one entry of an object, being read: its payload comes from Read, in order and as it was sent.
type Content struct {
	Member
	Envelope []byte // verified

	object *object
	plain  io.Reader
	sum    hash.Hash
	err    error
}

// Read implements io.Reader. All that it returns was sealed by whoever had the tenant's key; at the end stands io.EOF if the
// payload has its digest, and a *DigestError if not.
func (c *Content) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.plain.Read(p)
	c.sum.Write(p[:n])
	switch {
	case err == io.EOF:
		c.err = io.EOF
		if have := offer.Digest(c.sum.Sum(nil)); have != c.Sum {
			c.err = c.object.mismatch(c.at(), fmt.Sprintf("digest %s, want %s", have, c.Sum))
		}
	case err != nil:
		c.err = c.object.wrong(c.at(), doesNotDecrypt)
	}
	return n, c.err
}

// Close ends the reading, at whatever place.
func (c *Content) Close() error { return c.object.body.body.Close() }
