// Package feed keeps what is registered: the feeds, which events are theirs, and the frozen mapping versions they are
// read under.
//
// It owns the tables registry, feed, feed_route and mapping. A feed file becomes a Spec, travels as a command, and is
// registered by Apply in the transaction that stores that command, under the registry's exclusive lock; so a crash leaves
// a feed applied together with its command's receipt, or not at all. What ingest maps a batch under is a Registry with a
// version; its transaction takes the shared lock and maps again where the version moved.
package feed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/mapping"
)

// A Spec is a feed file, and the payload of the command that applies it: the same names in both. Their meaning and
// their defaults are written in schemas/feed.v1.json.
type Spec struct {
	Feed      string            `json:"feed"`
	Tenant    string            `json:"tenant"`
	Connector string            `json:"connector"`
	Account   string            `json:"account"`
	Accepts   Accepts           `json:"accepts"`
	Dataref   Dataref           `json:"dataref,omitzero"`
	Identity  delivery.Identity `json:"identity"`

	Format      mapping.Format     `json:"format,omitzero"`
	Fingerprint string             `json:"fingerprint"`
	Order       string             `json:"order"`
	Mode        string             `json:"mode"`
	Sequential  bool               `json:"sequential"`
	Numbers     mapping.Numbers    `json:"numbers,omitzero"`
	NullTokens  []string           `json:"null_tokens,omitzero"`
	Time        mapping.TimeFormat `json:"time,omitzero"`
	Units       []string           `json:"units,omitempty"`
	Limits      mapping.Limits     `json:"limits,omitzero"`
	NoData      string             `json:"no_data"`

	Mapping Mapping `json:"mapping"`
	Policy  Policy  `json:"policy"`

	Retention Retention `json:"retention,omitzero"`
}

// Accepts says which events are a feed's: those with the source, byte by byte, on one of the topics.
type Accepts struct {
	Topics []string `json:"topics"` // own names, without an installation's prefix
	Source string   `json:"source"`
}

// Dataref says where the data of events may lie that do not carry it.
type Dataref struct {
	Hosts []string `json:"hosts,omitempty"` // of https: host, or host:port where it is not 443
}

// A Mapping has Fields or Program, as mapping.Spec has them.
type Mapping struct {
	Version int            `json:"version"`
	Fields  map[string]any `json:"fields,omitempty"`
	Program string         `json:"program,omitempty"` // the text itself
}

// A Policy says what is done with what is not right, or not all there.
type Policy struct {
	InvalidRow  string `json:"invalid_row"`
	PartialRuns string `json:"partial_runs"`
	// After how long a silence a run that is not whole is stalled.
	RunTimeout Duration `json:"run_timeout"`
	Brake      Brake    `json:"brake"`
	// Which items claims may have and count.
	Item string `json:"item"`
	// How far ahead of its arrival a claim may be observed and count at once.
	MaxFuture Duration `json:"max_future"`
	// How old evidence may be; what is older is read with a freshness gap. 0: nobody minds.
	Freshness Duration `json:"freshness,omitzero"`
	// Which outcomes are told on the topic delivery-results.
	Results string `json:"results"`
	// For how long a delivery that comes again is known by its receipt.
	DedupeHorizon Duration `json:"dedupe_horizon"`
	// For how long a deleted offer is remembered: not shorter than anything of the feed can come again.
	TombstoneHorizon Duration `json:"tombstone_horizon"`
}

// Ahead reports whether a claim observed then, in nanoseconds since 1970 UTC, is too far in the future to count at once.
func (p Policy) Ahead(observed int64, now time.Time) bool {
	return observed-int64(p.MaxFuture) > now.UnixNano()
}

// Retention says for how long kinds of record are kept; what it does not name is kept for ever. Observations always are.
type Retention struct {
	Runs       Duration `json:"runs,omitzero"`       // with their pages and what connectors said of them
	Quarantine Duration `json:"quarantine,omitzero"` // entries about which nothing is open any more
	Artifacts  Duration `json:"artifacts,omitzero"`  // the literal payloads
}

// problem says why the horizons do not go together, "" where they do. What comes again after its deletion was forgotten would
// be for sale again.
func (p Policy) problem() string {
	if p.TombstoneHorizon < p.DedupeHorizon {
		return fmt.Sprintf("%s is shorter than dedupe_horizon, %s: what is replayed after a deletion was forgotten would be for sale again; want at least as long", p.TombstoneHorizon, p.DedupeHorizon)
	}
	return ""
}

// Values of Policy.InvalidRow: what one invalid row puts into quarantine.
const (
	InvalidRowAlone    = "row"
	InvalidRowDelivery = "delivery"
)

// A Brake says what holds a run that is whole.
type Brake struct {
	MaxRowsLost  string `json:"max_rows_lost"`            // of a snapshot, in percent: 30%
	MaxDeleted   string `json:"max_deleted,omitempty"`    // of what is for sale, in percent; "": any
	MaxPriceMove string `json:"max_price_move,omitempty"` // of any price, in percent; "": any
}

// Values of Spec.Mode: what a feed says of records that it lacks.
const (
	ModeChanges  = "changes"
	ModeSnapshot = "snapshot"
)

// Values of Policy.PartialRuns: what becomes of a run of which pages are missing.
const (
	PartialRunsHold    = "hold"
	PartialRunsPublish = "publish"
)

// Values of Policy.Item: every item, or those that are resolved.
const (
	ItemAny      = "any"
	ItemResolved = "resolved"
)

// Values of Policy.Results: every outcome, or all but accepted ones.
const (
	ResultsAll        = "all"
	ResultsExceptions = "exceptions"
)

// Reading is the part of the spec that a mapping version freezes.
func (s Spec) Reading() mapping.Spec {
	return mapping.Spec{
		Format:      s.Format,
		Fingerprint: s.Fingerprint,
		Order:       s.Order,
		Numbers:     s.Numbers,
		NullTokens:  s.NullTokens,
		Time:        s.Time,
		Units:       s.Units,
		Limits:      s.Limits,
		NoData:      s.NoData,
		Fields:      s.Mapping.Fields,
		Program:     s.Mapping.Program,
	}
}

// JSON is the payload of the command that applies the spec; equal specs have equal bytes.
func (s Spec) JSON() ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode feed %s: %w", s.Feed, err)
	}
	return b, nil
}

// Bounds of what is parsed: far above any real feed, and small enough that the YAML reader, whose time grows with the
// square of some inputs, is done with each within seconds.
const (
	maxFileBytes = 32 << 10
	maxJSONBytes = 1 << 20 // a file, its program file, and the escapes of both
)

// programFile is a mapping.program that names a file beside the feed file. No jq program looks like it.
var programFile = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*\.jq$`)

// ParseFile reads a feed file. Where its mapping.program is the name of a .jq file (letters, digits, . _ -), that file,
// in the same folder, is the program; anything else is the program's text. The error is an *InvalidError, or says why a
// file cannot be read.
func ParseFile(path string) (Spec, error) {
	b, err := readFile(path)
	if err != nil {
		return Spec{}, fmt.Errorf("read feed file: %w", err)
	}
	return parseYAML(path, b, filepath.Dir(path))
}

// ParseYAML reads a feed file's text, where mapping.program can name no other file. name stands in the places of
// problems. The error is an *InvalidError with every problem.
func ParseYAML(name string, b []byte) (Spec, error) { return parseYAML(name, b, "") }

func parseYAML(name string, b []byte, folder string) (Spec, error) {
	doc, err := readYAML(name, b)
	if err != nil {
		return Spec{}, err
	}
	if err := doc.inlineProgram(folder); err != nil {
		return Spec{}, err
	}
	spec, problems := decode(doc.root)
	for _, p := range problems {
		doc.report(p)
	}
	return spec, doc.problems.err()
}

// ParseJSON reads what JSON wrote, as strictly as a file. The error is an *InvalidError with every problem.
func ParseJSON(b []byte) (Spec, error) {
	if len(b) > maxJSONBytes {
		return Spec{}, problemList{{Message: fmt.Sprintf("the feed has %d bytes; want at most %d", len(b), maxJSONBytes)}}.err()
	}
	// The standard library would take the last of two equal names, and repair broken text.
	if _, err := jsontext.AppendFormat(nil, b); err != nil {
		return Spec{}, notJSON(err)
	}
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return Spec{}, notJSON(err)
	}
	spec, problems := decode(root)
	return spec, problems.err()
}

func notJSON(err error) error {
	return problemList{{Message: "the feed is not JSON: " + err.Error()}}.err()
}

// readFile reads a file of at most maxFileBytes and one byte more, which tells that it is too long.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxFileBytes+1))
}
