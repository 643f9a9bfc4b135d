package delivery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/offerlog/offerlog/pkg/offer"
)

// An Identity says what names the deliveries of a feed. Its zero value is the event's own source and id. In a feed file it
// is event, {fields: [...]} or {fallback: [...]}; of the two lists at most one is given, and both are sorted.
//
// It speaks of what comes around a payload, never of what is in it: a payload that cannot be read has a replay key too, and
// no new mapping renames what was stored.
type Identity struct {
	// Fields are attributes that the source itself names its deliveries by: an export's id, a file's name and version, the
	// token of a snapshot. As strong as an event id. An event without one of them is refused.
	Fields []string `json:"fields,omitempty"`
	// Fallback is for a source that names nothing: some of the inputs below. It is weak, since two deliveries may agree in
	// all of them, and is marked so wherever the delivery's claims are shown. An input that an event lacks counts as lacking.
	Fallback []string `json:"fallback,omitempty"`
}

// Inputs of Identity.Fallback.
const (
	FallbackAccount  = "account"  // of the feed; part of every replay key anyway
	FallbackEndpoint = "endpoint" // the attribute: what was asked
	FallbackCursor   = "cursor"   // the attribute: from where on
	FallbackTime     = "time"     // the attribute: the source's time, as an instant
	FallbackPayload  = "payload"  // SHA-256 of the bytes
)

const identityEvent = "event"

// Weak tells whether deliveries are named by a fallback.
func (id Identity) Weak() bool { return len(id.Fallback) > 0 }

// MarshalJSON writes the form of a feed file.
func (id Identity) MarshalJSON() ([]byte, error) {
	if len(id.Fields)+len(id.Fallback) == 0 {
		return json.Marshal(identityEvent)
	}
	type lists Identity
	return json.Marshal(lists(id))
}

// UnmarshalJSON reads what MarshalJSON writes. Values of another kind are left out, as they are of any field: the schema of
// feeds tells what is wrong with them.
func (id *Identity) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte(`"`)) {
		*id = Identity{}
		return nil
	}
	type lists Identity
	_ = json.Unmarshal(b, (*lists)(id))
	slices.Sort(id.Fields)
	slices.Sort(id.Fallback)
	return nil
}

// Declare returns what names an event of an account in place of its id, for offer.ReplayKey.Declared: "" where its id does.
// Each value of a field may have 1024 bytes, as an id may. The fault is that of an event that lacks what it must have.
func (id Identity) Declare(account string, e *Event) (string, *offer.Fault) {
	switch {
	case len(id.Fields) > 0:
		values := make(map[string]string, len(id.Fields))
		for _, name := range id.Fields {
			v := e.value(name)
			if strings.TrimSpace(v) == "" {
				return "", invalid(detailMissing, name, "the feed's deliveries are named by this attribute (identity.fields), and the event lacks it")
			}
			if len(v) > maxKeyBytes {
				return "", invalid(detailInvalid, name, fmt.Sprintf("%d bytes: the feed's deliveries are named by it, so at most %d are taken", len(v), maxKeyBytes))
			}
			values[name] = v
		}
		return offer.DeclareFields(values), nil
	case id.Weak():
		inputs := map[string]string{}
		for _, name := range id.Fallback {
			if v := e.value(name); name != FallbackAccount && name != FallbackPayload && v != "" {
				inputs[name] = v
			}
		}
		switch {
		case !slices.Contains(id.Fallback, FallbackPayload):
		case e.ByReference(): // the digest is held against the data before it counts
			digest := e.Attributes[Datadigest]
			if digest == "" {
				return "", invalid(detailMissing, Datadigest, "the feed's deliveries are named by their payload (identity.fallback), and the event's lies elsewhere: declare its digest")
			}
			inputs[FallbackPayload] = strings.ToLower(strings.TrimPrefix(digest, offer.DigestPrefix))
		case e.HasData:
			inputs[FallbackPayload] = offer.Sum(e.Data).String()
		}
		if len(inputs) == 0 {
			return "", invalid(detailMissing, "", "the event has none of "+strings.Join(id.Fallback, ", ")+", by which the feed's deliveries are named (identity.fallback)")
		}
		inputs[FallbackAccount] = account
		return offer.DeclareFallback(inputs), nil
	}
	return "", nil
}

// value is an attribute in the form in which it names a delivery: a time as the instant that it is.
func (e *Event) value(name string) string {
	if name == nameTime {
		return e.Time.Text
	}
	return e.Attributes[name]
}
