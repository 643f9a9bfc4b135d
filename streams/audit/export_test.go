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
