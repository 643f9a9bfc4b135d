package quarantine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/offerlog/offerlog/pkg/offer"
)

// A Side is one of two payloads under one id, with how it was fetched.
type Side struct {
	Payload    io.Reader                     // is read to its end
	Attributes map[string]string             // of its event
	Rows       iter.Seq2[[]offer.Row, error] // valid ones, some at a time and as often as they are asked for; nil: they are not known
	Count      int                           // of them
}

const (
	// heldRows is how many rows of a side are in memory at once, or thereabouts: larger sides are compared in parts.
	heldRows = 50_000
	// ListedRows is how many records that differ a comparison lists; it counts all of them.
	ListedRows = 1000
)

// A Comparison says in what the second payload under an id differs from the first.
type Comparison struct {
	Bytes   Bytes    `json:"bytes"`
	Context []Field  `json:"context,omitempty"` // attributes that differ
	Rows    *RowDiff `json:"rows,omitempty"`    // absent: a payload could not be read
	Hints   []Hint   `json:"hints,omitempty"`   // the likeliest first
}

// Bytes says where two payloads part.
type Bytes struct {
	First  int `json:"first_length"`
	Second int `json:"second_length"`
	Offset int `json:"offset"` // of the first byte that differs, from 0; -1: none does
	Line   int `json:"line"`   // and its line, from 1; 0: none does
}

// A Field is something that two sides say differently; what a side lacks is empty.
type Field struct {
	Name string `json:"name"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// A RowDiff compares the rows of two payloads by source_record.
type RowDiff struct {
	Added     []string  `json:"added,omitempty"`
	Removed   []string  `json:"removed,omitempty"`
	Changed   []Changed `json:"changed,omitempty"`
	Unchanged int       `json:"unchanged"`
	Unlisted  Unlisted  `json:"unlisted,omitzero"` // beyond the first ListedRows
}

// Unlisted counts records that differ too and are not listed.
type Unlisted struct {
	Added   int `json:"added,omitempty"`
	Removed int `json:"removed,omitempty"`
	Changed int `json:"changed,omitempty"`
}

// Sums are how many records differ, listed or not.
func (d *RowDiff) Sums() (added, removed, changed int) {
	return len(d.Added) + d.Unlisted.Added, len(d.Removed) + d.Unlisted.Removed, len(d.Changed) + d.Unlisted.Changed
}

// A Changed row is one that both payloads have, and say differently.
type Changed struct {
	Record string  `json:"source_record"`
	Fields []Field `json:"fields"`
}

// A Hint is what may have happened, and what speaks for it.
type Hint struct {
	Cause string `json:"cause"` // mutated_export | wrong_key | reused_cursor
	Why   string `json:"why"`
}

// Causes of two payloads under one id.
const (
	MutatedExport = "mutated_export" // the source changed what it had exported
	WrongKey      = "wrong_key"      // two deliveries got one id
	ReusedCursor  = "reused_cursor"  // a position of the source's pages was used for another page
)

// Compare holds the second payload under an id against the first, of any size. Errors are those of reading them.
func Compare(first, second *Side) (c Comparison, err error) {
	c.Context = compareTexts(first.Attributes, second.Attributes)
	if c.Bytes, err = compareBytes(first.Payload, second.Payload); err != nil {
		return c, fmt.Errorf("compare payloads: %w", err)
	}
	if first.Rows != nil && second.Rows != nil {
		if c.Rows, err = compareRows(first, second); err != nil {
			return c, fmt.Errorf("compare payloads: %w", err)
		}
	}
	c.Hints = hints(first, second, c.Rows)
	return c, nil
}

func compareBytes(a, b io.Reader) (d Bytes, err error) {
	d.Offset = -1
	p, q := make([]byte, 64<<10), make([]byte, 64<<10)
	for at, line := 0, 1; ; {
		n, errA := readFull(a, p)
		m, errB := readFull(b, q)
		if err := cmp.Or(errA, errB); err != nil {
			return d, err
		}
		if n == 0 && m == 0 {
			return d, nil
		}
		d.First, d.Second = d.First+n, d.Second+m
		if d.Offset >= 0 {
			continue
		}
		k := 0
		for k < min(n, m) && p[k] == q[k] {
			k++
		}
		at, line = at+k, line+bytes.Count(p[:k], []byte("\n"))
		if k < n || k < m {
			d.Offset, d.Line = at, line
		}
	}
}

// readFull fills p as far as r goes.
func readFull(r io.Reader, p []byte) (int, error) {
	n, err := io.ReadFull(r, p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return n, err
}

func compareTexts(a, b map[string]string) (fields []Field) {
	names := slices.Collect(maps.Keys(a))
	names = slices.AppendSeq(names, maps.Keys(b))
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		if a[n] != b[n] {
			fields = append(fields, Field{n, a[n], b[n]})
		}
	}
	return fields
}

// byRecord is the texts of each record's rows, of those in one of so many parts: what a member of an observation says, by name.
func (s *Side) byRecord(part, parts int) (map[string]map[string]string, error) {
	records := map[string]map[string]string{}
	for rows, err := range s.Rows {
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if partOf(rows[i].Record, parts) == part {
				enter(records, &rows[i])
			}
		}
	}
	return records, nil
}

// partOf is the part that a record belongs to.
func partOf(record string, parts int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(record)) // never fails
	return int(h.Sum32()) % parts
}

// enter adds a row to what records say.
func enter(records map[string]map[string]string, r *offer.Row) {
	said := records[r.Record]
	if said == nil {
		said = map[string]string{}
		records[r.Record] = said
	}
	prefix := ""
	if len(said) > 0 { // a record in another version of it
		prefix = fmt.Sprintf("%d/", r.Version)
	}
	if r.HasVersion {
		said[prefix+"source_version"] = fmt.Sprint(r.Version)
	}
	said[prefix+"observed_at"] = r.ObservedAt.Text
	var members map[string]json.RawMessage
	b, err := json.Marshal(r.Content)
	if err == nil {
		err = json.Unmarshal(b, &members)
	}
	if err != nil {
		panic("quarantine: a content that is no JSON object: " + err.Error())
	}
	for name, v := range members {
		var text string
		if json.Unmarshal(v, &text) != nil {
			text = string(v)
		}
		said[prefix+name] = text
	}
}

func compareRows(a, b *Side) (*RowDiff, error) {
	d, listed := &RowDiff{}, 0
	list := func(unlisted *int) bool {
		if listed == ListedRows {
			*unlisted++
			return false
		}
		listed++
		return true
	}
	parts := 1 + max(a.Count, b.Count)/heldRows
	for part := range parts {
		was, err := a.byRecord(part, parts)
		if err != nil {
			return nil, err
		}
		is, err := b.byRecord(part, parts)
		if err != nil {
			return nil, err
		}
		for _, record := range slices.Sorted(maps.Keys(is)) {
			if was[record] == nil && list(&d.Unlisted.Added) {
				d.Added = append(d.Added, record)
			}
		}
		for _, record := range slices.Sorted(maps.Keys(was)) {
			switch fields := compareTexts(was[record], is[record]); {
			case is[record] == nil:
				if list(&d.Unlisted.Removed) {
					d.Removed = append(d.Removed, record)
				}
			case len(fields) > 0:
				if list(&d.Unlisted.Changed) {
					d.Changed = append(d.Changed, Changed{record, fields})
				}
			default:
				d.Unchanged++
			}
		}
	}
	return d, nil
}

// hints weighs what may have happened. None of it is a proof: the supplier knows.
func hints(first, second *Side, rows *RowDiff) (list []Hint) {
	same := func(name string) bool {
		return first.Attributes[name] != "" && first.Attributes[name] == second.Attributes[name]
	}
	other := func(name string) bool { return first.Attributes[name] != second.Attributes[name] }
	var added, removed, changed int
	if rows != nil {
		added, removed, changed = rows.Sums()
		shared := rows.Unchanged + changed
		if all := shared + added + removed; all > 0 && shared*5 <= all {
			list = append(list, Hint{WrongKey, fmt.Sprintf("%d of %d records are in both payloads: they look like two deliveries, and one of them has the other's id", shared, all)})
		}
	}
	if same("cursor") && (other("page") || other("time")) {
		what := "page"
		if !other("page") {
			what = "time"
		}
		list = append(list, Hint{ReusedCursor, fmt.Sprintf("both were fetched at cursor %s, and have another %s: %q and %q", first.Attributes["cursor"], what, first.Attributes[what], second.Attributes[what])})
	}
	if rows != nil && same("endpoint") && !other("cursor") && !other("page") {
		touched := changed + added + removed
		if all := touched + rows.Unchanged; all > 0 && len(list) == 0 {
			list = append(list, Hint{MutatedExport, fmt.Sprintf("both were fetched from %s, and %d of %d records differ: the source has changed what it had exported", first.Attributes["endpoint"], touched, all)})
		}
	}
	return list
}
