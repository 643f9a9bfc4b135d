package mapping

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/offerlog/offerlog/pkg/offer"
)

// The mapping and normal form of every case. What happens to deliveries among each other (repeats,
// order, conflicts) is not the mapping's to decide, so the observations of all events together are compared as a set.
func TestCases(t *testing.T) {
	const root = "../../testdata/cases"
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, entry := range entries {
		dir := filepath.Join(root, entry.Name())
		var c struct {
			Feed *struct {
				Spec
				Mode string `json:"mode"`
			} `json:"feed"`
		}
		if !entry.IsDir() || !readFile(t, filepath.Join(dir, "case.json"), &c) || c.Feed == nil {
			continue
		}
		program, err := os.ReadFile(filepath.Join(dir, "mapping.jq"))
		if err != nil {
			continue // a case without a mapping starts behind it
		}
		spec := c.Feed.Spec
		spec.Program = string(program)
		t.Run(entry.Name(), func(t *testing.T) { runCase(t, dir, spec, c.Feed.Mode == "snapshot") })
		ran++
	}
	if ran < 60 {
		t.Errorf("ran %d cases, want 60 or more", ran)
	}
}

func readFile(t *testing.T, path string, v any) bool {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return true
}

type caseEvent struct {
	Headers json.RawMessage `json:"headers"`
	Value   *string         `json:"value"`
	Base64  *string         `json:"value_base64"`
}

type caseExpected struct {
	Deliveries []struct {
		Event        int    `json:"event"`
		Outcome      string `json:"outcome"`
		Reason       string `json:"reason"`
		Detail       string `json:"detail"`
		RowsRejected []struct {
			Row    int    `json:"row"`
			Reason string `json:"reason"`
			Detail string `json:"detail"`
		} `json:"rows_rejected"`
	} `json:"deliveries"`
	Observations []json.RawMessage `json:"observations"`
}

func runCase(t *testing.T, dir string, spec Spec, snapshot bool) {
	p, err := Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	var want caseExpected
	readFile(t, filepath.Join(dir, "expected.json"), &want)
	events, err := os.ReadFile(filepath.Join(dir, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	results := map[int]Result{}
	got := map[string]bool{}
	for i, line := range strings.Split(strings.TrimSpace(string(events)), "\n") {
		var e caseEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		for _, r := range requestsOf(t, e) {
			res, err := p.Map(t.Context(), &r)
			if err != nil {
				t.Fatal(err)
			}
			results[i] = res
			for _, row := range res.Rows {
				got[canonicalOf(t, observationOf(&row))] = true
			}
		}
	}
	for _, d := range want.Deliveries {
		res, read := results[d.Event]
		if !read {
			continue // refused before its payload is looked at
		}
		if d.Outcome == "quarantined" && d.Reason != offer.ReasonReplayPayloadMismatch && d.Reason != offer.ReasonUnknownFeed {
			if res.Fault == nil || res.Fault.Reason != d.Reason || res.Fault.Detail != d.Detail {
				t.Errorf("event %d: got %v, want %s (%s)", d.Event, res.Fault, d.Reason, d.Detail)
			}
		} else if res.Fault != nil {
			t.Errorf("event %d: got %v, want it %s", d.Event, res.Fault, d.Outcome)
		}
		for _, w := range d.RowsRejected {
			if w.Reason == offer.ReasonRevisionConflict {
				continue
			}
			if !slices.ContainsFunc(res.Rejected, func(f offer.Fault) bool {
				return f.Row == w.Row && f.Reason == w.Reason && f.Detail == w.Detail
			}) {
				t.Errorf("event %d: got rejected %v, want row %d %s (%s)", d.Event, res.Rejected, w.Row, w.Reason, w.Detail)
			}
		}
	}
	for _, w := range want.Observations {
		var o map[string]any
		if err := json.Unmarshal(w, &o); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"supplier_account", "tenant"} {
			delete(o, name) // the feed's
		}
		if snapshot && o["deleted"] == true {
			continue // said by no row
		}
		basis, _ := o["quantity_basis"].(map[string]any)
		if basis == nil && o["deleted"] != true {
			o["quantity_basis"] = map[string]any{"per": "1"} // the default
		}
		if key := canonicalOf(t, o); !got[key] {
			t.Errorf("no observation %s\namong %s", key, strings.Join(sortedKeys(got), "\n"))
		}
	}
}

// requestsOf reads an event as far as a mapping is concerned; none where it is no complete CloudEvent.
func requestsOf(t *testing.T, e caseEvent) []Request {
	t.Helper()
	headers := map[string]string{}
	var pairs [][2]string
	if json.Unmarshal(e.Headers, &headers) != nil {
		if err := json.Unmarshal(e.Headers, &pairs); err != nil {
			t.Fatal(err)
		}
		for _, p := range pairs {
			headers[p[0]] = p[1]
		}
	}
	var value []byte
	switch {
	case e.Base64 != nil:
		var err error
		if value, err = base64.StdEncoding.DecodeString(*e.Base64); err != nil {
			t.Fatal(err)
		}
	case e.Value != nil:
		value = []byte(*e.Value)
	}
	media, _, _ := strings.Cut(strings.ToLower(headers["content-type"]), ";")
	var requests []Request
	switch strings.TrimSpace(media) {
	case "application/cloudevents-batch+json":
		var list []json.RawMessage
		if json.Unmarshal(value, &list) == nil {
			for _, one := range list {
				requests = append(requests, structured(t, one)...)
			}
		}
		return requests
	case "application/cloudevents+json":
		return structured(t, value)
	}
	r := Request{Payload: value, HasData: value != nil, ContentType: headers["content-type"], Attributes: map[string]string{}}
	for name, v := range headers {
		if attribute, ok := strings.CutPrefix(name, "ce_"); ok {
			r.Attributes[attribute] = v
		}
	}
	return complete(r)
}

func structured(t *testing.T, event []byte) []Request {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(event, &members); err != nil {
		t.Fatal(err)
	}
	if members["data"] != nil && members["data_base64"] != nil {
		return nil
	}
	r := Request{Payload: members["data"], HasData: members["data"] != nil, Attributes: map[string]string{}}
	if members["data_base64"] != nil {
		r.HasData = true
		if err := json.Unmarshal(members["data_base64"], &r.Payload); err != nil {
			t.Fatal(err)
		}
	}
	if media := members["datacontenttype"]; media != nil {
		if err := json.Unmarshal(media, &r.ContentType); err != nil {
			t.Fatal(err)
		}
	}
	delete(members, "data")
	delete(members, "data_base64")
	for name, raw := range members {
		r.Attributes[name] = strings.Trim(string(raw), `"`)
	}
	return complete(r)
}

func complete(r Request) []Request {
	for _, name := range []string{"specversion", "id", "source", "type"} {
		if r.Attributes[name] == "" {
			return nil
		}
	}
	for name := range r.Attributes {
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			return nil
		}
	}
	if text, given := r.Attributes["time"]; given {
		var err error
		if r.EventTime, err = offer.ParseTime(text); err != nil {
			return nil
		}
	}
	return []Request{r}
}

// observationOf is a row as expected.json writes it.
func observationOf(r *offer.Row) map[string]any {
	b, err := json.Marshal(&r.Content)
	if err != nil {
		panic(err)
	}
	var o map[string]any
	if err := json.Unmarshal(b, &o); err != nil {
		panic(err)
	}
	if !r.Content.Deleted {
		delete(o, "deleted") // which the cases leave out where it is false
	}
	o["source_record"] = r.Record
	o["observed_at"] = r.ObservedAt.Text
	if r.HasVersion {
		o["source_version"] = strconv.FormatInt(r.Version, 10)
	}
	return o
}

func canonicalOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	value, fault := readJSON(bytes.TrimSpace(b), defaultMaxDepth)
	if fault != nil {
		t.Fatal(fault)
	}
	return string(appendCanonical(nil, value))
}
