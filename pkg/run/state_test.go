package run

import (
	"testing"
	"time"

	"github.com/offerlog/offerlog/pkg/decision"
)

// S-003-23, S-000-12: silence is a stall and never an end, and what failed is told until it has come.
func TestS_003_23_AStateIsWhatThePagesSay(t *testing.T) {
	now := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	minute, hours := now.Add(-time.Minute), now.Add(-3*time.Hour)
	decided := func(verdicts ...decision.Verdict) (list []decision.Document) {
		for _, v := range verdicts {
			list = append(list, decision.Document{Verdict: v})
		}
		return list
	}
	for name, test := range map[string]struct {
		run  Document
		want State
	}{
		"nothing has come, a minute ago":               {Document{lastSeen: minute}, StateIncomplete},
		"pages are missing":                            {Document{Pages: 3, PagesSeen: []int{1, 2}, PagesMissing: []int{3}, lastSeen: minute}, StateIncomplete},
		"pages are missing, and nothing came for long": {Document{Pages: 3, PagesSeen: []int{1, 2}, PagesMissing: []int{3}, lastSeen: hours}, StateStalled},
		"nobody has said how many pages there are":     {Document{PagesSeen: []int{1, 2, 3}, lastSeen: minute}, StateIncomplete},
		"the connector is done, and a page is missing": {Document{Pages: 3, PagesSeen: []int{1, 2}, PagesMissing: []int{3}, CompletedAt: "2025-03-01T11:59:00Z", lastSeen: minute}, StateIncomplete},
		"each page is there":                           {Document{Pages: 2, PagesSeen: []int{1, 2}, lastSeen: hours}, StateComplete},
		"a page that is missing failed":                {Document{Pages: 3, PagesSeen: []int{1, 2}, PagesMissing: []int{3}, Failures: []Failure{{Page: 3}}, lastSeen: hours}, StateFailed},
		"a page failed, and came later":                {Document{Pages: 3, PagesSeen: []int{1, 3}, PagesMissing: []int{2}, Failures: []Failure{{Page: 3}}, lastSeen: minute}, StateIncomplete},
		"the run failed":                               {Document{PagesSeen: []int{1}, Failures: []Failure{{}}, lastSeen: minute}, StateFailed},
		"the run failed, and all of it is there":       {Document{Pages: 1, PagesSeen: []int{1}, Failures: []Failure{{}}, lastSeen: minute}, StateComplete},
		"the brake holds it":                           {Document{Pages: 1, PagesSeen: []int{1}, Decisions: decided(decision.Braked), lastSeen: hours}, StateHeld},
		"an operator released it":                      {Document{Pages: 1, PagesSeen: []int{1}, Decisions: decided(decision.Braked, decision.Released), lastSeen: hours}, StateComplete},
		"an operator released a part":                  {Document{Pages: 3, PagesSeen: []int{1}, PagesMissing: []int{2, 3}, Decisions: decided(decision.Released), lastSeen: hours}, StateStalled},
		"an operator rejected it":                      {Document{Pages: 1, PagesSeen: []int{1}, Decisions: decided(decision.Completed, decision.Rejected), lastSeen: hours}, StateRejected},
	} {
		t.Run(name, func(t *testing.T) {
			test.run.Timeout = "1h"
			if got := test.run.state(now); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestWhatCompletesARun(t *testing.T) {
	for name, test := range map[string]struct {
		run  Standing
		want bool
	}{
		"each page is there":                       {Standing{Pages: 2, Seen: 2}, true},
		"a page is missing":                        {Standing{Pages: 2, Seen: 1}, false},
		"nobody has said how many there are":       {Standing{Seen: 2}, false},
		"that is decided already":                  {Standing{Pages: 2, Seen: 2, Verdict: decision.Completed, Counts: decision.Counting}, false},
		"the brake holds it":                       {Standing{Pages: 2, Seen: 2, Verdict: decision.Braked}, false},
		"an operator has rejected it":              {Standing{Pages: 2, Seen: 2, Verdict: decision.Rejected}, false},
		"an operator has released a part":          {Standing{Pages: 2, Seen: 2, Verdict: decision.Released, Counts: decision.Partial}, true},
		"an operator has released the whole of it": {Standing{Pages: 2, Seen: 2, Verdict: decision.Released, Counts: decision.Counting}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.run.Completes(); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}
