package cases

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/streams"
)

// A kase is a case folder.
type kase struct {
	Feed  map[string]any `json:"feed"` // settings
	Feeds []source       `json:"feeds"`
	Steps []step         `json:"steps"`

	feeds  []feed.Spec
	events []*kgo.Record // with the topics' own names
	want   expected
}

// A source is one registered feed of a case.
type source struct {
	Topic     string `json:"topic"`
	Source    string `json:"source"`
	Tenant    string `json:"tenant"`
	Connector string `json:"connector"`
	Account   string `json:"account"`
}

// usual is the feed of a case that names none.
var usual = source{Topic: streams.Deliveries, Source: "/acme-eu/export", Tenant: usualTenant, Connector: "acme-eu", Account: "ACC-1"}

const usualTenant = "t1"

// An unsupportedError says what a case needs that this version does not have.
type unsupportedError struct{ what string }

func (e *unsupportedError) Error() string { return e.what + " is not in this version" }

func load(dir string) (*kase, error) {
	c := &kase{}
	if err := readJSON(filepath.Join(dir, "case.json"), false, c); err != nil {
		return nil, err
	}
	if err := readJSON(filepath.Join(dir, "expected.json"), true, &c.want); err != nil {
		return nil, err
	}
	var err error
	if c.events, err = loadEvents(filepath.Join(dir, "events.jsonl")); err != nil {
		return nil, err
	}
	if err := checkSteps(c.Steps); err != nil {
		return nil, err
	}
	program, err := os.ReadFile(filepath.Join(dir, "mapping.jq"))
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil // a case that begins behind the mapping
	}
	if err != nil {
		return nil, err
	}
	if len(c.Feeds) == 0 {
		c.Feeds = []source{usual}
	}
	for i, s := range c.Feeds {
		spec, err := c.spec(i, s, string(program))
		if err != nil {
			return nil, err
		}
		c.feeds = append(c.feeds, spec)
	}
	return c, nil
}

// spec is a feed of the case as offerlog writes it. A setting of the case that the schema refuses is an unsupportedError.
func (c *kase) spec(i int, s source, program string) (feed.Spec, error) {
	doc := map[string]any{
		"feed": fmt.Sprintf("feed-%d", i+1), "tenant": s.Tenant, "connector": s.Connector, "account": s.Account,
		"accepts": map[string]any{"topics": []string{s.Topic}, "source": s.Source},
		"mapping": map[string]any{"version": 1, "program": program},
	}
	maps.Copy(doc, c.Feed)
	b, err := json.Marshal(doc)
	if err != nil {
		return feed.Spec{}, err
	}
	spec, err := feed.ParseJSON(b)
	if invalid, ok := errors.AsType[*feed.InvalidError](err); ok {
		for _, p := range invalid.Problems {
			top, _, _ := strings.Cut(p.Setting, ".")
			if _, ofCase := c.Feed[top]; ofCase {
				return spec, &unsupportedError{fmt.Sprintf("feed setting %s (%s)", p.Setting, value(c.Feed, p.Setting))}
			}
		}
	}
	return spec, err
}

// value is what a case gives for a setting, as JSON.
func value(settings map[string]any, path string) string {
	var v any = settings
	for name := range strings.SplitSeq(path, ".") {
		if m, ok := v.(map[string]any); ok {
			v = m[name]
		}
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func loadEvents(path string) ([]*kgo.Record, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var records []*kgo.Record
	for n, line := range bytes.Split(bytes.TrimSpace(b), []byte("\n")) {
		var e struct {
			Topic   string          `json:"topic"`
			Key     *string         `json:"key"`
			Headers json.RawMessage `json:"headers"`
			Value   *string         `json:"value"`
			Base64  *string         `json:"value_base64"`
		}
		r := &kgo.Record{}
		err := decode(line, true, &e)
		if err == nil {
			r.Headers, err = headers(e.Headers)
		}
		if err == nil && e.Base64 != nil {
			r.Value, err = base64.StdEncoding.DecodeString(*e.Base64)
		}
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, n+1, err)
		}
		r.Topic = e.Topic
		if e.Key != nil {
			r.Key = []byte(*e.Key)
		}
		if e.Value != nil {
			r.Value = []byte(*e.Value)
		}
		records = append(records, r)
	}
	return records, nil
}

// headers reads an object, or a list of pairs where a name repeats.
func headers(b json.RawMessage) ([]kgo.RecordHeader, error) {
	var pairs [][2]string
	if bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) {
		object := map[string]string{}
		if err := json.Unmarshal(b, &object); err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			pairs = append(pairs, [2]string{name, object[name]})
		}
	} else if len(b) > 0 {
		if err := json.Unmarshal(b, &pairs); err != nil {
			return nil, err
		}
	}
	list := make([]kgo.RecordHeader, len(pairs))
	for i, p := range pairs {
		list[i] = kgo.RecordHeader{Key: p[0], Value: []byte(p[1])}
	}
	return list, nil
}

func readJSON(path string, strict bool, into any) error {
	b, err := os.ReadFile(path)
	if err == nil {
		err = decode(b, strict, into)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return nil
}

// decode keeps numbers as they are written; strict refuses members that nothing here would look at.
func decode(b []byte, strict bool, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if strict {
		d.DisallowUnknownFields()
	}
	return d.Decode(into)
}

func (c *kase) topics() []string {
	topics := []string{streams.Deliveries}
	for _, s := range c.Feeds {
		topics = append(topics, s.Topic)
	}
	for _, e := range c.events {
		topics = append(topics, e.Topic)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

func (c *kase) tenants() []string {
	tenants := []string{usualTenant}
	for _, s := range c.Feeds {
		tenants = append(tenants, s.Tenant)
	}
	slices.Sort(tenants)
	return slices.Compact(tenants)
}
