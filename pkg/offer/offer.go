// Package offer holds the words of offerlog: who a claim is about, what was claimed, and which claim is newer.
//
// It keeps no table and does no I/O; every other package may import it. Identities here are derived from what they
// identify, so the same work done again, on any machine, names the same things.
package offer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// SystemTenant owns what no tenant can be named for: deliveries that no feed expects.
const SystemTenant = "_system"

// A Digest is a SHA-256 over a documented form of something.
type Digest [sha256.Size]byte

// Sum returns the digest of b.
func Sum(b []byte) Digest { return sha256.Sum256(b) }

// String is lower-case hex.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText writes the digest as String does.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *Digest) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(d) {
		return fmt.Errorf("read a digest: got %d characters, want %d", len(text), hex.EncodedLen(len(d)))
	}
	if _, err := hex.Decode(d[:], text); err != nil {
		return fmt.Errorf("read a digest: %w", err)
	}
	return nil
}

// Plus is the sum of two digests modulo 2^256, as big-endian numbers: that of several is theirs in whatever order.
func (d Digest) Plus(other Digest) (sum Digest) {
	var carry uint64
	for i := len(d) - 8; i >= 0; i -= 8 {
		var word uint64
		word, carry = bits.Add64(binary.BigEndian.Uint64(d[i:]), binary.BigEndian.Uint64(other[i:]), carry)
		binary.BigEndian.PutUint64(sum[i:], word)
	}
	return sum
}

// DigestPrefix stands before a digest that a publisher declares, and says of which kind it is.
const DigestPrefix = "sha256:"

// Ids are derived UUIDs (version 8, RFC 9562), each from the parts named at its constructor.
type (
	// DeliveryID names a delivery: derived from its replay key.
	DeliveryID uuid.UUID
	// OfferID names an offer: derived from tenant, account and record.
	OfferID uuid.UUID
	// ObservationID names an observation: derived from its offer, revision key and mapping version.
	ObservationID uuid.UUID
)

// String is the usual form of a UUID.
func (id DeliveryID) String() string { return uuid.UUID(id).String() }

// String is the usual form of a UUID.
func (id OfferID) String() string { return uuid.UUID(id).String() }

// String is the usual form of a UUID.
func (id ObservationID) String() string { return uuid.UUID(id).String() }

// A Source says who a delivery comes from. It is known from the feed's registration and never from an event.
type Source struct {
	Tenant    string
	Connector string // which code fetched it
	Account   string // with which login at the supplier
}

// A ReplayKey names a delivery's intent: a CloudEvent's source and id within a Source, or what its feed declares in place of
// the id. Two deliveries with one replay key are the same delivery, sent twice.
type ReplayKey struct {
	Source
	EventSource string
	EventID     string
	Declared    string // as DeclareFields or DeclareFallback write it; "": the event's id counts
}

// ID derives the delivery's id.
func (k ReplayKey) ID() DeliveryID {
	if k.Declared != "" {
		// No event has an empty id, so what is declared meets no id.
		return DeliveryID(Derive("delivery", k.Tenant, k.Connector, k.Account, k.EventSource, "", k.Declared))
	}
	return DeliveryID(Derive("delivery", k.Tenant, k.Connector, k.Account, k.EventSource, k.EventID))
}

// String is tenant/connector/account/source/id, each part percent-encoded. What is declared stands as it is in place of the
// id, which it cannot be taken for: of an id neither = nor : is left as it is.
func (k ReplayKey) String() string {
	if k.Declared != "" {
		return JoinKey(k.Tenant, k.Connector, k.Account, k.EventSource) + "/" + k.Declared
	}
	return JoinKey(k.Tenant, k.Connector, k.Account, k.EventSource, k.EventID)
}

// Weak tells whether the key is a fallback, and two deliveries may share it by chance.
func (k ReplayKey) Weak() bool { return strings.HasPrefix(k.Declared, fallback) }

// Strength is the word for how far an identity or an order can be trusted.
func Strength(strong bool) string {
	if strong {
		return "strong"
	}
	return "weak"
}

const fallback = "fallback:"

// DeclareFields is name=value&name=value by name, the values percent-encoded: what names a delivery whose feed declares
// attributes for that.
func DeclareFields(values map[string]string) string {
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(values)) {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(name)
		b.WriteByte('=')
		escape(&b, values[name])
	}
	return b.String()
}

// DeclareFallback is fallback:UUID, derived from the inputs: what names a delivery whose source does not.
func DeclareFallback(inputs map[string]string) string {
	parts := make([]string, 0, 2*len(inputs))
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		parts = append(parts, name, inputs[name])
	}
	return fallback + Derive("fallback", parts...).String()
}

// ParseReplayKey reads the form that ReplayKey.String writes.
func ParseReplayKey(s string) (ReplayKey, error) {
	declared := ""
	if last := strings.LastIndexByte(s, '/') + 1; strings.ContainsAny(s[last:], "=:") { // of an id they are encoded
		s, declared = s[:last], s[last:]
	}
	parts, err := SplitKey(s)
	if err != nil {
		return ReplayKey{}, fmt.Errorf("parse replay key: %w", err)
	}
	if len(parts) != 5 {
		return ReplayKey{}, fmt.Errorf("parse replay key %q: it has %d parts, want tenant/connector/account/source/id, each percent-encoded", s+declared, len(parts))
	}
	return ReplayKey{Source{parts[0], parts[1], parts[2]}, parts[3], parts[4], declared}, nil
}

// A Key names an offer: one line of one supplier account's range.
type Key struct {
	Tenant  string
	Account string
	Record  string // the supplier's own identifier of the line
}

// ID derives the offer's id.
func (k Key) ID() OfferID { return OfferID(Derive("offer", k.Tenant, k.Account, k.Record)) }

// String is tenant/account/record, each part percent-encoded: the key of the offer's events on every topic.
func (k Key) String() string { return JoinKey(k.Tenant, k.Account, k.Record) }

// ParseKey reads the form that Key.String writes.
func ParseKey(s string) (Key, error) {
	parts, err := SplitKey(s)
	if err != nil {
		return Key{}, fmt.Errorf("parse offer key: %w", err)
	}
	if len(parts) != 3 {
		return Key{}, fmt.Errorf("parse offer key %q: want tenant/account/record, each percent-encoded", s)
	}
	return Key{parts[0], parts[1], parts[2]}, nil
}

// SplitKey reads the form that JoinKey writes.
func SplitKey(s string) ([]string, error) {
	parts := strings.Split(s, "/")
	for i, p := range parts {
		u, err := unescape(p)
		if err != nil {
			return nil, fmt.Errorf("split %q: %w", s, err)
		}
		parts[i] = u
	}
	return parts, nil
}

// Observe derives the id of the observation that states revision of an offer under a mapping version.
func (id OfferID) Observe(revision string, mappingVersion int) ObservationID {
	return ObservationID(Derive("observation", id.String(), revision, fmt.Sprint(mappingVersion)))
}

// Derive makes a version 8 UUID from a kind and parts. Parts are length-prefixed, so ("a","bc") and ("ab","c") differ.
func Derive(kind string, parts ...string) uuid.UUID {
	h := sha256.New()
	var n [4]byte
	for _, p := range append([]string{"offerlog", kind}, parts...) {
		binary.BigEndian.PutUint32(n[:], uint32(len(p))) //nolint:gosec // parts are bounded by the 16 MiB payload limit
		h.Write(n[:])
		h.Write([]byte(p))
	}
	var id uuid.UUID
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// JoinKey is the form of the keys of all events: the parts, each percent-encoded, between slashes.
func JoinKey(parts ...string) string {
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteByte('/')
		}
		escape(&b, p)
	}
	return b.String()
}

// escape percent-encodes all but the unreserved characters of RFC 3986, and knows no exception, so that equal keys have
// equal text everywhere.
func escape(b *strings.Builder, s string) {
	const digits = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
}

func unescape(s string) (string, error) {
	if !strings.Contains(s, "%") {
		return s, nil
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", fmt.Errorf("percent sign at %d has no two hex digits", i+1)
		}
		c, err := hex.DecodeString(s[i+1 : i+3])
		if err != nil {
			return "", fmt.Errorf("percent sign at %d has no two hex digits", i+1)
		}
		b = append(b, c[0])
		i += 2
	}
	return string(b), nil
}
