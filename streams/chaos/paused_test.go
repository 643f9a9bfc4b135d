package chaos

import (
	"context"
	"fmt"
	"regexp"
	"testing"
)

// A worker that stands still past its session loses its partitions, or its lane, to another, which does its work. When it
// goes on it changes nothing, notices, and works again.
func TestPausedWorkerIsFenced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		role  string
		rest  []string
		point string
		kind  string // of the lanes that the role moves; "": none
		says  string // what it says when it goes on: a regular expression
	}{
		{"ingest before its transaction", "ingest", []string{"relay", "project"}, "ingest.mapped", "input",
			"fenced: another worker moved a lane of this batch"},
		{"ingest in its transaction, which PostgreSQL ends", "ingest", []string{"relay", "project"}, "ingest.before_commit", "input",
			"PostgreSQL is out of reach: nothing is stored.*25P03"},
		{"relay in its transaction, which Kafka ends", "relay", []string{"ingest", "project"}, "relay.before_end_txn", "",
			"commit the events.*(INVALID_PRODUCER_EPOCH|PRODUCER_FENCED)"},
		{"projector before its transaction", "project", []string{"ingest", "relay"}, "project.fetched", "projector",
			"fenced.*the checkpoint was moved by another worker"},
		{"projector in its transaction, which PostgreSQL ends", "project", []string{"ingest", "relay"}, "project.before_commit", "projector",
			"out of reach, trying again.*25P03"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const hit = 2 // of ingest, the first is the batch with the command that applies the feed
			in := newInstallation(t)
			in.start(shipped, "", c.rest...)
			sleeper := in.start(faulty, fmt.Sprintf("%s=stop:%d", c.point, hit), c.role)
			in.applyFeed()
			in.deliver(12)
			sleeper.stopped(c.point, hit)
			heir := in.start(shipped, "", c.role)
			in.verify()
			before := in.commits(sleeper, c.kind)

			sleeper.wake()
			says := regexp.MustCompile(c.says)
			in.Until("the paused process to notice", func(context.Context) (bool, error) { return says.MatchString(sleeper.said()), nil })
			in.verify()
			if got := in.commits(sleeper, c.kind); got != before {
				t.Errorf("the paused process has committed %d transactions, %d before the pause", got, before)
			}

			heir.stop()
			in.deliver(12)
			in.verify()
			if got := in.commits(sleeper, c.kind); c.kind != "" && got <= before {
				t.Error("the paused process has done nothing since")
			}
			sleeper.stop()
		})
	}
}
