// Package delivery decodes a Kafka record into the CloudEvents that it carries, and writes our own.
//
// It keeps no table and no state. What a record says is decided here once, in all three content modes (binary,
// structured, batch); a record that is no CloudEvent becomes a fault beside whatever could be read of it, never an error,
// so that one publisher's mistake cannot stop a partition.
package delivery

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/offer"
)

// An Event is one CloudEvent of a record.
type Event struct {
	Item int // its place in a batch, from 0; 0 otherwise

	ID           string
	Source       string
	Type         string
	Subject      string
	Time         offer.Time // absent: zero
	RecordedTime offer.Time // the extension recordedtime; absent: zero

	// ContentType says how to read Data: datacontenttype, except that data sent as JSON text in a structured event is
	// UTF-8 whatever datacontenttype says about charsets, and is marked so. Absent: empty.
	ContentType string

	// Attributes holds every attribute and extension as text, by name, as sent: $ce of a mapping. Only well-formed ones
	// are in it, so that a refused event's attributes can be stored and shown too.
	Attributes map[string]string

	// Data is the payload as the supplier wrote it: a structured event's data as its JSON text, data_base64 decoded, a
	// JSON string under a content type other than JSON unquoted. It may share memory with the record.
	Data    []byte
	HasData bool // no data and data of zero bytes are two things
}

// Attributes of an event that does not carry its data.
const (
	Dataref    = "dataref"    // where the data is
	Datadigest = "datadigest" // its digest, offer.DigestPrefix and 64 hexadecimal digits; absent: not declared
)

// ByReference reports whether the event's data lies elsewhere. What an event carries comes first, and zero bytes carry
// nothing beside a reference: HTTP cannot tell them from no data.
func (e *Event) ByReference() bool { return len(e.Data) == 0 && e.Attributes[Dataref] != "" }

// An Item is one event of a record, or what is known of it where it is none.
type Item struct {
	Event Event        // complete where Fault is nil; else what could be read
	Fault *offer.Fault // not_a_cloudevent, unsupported_format or invalid_text; nil for an event

	// Raw is the evidence to keep: an event's Data; of what was refused the record's value, or the batch's element, as
	// sent. Nil where nothing was sent. A refused binary event's headers are in Event.Attributes.
	Raw []byte
}

// MaxInline is the largest payload that an event may carry, in bytes; what is larger is referred to by the attribute dataref.
const MaxInline = 16 << 20

// MaxBatch is how many events a batch may hold. A few bytes make an element, and each becomes an event in memory: a batch
// of more is refused before it is taken apart.
const MaxBatch = 10_000

// Names of headers.
const (
	headerPrefix      = "ce_" // of attributes
	headerContentType = "content-type"
)

// Content modes, as the media type in the header content-type tells them.
const (
	typePrefix     = "application/cloudevents"
	typeStructured = typePrefix + "+json"
	typeBatch      = typePrefix + "-batch+json"
)

// Decode reads the events of a record in the order of the batch; any other record gives exactly one item, an empty batch
// none. A batch that cannot be split into its elements is one refused item.
func Decode(rec *kgo.Record) []Item {
	contentType, twice := contentTypeOf(rec)
	switch media := mediaType(contentType); {
	case twice:
		return []Item{decodeBinary(rec)} // which refuses it, and reads what else is there
	case media == typeBatch:
		return decodeBatch(rec.Value)
	case media == typeStructured:
		return []Item{decodeStructured(rec.Value)}
	case strings.HasPrefix(media, typePrefix):
		return []Item{refuse(rec.Value, &offer.Fault{
			Reason:  offer.ReasonUnsupportedFormat,
			Detail:  "ce_unsupported_format",
			Message: "content type " + quote(media) + ": want " + typeStructured + ", " + typeBatch + " or binary mode",
		})}
	default:
		return []Item{decodeBinary(rec)}
	}
}

// mediaType is a content type without its parameters, in lower case.
func mediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// contentTypeOf returns the header that tells the mode, and whether it is there twice and could tell two.
func contentTypeOf(rec *kgo.Record) (value string, twice bool) {
	seen := false
	for _, h := range rec.Headers {
		if h.Key == headerContentType && h.Value != nil {
			value, twice, seen = string(h.Value), twice || seen, true
		}
	}
	return value, twice
}

func decodeBinary(rec *kgo.Record) Item {
	var a attributes
	for _, h := range rec.Headers {
		name, ok := strings.CutPrefix(h.Key, headerPrefix)
		if h.Key == headerContentType {
			name, ok = nameContentType, true
		}
		if ok && h.Value != nil { // a null header is unset, as null is in JSON
			a.put(name, string(h.Value))
		}
	}
	if !slices.ContainsFunc(required[:], func(name string) bool { _, ok := a.values[name]; return ok }) {
		a.refuse(invalid(detailMissing, "", notAnEvent(rec)))
	}
	return a.item(rec.Value, payload{data: rec.Value, ok: rec.Value != nil})
}

// notAnEvent explains a record without any required attribute: most often the names are almost right.
func notAnEvent(rec *kgo.Record) string {
	for _, h := range rec.Headers {
		if len(h.Key) > len(headerPrefix) && strings.EqualFold(strings.ReplaceAll(h.Key[:len(headerPrefix)], "-", "_"), headerPrefix) {
			return "header " + quote(h.Key) + " is no attribute: names are case sensitive and begin with ce_"
		}
	}
	return "no header is ce_specversion, ce_id, ce_source or ce_type, and content-type names no CloudEvents format"
}

func refuse(raw []byte, fault *offer.Fault) Item { return Item{Fault: fault, Raw: raw} }
