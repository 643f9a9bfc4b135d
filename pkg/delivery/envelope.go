package delivery

import (
	"encoding/json"
	"fmt"

	"github.com/offerlog/offerlog/pkg/offer"
)

// envelope is what is kept of an event beside its data. Together they are enough to read the delivery again when the topic
// no longer holds it.
type envelope struct {
	Attributes  map[string]string `json:"attributes,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	HasData     bool              `json:"has_data,omitempty"`
}

// Envelope is the event without its data, as JSON; equal events have equal envelopes. It can be had of a refused event too,
// as far as that could be read.
func (e *Event) Envelope() ([]byte, error) {
	return json.Marshal(envelope{e.Attributes, e.ContentType, e.HasData})
}

// FromEnvelope puts an event together again from its envelope and its data.
func FromEnvelope(b, data []byte) (Event, error) {
	var v envelope
	if err := json.Unmarshal(b, &v); err != nil {
		return Event{}, fmt.Errorf("read an event's envelope: %w", err)
	}
	e := Event{ID: v.Attributes["id"], Source: v.Attributes["source"], Type: v.Attributes["type"], Subject: v.Attributes["subject"],
		ContentType: v.ContentType, Attributes: v.Attributes, HasData: v.HasData}
	if v.HasData {
		e.Data = data
	}
	for name, to := range map[string]*offer.Time{"time": &e.Time, "recordedtime": &e.RecordedTime} {
		text, ok := v.Attributes[name]
		if !ok {
			continue
		}
		t, err := offer.ParseTime(text)
		if err != nil {
			return Event{}, fmt.Errorf("read an event's envelope: %s: %w", name, err)
		}
		*to = t
	}
	return e, nil
}
