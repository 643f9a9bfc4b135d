package archive

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/tink-crypto/tink-go/v2/aead/subtle"

	"github.com/offerlog/offerlog/pkg/offer"
)

// An object's bytes, all numbers big endian:
//
//	header      "offerlog" and the version      8 + 1
//	key id      length 1, then its text
//	count       of entries                      4
//	table       count times: offset 8, item 4, envelope length 4, envelope SHA-256 32, payload length 8, payload SHA-256 32
//	entries     count times: nonce 12, ciphertext (envelope, then payload), tag 16
//
// The table is in the clear, and its digest is part of the object's name. Each entry is AES-256-GCM under a key that HKDF
// derives from the tenant's key and the name, with tenant, name, place and digest as associated data: an entry that was
// moved to another place, object or tenant does not open.
const (
	header      = "offerlog\x01"
	memberBytes = 8 + 4 + 4 + sha256.Size + 8 + sha256.Size
	sealBytes   = subtle.AESGCMIVSize + subtle.AESGCMTagSize
)

// objectKey derives the key of the object name.
func objectKey(key Key, name string) (*subtle.AESGCM, error) {
	derived, err := hkdf.Key(sha256.New, key.Secret, nil, "offerlog archive 1\n"+name, 32)
	if err != nil {
		return nil, fmt.Errorf("derive key of object %s: %w", name, err)
	}
	return subtle.NewAESGCM(derived)
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

// seal writes the object of a pack.
func seal(p *Pack, name string, key Key) ([]byte, error) {
	aead, err := objectKey(key, name)
	if err != nil {
		return nil, err
	}
	if len(key.ID) > 255 {
		return nil, fmt.Errorf("key id of %d bytes: at most 255", len(key.ID))
	}
	size := len(header) + 1 + len(key.ID) + 4
	for _, e := range p.Entries {
		size += memberBytes + sealBytes + len(e.Envelope) + len(e.Payload)
	}
	b := make([]byte, 0, size)
	b = append(b, header...)
	b = append(b, byte(len(key.ID))) //nolint:gosec // at most 255, above
	b = append(b, key.ID...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(p.Entries))) //nolint:gosec // a batch is bounded by its 64 MiB
	for _, e := range p.Entries {
		envelope := offer.Sum(e.Envelope)
		b = e.at().encode(b)
		b = binary.BigEndian.AppendUint32(b, uint32(len(e.Envelope))) //nolint:gosec // attributes are bounded by the record's size
		b = append(b, envelope[:]...)
		b = binary.BigEndian.AppendUint64(b, uint64(len(e.Payload)))
		b = append(b, e.Sum[:]...)
	}
	for _, e := range p.Entries {
		sealed, err := aead.Encrypt(slices.Concat(e.Envelope, e.Payload), associate(p.Tenant, name, e.at(), e.Sum))
		if err != nil {
			return nil, fmt.Errorf("seal offset %d item %d: %w", e.Offset, e.Item, err)
		}
		b = append(b, sealed...)
	}
	return b, nil
}

// An object is one that was read: its table agrees with its name, its entries are still sealed.
type object struct {
	name, tenant string
	keyID        string
	length       int64
	table        []Member
	envelopes    []envelope
	sealed       [][]byte
	aead         *subtle.AESGCM
}

// An envelope is what the table says of an entry's.
type envelope struct {
	length int
	sum    offer.Digest
}

// parse reads an object's table and holds it against the name. Whatever does not fit is a *DigestError.
func parse(name, tenant string, content []byte) (*object, error) {
	o := &object{name: name, tenant: tenant, length: int64(len(content))}
	content, ok := bytes.CutPrefix(content, []byte(header))
	if !ok {
		return nil, o.damaged("its first bytes are not those of an archive object")
	}
	take := func(n int) []byte {
		if n > len(content) {
			content, ok = nil, false
			return make([]byte, n)
		}
		part := content[:n]
		content = content[n:]
		return part
	}
	o.keyID = string(take(int(take(1)[0])))
	count := binary.BigEndian.Uint32(take(4))
	if uint64(count)*(memberBytes+sealBytes) > uint64(len(content)) {
		return nil, o.damaged("it is shorter than its table")
	}
	var d nameDigest
	o.table, o.envelopes = make([]Member, count), make([]envelope, count)
	for i := range o.table {
		m, e := &o.table[i], &o.envelopes[i]
		row := take(memberBytes)
		m.Offset = int64(binary.BigEndian.Uint64(row)) //nolint:gosec // any value: the digest of the table decides
		m.Item = int(binary.BigEndian.Uint32(row[8:]))
		e.length = int(binary.BigEndian.Uint32(row[12:]))
		e.sum = offer.Digest(row[16:])
		m.Length = int64(binary.BigEndian.Uint64(row[48:])) //nolint:gosec // checked below against what is there
		m.Sum = offer.Digest(row[56:])
		d.add(m.at(), e.sum, m.Sum)
	}
	if want := name[strings.LastIndexByte(name, '/')+1:]; d.sum().String() != want {
		return nil, o.damaged("its table does not have the digest in its name")
	}
	o.sealed = make([][]byte, count)
	for i, m := range o.table {
		if m.Length < 0 || m.Length > int64(len(content)) || o.envelopes[i].length > len(content) {
			return nil, o.mismatch(m.at(), "the object ends before it")
		}
		o.sealed[i] = take(o.envelopes[i].length + int(m.Length) + sealBytes)
	}
	if !ok || len(content) > 0 {
		return nil, o.damaged("its length is not that of its table")
	}
	return o, nil
}

// unseal returns entry i, verified.
func (o *object) unseal(i int) (Entry, error) {
	m := o.table[i]
	plain, err := o.aead.Decrypt(o.sealed[i], associate(o.tenant, o.name, m.at(), m.Sum))
	if err != nil {
		return Entry{}, o.mismatch(m.at(), "it does not decrypt")
	}
	want := o.envelopes[i]
	e := Entry{Offset: m.Offset, Item: m.Item, Envelope: plain[:want.length:want.length], Payload: plain[want.length:], Sum: m.Sum}
	if have := offer.Sum(e.Payload); have != m.Sum {
		return Entry{}, o.mismatch(m.at(), fmt.Sprintf("digest %s, want %s", have, m.Sum))
	}
	if have := offer.Sum(e.Envelope); have != want.sum {
		return Entry{}, o.mismatch(m.at(), fmt.Sprintf("digest of the envelope %s, want %s", have, want.sum))
	}
	return e, nil
}

func (o *object) unsealAll() error {
	for i := range o.table {
		if _, err := o.unseal(i); err != nil {
			return err
		}
	}
	return nil
}

func (o *object) find(at place) (int, bool) {
	return slices.BinarySearchFunc(o.table, at, func(m Member, at place) int { return m.at().compare(at) })
}

func (o *object) damaged(problem string) *DigestError {
	return &DigestError{Object: o.name, Offset: -1, Problem: problem}
}

func (o *object) mismatch(at place, problem string) *DigestError {
	return &DigestError{Object: o.name, Offset: at.offset, Item: at.item, Problem: problem}
}
