package archive

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/offerlog/offerlog/pkg/offer"
)

// An Entry is one payload of a pack, with what came around it. The payload is in memory, or in a file that stays as it is
// until the pack is written.
type Entry struct {
	Offset   int64  // of the record
	Item     int    // of the event in a record that holds a batch; else 0
	Envelope []byte // what else of the event is needed to read the payload again, in the caller's form
	Payload  []byte
	File     string       // path of the payload; "": it is Payload
	Length   int64        // of the payload in File, in bytes
	Sum      offer.Digest // of the payload
}

// size is the length of the payload.
func (e *Entry) size() int64 {
	if e.File != "" {
		return e.Length
	}
	return int64(len(e.Payload))
}

// A Pack is what one object holds: the payloads of one tenant in one batch of one partition.
type Pack struct {
	Tenant      string
	TopicID     uuid.UUID
	Partition   int32
	First, Last int64   // offsets that the batch spans
	Entries     []Entry // by rising offset and item; at least one
}

// Name is tenant/topic-id/partition/first-last/digest, the tenant percent-encoded. The digest covers each entry's offset,
// item and the SHA-256 of payload and envelope, so a pack with other content has another name, and the same pack has the same one on every attempt.
func (p *Pack) Name() string {
	var d nameDigest
	for _, e := range p.Entries {
		d.add(e.at(), offer.Sum(e.Envelope), e.Sum)
	}
	return fmt.Sprintf("%s/%s/%d/%d-%d/%s", escapeTenant(p.Tenant), p.TopicID, p.Partition, p.First, p.Last, d.sum())
}

// large reports whether a payload of the pack is in a file.
func (p *Pack) large() bool {
	return slices.ContainsFunc(p.Entries, func(e Entry) bool { return e.File != "" })
}

// check finds what no batch may hand in.
func (p *Pack) check() error {
	if p.Tenant == "" || len(p.Entries) == 0 {
		return errors.New("a pack needs a tenant and entries")
	}
	before := place{-1, 0}
	for _, e := range p.Entries {
		if e.Offset < p.First || e.Offset > p.Last {
			return fmt.Errorf("offset %d is outside %d-%d", e.Offset, p.First, p.Last)
		}
		if e.Item < 0 || e.Item > math.MaxInt32 {
			return fmt.Errorf("offset %d: item %d is outside 0-%d", e.Offset, e.Item, math.MaxInt32)
		}
		if e.File != "" && (e.Length < 0 || e.Length > maxPayload || len(e.Payload) > 0) {
			return fmt.Errorf("offset %d: a payload is in memory, or has up to %d bytes in a file; this one has %d and %d", e.Offset, maxPayload, len(e.Payload), e.Length)
		}
		at := e.at()
		if before.compare(at) >= 0 {
			return fmt.Errorf("offset %d item %d is out of order", e.Offset, e.Item)
		}
		before = at
	}
	return nil
}

// A place names an entry of a pack.
type place struct {
	offset int64
	item   int
}

func (e *Entry) at() place { return place{e.Offset, e.Item} }

func (at place) compare(other place) int {
	return cmp.Or(cmp.Compare(at.offset, other.offset), cmp.Compare(at.item, other.item))
}

// encode is the form of a place in tables, digests and associated data: 8 and 4 bytes, big endian.
func (at place) encode(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(at.offset))  //nolint:gosec // offsets are not negative
	return binary.BigEndian.AppendUint32(b, uint32(at.item)) //nolint:gosec // bounded by Pack.check
}

// nameDigest builds the last part of an object's name.
type nameDigest struct{ members []byte }

func (d *nameDigest) add(at place, envelope, payload offer.Digest) {
	d.members = append(append(at.encode(d.members), envelope[:]...), payload[:]...)
}

func (d *nameDigest) sum() offer.Digest { return sha256.Sum256(d.members) }

// escapeTenant leaves no slash, and no leading dot: a store may take "." and ".." for folders, and hide such names.
func escapeTenant(tenant string) string {
	s := url.PathEscape(tenant)
	if rest, ok := strings.CutPrefix(s, "."); ok {
		return "%2E" + rest
	}
	return s
}
