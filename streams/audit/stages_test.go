package audit_test

import (
	"strings"
	"testing"

	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/audit"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// wrong names the stages with parts that do not agree, each once.
func wrong(r audit.Report) string {
	var names []string
	for _, p := range r.Parts() {
		if !p.OK() && (len(names) == 0 || names[len(names)-1] != p.Stage) {
			names = append(names, p.Stage)
		}
	}
	return strings.Join(names, " ")
}

// Each stage is compared with what follows from the one before, so that a defect shows where it is, and in what it is derived for.
func TestEachStageIsWhatFollowsFromTheOneBefore(t *testing.T) {
	w := newWorld(t, pipeline.Options{})
	healthy := run(t, w.inputs())
	counts := map[string]int64{}
	for _, p := range healthy.Parts() {
		if !p.OK() || p.Want == 0 {
			t.Errorf("got %+v, want it to agree, and something in it", p)
		}
		counts[p.Stage+" "+p.Feed] += p.Want
	}
	for _, part := range []string{"history strong", "history weak", "observations strong", "observations catalogue", "view weak", "view catalogue", "current-offers strong"} {
		if counts[part] == 0 {
			t.Errorf("got parts %v, want one of %s", counts, part)
		}
	}
	if v := healthy.FirstWrong(); v != nil {
		t.Errorf("got %s, want nothing wrong", v)
	}
	for name, d := range map[string]struct{ sql, stages, first string }{
		"an observation is lost":          {`DELETE FROM observation` + recordC, "history", "I5: a row of a payload is in no observation and no sighting: tenant t1, offer t1/ACC-1/C"},
		"a price is changed":              {`UPDATE observation SET price = price + 1` + recordC, "history observations", "I5: a claim is not what its payload says: tenant t1, offer t1/ACC-1/C"},
		"an artifact is recorded wrongly": {`UPDATE artifact SET sums[1] = sha256('x') WHERE tenant = 't1'`, "", "I4: an entry of an object is not what its row says"},
		"a flag is lost":                  {`UPDATE current_offer SET flags = '{}' WHERE flags <> '{}'`, "view", "I12: the view does not show the fold of the claims"},
		"an offer is removed":             {`DELETE FROM current_offer` + recordC, "view", "I12: an offer is not in the view: tenant t1, offer t1/ACC-1/C"},
		"a publication is changed":        {`UPDATE publication SET digest = sha256('x') WHERE offer = (SELECT offer FROM current_offer` + recordC + `)`, "current-offers", "I17: the last change of an offer does not say what the view has published"},
		"an event is not published":       {`UPDATE observation SET retrieved_ns = retrieved_ns + 1` + recordC, "observations", "I9: a published event is not what is stored"},
	} {
		t.Run(name, func(t *testing.T) {
			in, super := w.copy(t)
			if tag, err := super.Exec(t.Context(), d.sql); err != nil || tag.RowsAffected() == 0 {
				t.Fatalf("plant the defect: %v, %v", tag, err)
			}
			r := run(t, in)
			v := r.FirstWrong()
			if wrong(r) != d.stages || v == nil || !strings.Contains(v.String(), d.first) {
				t.Errorf("got stages %q and %v, want %q and %q", wrong(r), v, d.stages, d.first)
			}
		})
	}
}

// The first record that is wrong is named, however many others were found before it.
func TestTheFirstWrongRecordIsNamedAmongMany(t *testing.T) {
	var found []audit.Violation
	for n := range 300 {
		found = append(found, audit.Violation{Invariant: "I5", Where: audit.Where{Lane: 1, Offset: new(int64(7)), Row: 300 - n}})
	}
	if v := audit.FirstWrongOf(found...); v == nil || v.Row != 1 {
		t.Errorf("got %v, want row 1", v)
	}
	found = nil
	for n := range 300 {
		found = append(found, audit.Violation{Invariant: "I9", Where: audit.Where{Topic: streams.Replays, Lane: 1, Seq: int64(n + 1)}})
	}
	found = append(found, audit.Violation{Invariant: "I9", Where: audit.Where{Topic: streams.CurrentOffers, Lane: 2, Seq: 1}})
	if v := audit.FirstWrongOf(found...); v == nil || v.Lane != 2 {
		t.Errorf("got %v, want the one of lane 2", v)
	}
}
