package audit

import (
	"testing"
	"time"
)

// ShortOpenTransactions makes audits of a test call a transaction open that is for longer than d.
func ShortOpenTransactions(t *testing.T, d time.Duration) {
	before := openFor
	openFor = d
	t.Cleanup(func() { openFor = before })
}

// ReadHistory makes audits of a test read so many events of a lane at once.
func ReadHistory(t *testing.T, atOnce int64) {
	before := historyAtOnce
	historyAtOnce = atOnce
	t.Cleanup(func() { historyAtOnce = before })
}

// FirstWrongOf is the first of violations that were found in this order.
func FirstWrongOf(found ...Violation) *Violation {
	r := newReport()
	for _, v := range found {
		r.found(v)
	}
	return r.FirstWrong()
}
