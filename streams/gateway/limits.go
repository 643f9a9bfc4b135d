package gateway

import (
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"
)

// limits keep one token from taking what belongs to all.
type limits struct {
	cfg Config

	mu sync.Mutex
	of map[uuid.UUID]*limit
}

// A limit is one token's.
type limit struct {
	rate    *rate.Limiter
	running int // deliveries in hand
}

// maxLimits bounds what is remembered of tokens that have been quiet since.
const maxLimits = 10_000

func newLimits(cfg Config) limits { return limits{cfg: cfg, of: map[uuid.UUID]*limit{}} }

// take counts a request of a token, or returns how long it has to wait for the next.
func (l *limits) take(id uuid.UUID, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[id]
	if t == nil {
		if len(l.of) >= maxLimits {
			l.forget(now)
		}
		t = &limit{rate: rate.NewLimiter(rate.Limit(l.cfg.Rate), l.cfg.Burst)}
		l.of[id] = t
	}
	if t.rate.AllowN(now, 1) {
		return 0
	}
	r := t.rate.ReserveN(now, 1)
	defer r.CancelAt(now)
	return r.DelayFrom(now)
}

// forget drops the tokens whose limit is as if they had never asked.
func (l *limits) forget(now time.Time) {
	for id, t := range l.of {
		if t.running == 0 && t.rate.TokensAt(now) >= float64(l.cfg.Burst) {
			delete(l.of, id)
		}
	}
}

// begin takes a delivery in hand, unless the token has as many as it may.
func (l *limits) begin(id uuid.UUID) (end func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[id] // there since take, unless it was forgotten in between
	if t == nil || t.running >= l.cfg.Parallel {
		return nil, false
	}
	t.running++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		t.running--
	}, true
}
