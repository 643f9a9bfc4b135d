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

// FirstWrongOf is the first of violations that were found in this order.
func FirstWrongOf(found ...Violation) *Violation {
	r := newReport()
	for _, v := range found {
		r.found(v)
	}
	return r.FirstWrong()
}
