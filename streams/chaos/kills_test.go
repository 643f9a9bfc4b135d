package chaos

import (
	"os"
	"testing"
	"time"
)

var everything = []string{"ingest", "relay", "project"}

func TestRandomKills(t *testing.T) {
	t.Parallel() // with the tests that wait for sessions and leases as it does
	randomKills(t, 2_000, 5)
}

func TestSoakRandomKills(t *testing.T) {
	if os.Getenv("OFFERLOG_SOAK") == "" {
		t.Skip("takes several minutes: set OFFERLOG_SOAK=1")
	}
	randomKills(t, 20_000, 50)
}

// randomKills kills the shipped binary, with all stages in one process, at random instants while deliveries come.
func randomKills(t *testing.T, deliveries, kills int) {
	in := newInstallation(t)
	p := in.start(shipped, "", everything...)
	in.applyFeed()

	// Longer than the leases of a relay that was killed: some lives see it work, others die while it waits.
	const longest = 14 * time.Second
	lives := make([]time.Duration, kills)
	var all time.Duration
	for i := range lives {
		lives[i] = time.Duration(in.random.Int64N(int64(longest)))
		all += lives[i]
	}
	const wave = 20
	pace := time.NewTicker(max(all/time.Duration(deliveries/wave), time.Millisecond))
	defer pace.Stop()
	death := time.NewTimer(lives[0])
	defer death.Stop()
	begin := time.Now()
	working := 0 // lives in which something was committed
	for len(lives) > 0 || in.deliveries < deliveries {
		select {
		case <-death.C:
			p.kill()
			if in.commits(p, "input")+in.commits(p, "projector") > 0 {
				working++
			}
			p = in.start(shipped, "", everything...)
			if lives = lives[1:]; len(lives) > 0 {
				death.Reset(lives[0])
			}
		case <-pace.C:
			if in.deliveries < deliveries {
				in.deliver(wave)
			}
		}
	}
	fed := time.Since(begin)
	in.verify()
	if in.deliveries != deliveries {
		t.Errorf("delivered %d, want %d", in.deliveries, deliveries)
	}
	if working < kills/3 {
		t.Errorf("only %d of %d processes had committed something when they were killed", working, kills)
	}
	p.stop()
	t.Logf("%d kills in %.0f s, %d of them of a process that had committed; settled and audited after %.0f s more: %v", kills, fed.Seconds(), working,
		(time.Since(begin) - fed).Seconds(), in)
}
