package delivery

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Encode writes an event in binary mode, so that any Kafka tool shows its data: attributes in headers ce_..., the content
// type in content-type, no data as a null value. The headers come in one order, so equal events give equal records. It
// refuses what Decode would.
func Encode(e cloudevents.Event, topic string, key []byte) (*kgo.Record, error) {
	if err := e.Validate(); err != nil {
		return nil, fmt.Errorf("encode event %q: %w", e.ID(), err)
	}
	var a attributes
	a.put(nameSpecVersion, e.SpecVersion())
	a.put(nameID, e.ID())
	a.put(nameSource, e.Source())
	a.put(nameType, e.Type())
	for name, text := range map[string]string{
		nameSubject:     e.Subject(),
		nameContentType: e.DataContentType(),
		nameDataSchema:  e.DataSchema(),
	} {
		if text != "" {
			a.put(name, text)
		}
	}
	if t := e.Time(); !t.IsZero() {
		a.put(nameTime, types.FormatTime(t))
	}
	for name, value := range e.Extensions() {
		text, err := types.Format(value)
		if err != nil {
			return nil, fmt.Errorf("encode event %q: extension %s: %w", e.ID(), name, err)
		}
		a.put(name, text)
	}
	if media := mediaType(e.DataContentType()); strings.HasPrefix(media, typePrefix) {
		return nil, fmt.Errorf("encode event %q: content type %s would be read as another mode", e.ID(), media)
	}
	fault := a.fault
	if fault == nil {
		_, fault = check(a.values)
	}
	if fault != nil {
		return nil, fmt.Errorf("encode event %q: %w", e.ID(), fault)
	}
	return &kgo.Record{Topic: topic, Key: key, Value: e.DataEncoded, Headers: headers(a.values)}, nil
}

// Record writes a decoded event in binary mode, whatever mode it came in, and means the same: Decode of it gives the same
// attributes and data, and the content type to read the data by. It refuses an event whose payload is declared to be an event,
// since a reader would take the record for that one.
func (e *Event) Record(topic string, key []byte) (*kgo.Record, error) {
	values := maps.Clone(e.Attributes)
	if e.ContentType != "" {
		values[nameContentType] = e.ContentType
	}
	if media := mediaType(e.ContentType); strings.HasPrefix(media, typePrefix) {
		return nil, fmt.Errorf("encode event %q: content type %s would be read as another mode", e.ID, media)
	}
	rec := &kgo.Record{Topic: topic, Key: key, Headers: headers(values)}
	if e.HasData {
		rec.Value = e.Data
		if rec.Value == nil {
			rec.Value = []byte{} // no data and data of zero bytes are two things
		}
	}
	return rec, nil
}

// headers lists the required attributes first, then the others by name.
func headers(values map[string]string) []kgo.RecordHeader {
	names := make([]string, 0, len(values))
	for name := range values {
		if !slices.Contains(required[:], name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	hs := make([]kgo.RecordHeader, 0, len(values))
	for _, name := range append(required[:], names...) {
		key := headerPrefix + name
		if name == nameContentType {
			key = headerContentType
		}
		hs = append(hs, kgo.RecordHeader{Key: key, Value: []byte(values[name])})
	}
	return hs
}
