package ingest

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// maxBytes bounds the payloads of a batch, and with them memory and the length of its transaction.
	maxBytes = 16 << 20
	// maxStarts is how often lanes may be taken over without a commit before their records are taken one by one.
	maxStarts = 2
	// maxTries is how often a record may be tried alone before it is set aside as crash_loop.
	maxTries = 3
)

// A pace says how much a worker takes at once: less after each failure, more after each success.
type pace struct {
	most    int // records of a batch
	records int
	alone   int // so many records are yet to be taken one by one
	wait    *backoff.ExponentialBackOff
}

func newPace(most int) pace {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 5*time.Second
	return pace{most: most, records: most, wait: wait}
}

// size is that of the next batch.
func (p *pace) size() size {
	if p.alone > 0 {
		return size{1, maxBytes}
	}
	return size{p.records, max(1, maxBytes/p.most*p.records)}
}

// takeOver hears how often the lanes in hand were taken over without a commit. Workers may have died of what they held, which
// was a batch at most.
func (p *pace) takeOver(starts int) {
	if starts > maxStarts {
		p.alone = p.most
	}
}

// refused hears that a batch cannot be stored for what is in it.
func (p *pace) refused(records int) { p.alone = max(p.alone, records) }

// succeeded makes the next batch larger.
func (p *pace) succeeded(records int) {
	p.wait.Reset()
	if records > 0 {
		p.records = min(p.most, 2*p.records)
		p.alone = max(0, p.alone-records)
	}
}

// failed makes the next batch smaller, and returns how long to wait before it.
func (p *pace) failed() time.Duration {
	p.records = max(1, p.records/2)
	return p.wait.NextBackOff()
}
