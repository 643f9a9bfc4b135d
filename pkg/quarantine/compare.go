package quarantine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/offerlog/offerlog/pkg/offer"
)

// A Side is one of two payloads under one id, with how it was fetched.
type Side struct {
	Payload    []byte
	Attributes map[string]string // of its event
	Rows       []offer.Row       // valid ones; nil: they are not known
}

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

// Compare holds the second payload under an id against the first.
func Compare(first, second *Side) Comparison {
	c := Comparison{Bytes: compareBytes(first.Payload, second.Payload), Context: compareTexts(first.Attributes, second.Attributes)}
	if first.Rows != nil && second.Rows != nil {
		c.Rows = compareRows(first.Rows, second.Rows)
	}
	c.Hints = hints(first, second, c.Rows)
	return c
}

func compareBytes(a, b []byte) Bytes {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	if n == len(a) && n == len(b) {
		return Bytes{len(a), len(b), -1, 0}
	}
	return Bytes{len(a), len(b), n, 1 + bytes.Count(a[:n], []byte("\n"))}
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

// byRecord is the texts of each record's rows: what a member of an observation says, by name.
func byRecord(rows []offer.Row) map[string]map[string]string {
	records := map[string]map[string]string{}
	for i := range rows {
		r := &rows[i]
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
	return records
}

func compareRows(a, b []offer.Row) *RowDiff {
	was, is := byRecord(a), byRecord(b)
	d := &RowDiff{}
	for _, record := range slices.Sorted(maps.Keys(is)) {
		if was[record] == nil {
			d.Added = append(d.Added, record)
		}
	}
	for _, record := range slices.Sorted(maps.Keys(was)) {
		switch fields := compareTexts(was[record], is[record]); {
		case is[record] == nil:
			d.Removed = append(d.Removed, record)
		case len(fields) > 0:
			d.Changed = append(d.Changed, Changed{record, fields})
		default:
			d.Unchanged++
		}
	}
	return d
}

// hints weighs what may have happened. None of it is a proof: the supplier knows.
func hints(first, second *Side, rows *RowDiff) (list []Hint) {
	same := func(name string) bool {
		return first.Attributes[name] != "" && first.Attributes[name] == second.Attributes[name]
	}
	other := func(name string) bool { return first.Attributes[name] != second.Attributes[name] }
	if rows != nil {
		shared := rows.Unchanged + len(rows.Changed)
		if all := shared + len(rows.Added) + len(rows.Removed); all > 0 && shared*5 <= all {
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
		touched := len(rows.Changed) + len(rows.Added) + len(rows.Removed)
		if all := touched + rows.Unchanged; all > 0 && len(list) == 0 {
			list = append(list, Hint{MutatedExport, fmt.Sprintf("both were fetched from %s, and %d of %d records differ: the source has changed what it had exported", first.Attributes["endpoint"], touched, all)})
		}
	}
	return list
}
