package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A rawRecord is one line of a file of records.
type rawRecord struct {
	Topic       string          `json:"topic"`
	Key         *string         `json:"key"`
	Headers     rawHeaders      `json:"headers"`
	Value       json.RawMessage `json:"value"`
	ValueBase64 *[]byte         `json:"value_base64"`
}

// rawHeaders are an object of texts, or a list of [name, text] where a name repeats. A null is a header without a value.
type rawHeaders []kgo.RecordHeader

// UnmarshalJSON implements json.Unmarshaler; the order is that of the text.
func (h *rawHeaders) UnmarshalJSON(text []byte) error {
	put := func(name string, value *string) {
		header := kgo.RecordHeader{Key: name}
		if value != nil {
			header.Value = []byte(*value)
		}
		*h = append(*h, header)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	first, err := d.Token()
	if err != nil {
		return err
	}
	if first != nil && first != json.Delim('{') && first != json.Delim('[') {
		return errors.New("headers: want an object or a list")
	}
	for first != nil && d.More() {
		if first == json.Delim('{') {
			var value *string
			name, err := d.Token()
			if err != nil {
				return err
			}
			if err := d.Decode(&value); err != nil {
				return fmt.Errorf("header %q: want a text: %w", name, err)
			}
			put(name.(string), value) // a member's name always is one
			continue
		}
		var pair []*string
		if err := d.Decode(&pair); err != nil || len(pair) != 2 || pair[0] == nil {
			return errors.Join(errors.New("headers: want [name, text] in the list"), err)
		}
		put(*pair[0], pair[1])
	}
	return nil
}

// record makes what Kafka gets.
func (r rawRecord) record() (*kgo.Record, error) {
	rec := &kgo.Record{Topic: r.Topic, Headers: r.Headers}
	if r.Topic == "" {
		return nil, errors.New("topic is missing")
	}
	if r.Key != nil {
		rec.Key = []byte(*r.Key)
	}
	switch {
	case r.Value != nil && r.ValueBase64 != nil:
		return nil, errors.New("value and value_base64 are both there; want one")
	case r.ValueBase64 != nil:
		rec.Value = *r.ValueBase64
	case r.Value == nil:
		return nil, errors.New("value is missing; want a text, value_base64, or null")
	case string(r.Value) != "null":
		var text string
		if err := json.Unmarshal(r.Value, &text); err != nil {
			return nil, fmt.Errorf("value: want a text: %w", err)
		}
		rec.Value = []byte(text)
	}
	return rec, nil
}

// readRecords reads a file of records; what is wrong is an error with the line, and then nothing is published.
func readRecords(name string) ([]*kgo.Record, error) {
	const hint = "run offerlog publish --help for the form of a record; nothing was published"
	var in io.Reader = os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usage("check --records", "%w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	var records []*kgo.Record
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		text, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if len(bytes.TrimSpace(text)) > 0 {
			rec, e := parseRecord(text)
			if e != nil {
				return nil, usage(hint, "%s:%d: %w", name, n, e)
			}
			records = append(records, rec)
		}
		if err != nil {
			break
		}
	}
	if len(records) == 0 {
		return nil, usage(hint, "%s holds no record", name)
	}
	return records, nil
}

func parseRecord(text []byte) (*kgo.Record, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var r rawRecord
	if err := d.Decode(&r); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value in the line")
	}
	return r.record()
}
