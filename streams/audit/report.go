package audit

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A Report says of each invariant what was looked at and what was found.
type Report struct {
	Invariants []Invariant `json:"invariants"` // I1 to I13 and I16 to I19, in order

	parts  map[group]*Part
	firsts map[string]Violation // by stage
}

// An Invariant is one line of the report.
type Invariant struct {
	ID         string      `json:"invariant"`             // such as I5
	Checked    []Count     `json:"checked,omitempty"`     // what was looked at; none: nothing was
	NotChecked []string    `json:"not_checked,omitempty"` // what was not, and why
	Found      int         `json:"violations_found"`
	Violations []Violation `json:"violations,omitempty"` // the first hundred
}

// shown is how many violations of one invariant a report holds.
const shown = 100

// A Count is a number of things that were looked at.
type Count struct {
	N    int64  `json:"n"`
	Noun string `json:"noun"` // in the plural
}

// A Violation is one thing that is not as it must be.
type Violation struct {
	Invariant string `json:"invariant" db:"-"`
	What      string `json:"what"`
	Where
	Detail string `json:"detail,omitempty"`
}

// Where says what a violation is about; what plays no part is empty.
type Where struct {
	Tenant      string `json:"tenant,omitempty"`
	Offer       string `json:"offer,omitempty"` // tenant/account/record
	Observation string `json:"observation,omitempty"`
	Delivery    string `json:"delivery,omitempty"`
	Row         int    `json:"row,omitempty"`    // of the delivery, from 1
	Object      string `json:"object,omitempty"` // of the archive: the artifact
	Topic       string `json:"topic,omitempty"`  // by its own name
	Partition   *int32 `json:"partition,omitempty"`
	Lane        int    `json:"lane,omitempty"`
	Offset      *int64 `json:"offset,omitempty"`
	Item        int    `json:"item,omitempty"`
	Seq         int64  `json:"laneseq,omitempty"`
}

// String lists what is there, each with its name.
func (w Where) String() string {
	var parts []string
	add := func(name string, there bool, value any) {
		if there {
			parts = append(parts, fmt.Sprintf("%s %v", name, value))
		}
	}
	add("tenant", w.Tenant != "", w.Tenant)
	add("offer", w.Offer != "", w.Offer)
	add("observation", w.Observation != "", w.Observation)
	add("delivery", w.Delivery != "", w.Delivery)
	add("row", w.Row > 0, w.Row)
	add("artifact", w.Object != "", w.Object)
	add("topic", w.Topic != "", w.Topic)
	if w.Partition != nil {
		add("partition", true, *w.Partition)
	}
	add("lane", w.Lane > 0, w.Lane)
	if w.Offset != nil {
		add("offset", true, *w.Offset)
	}
	add("item", w.Item != 0, w.Item)
	add("number", w.Seq > 0, w.Seq)
	return strings.Join(parts, ", ")
}

// String is the violation's line in a report.
func (v Violation) String() string {
	s := v.Invariant + ": " + v.What
	if at := v.Where.String(); at != "" {
		s += ": " + at
	}
	if v.Detail != "" {
		s += " (" + v.Detail + ")"
	}
	return s
}

// OK reports that no violation was found.
func (r Report) OK() bool {
	return !slices.ContainsFunc(r.Invariants, func(i Invariant) bool { return i.Found > 0 })
}

// Write writes the report for people: a line for each invariant, under it what was not checked, then the violations.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	for _, i := range r.Invariants {
		state := "ok"
		switch {
		case i.Found > 0:
			state = "FAILED"
		case len(i.Checked) == 0:
			state = "not checked"
		}
		var counts []string
		for _, c := range i.Checked {
			counts = append(counts, fmt.Sprintf("%d %s", c.N, c.Noun))
		}
		if i.Found > 0 {
			counts = append(counts, fmt.Sprintf("%d violations", i.Found))
		}
		line := fmt.Sprintf("%-4s %-7s %s", i.ID, state, strings.Join(counts, ", "))
		fmt.Fprintln(&b, strings.TrimRight(line, " "))
		for _, n := range i.NotChecked {
			fmt.Fprintf(&b, "     not checked: %s\n", n)
		}
	}
	for _, i := range r.Invariants {
		for _, v := range i.Violations {
			fmt.Fprintln(&b, v)
		}
		if more := i.Found - len(i.Violations); more > 0 {
			fmt.Fprintf(&b, "%s: %d more\n", i.ID, more)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// newReport has a line for each invariant.
func newReport() *Report {
	r := &Report{parts: map[group]*Part{}, firsts: map[string]Violation{}}
	for n := range 13 {
		r.Invariants = append(r.Invariants, Invariant{ID: fmt.Sprintf("I%d", n+1)})
	}
	for n := 16; n <= 19; n++ { // I14, I15 and I20 need two moments
		r.Invariants = append(r.Invariants, Invariant{ID: fmt.Sprintf("I%d", n)})
	}
	return r
}

// of returns the line of an invariant.
func (r *Report) of(id string) *Invariant {
	i := slices.IndexFunc(r.Invariants, func(i Invariant) bool { return i.ID == id })
	return &r.Invariants[i]
}

// found adds a violation.
func (r *Report) found(v Violation) {
	i := r.of(v.Invariant)
	i.Found++
	r.noteFirst(v)
	if len(i.Violations) < shown {
		i.Violations = append(i.Violations, v)
	}
}

// count adds n things to what was looked at for an invariant.
func (r *Report) count(id string, n int64, noun string) {
	i := r.of(id)
	at := slices.IndexFunc(i.Checked, func(c Count) bool { return c.Noun == noun })
	if at < 0 {
		i.Checked, at = append(i.Checked, Count{Noun: noun}), len(i.Checked)
	}
	i.Checked[at].N += n
}

// skip notes what was not looked at for invariants.
func (r *Report) skip(why string, ids ...string) {
	for _, id := range ids {
		i := r.of(id)
		i.NotChecked = append(i.NotChecked, why)
	}
}

// sort puts the violations of each invariant in one order, by kind, lane and number.
func (r *Report) sort() {
	for _, i := range r.Invariants {
		slices.SortStableFunc(i.Violations, func(a, b Violation) int {
			return cmp.Or(cmp.Compare(a.What, b.What), cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Delivery, b.Delivery),
				cmp.Compare(a.Offer, b.Offer), cmp.Compare(a.Row, b.Row))
		})
	}
}
