package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/outbox"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/audit"
	"github.com/offerlog/offerlog/streams/rig"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

const partitions = 3

// An installation is what processes of offerlog share on real servers: a database, topics, and a folder or a bucket with the
// archive.
type installation struct {
	*pipeline.Pipeline
	*supply
	t         *testing.T
	dir       string // of the test: what the processes say
	host      string // the disk of the processes: their working folder, with the key and, unless it is in a bucket, the archive
	location  string // of the archive
	endpoint  string // of its bucket
	archive   *archive.Archive
	processes []*process
}

// session is how long a member of a consumer group that is not heard of keeps its partitions, in milliseconds.
const session = "2000"

// newInstallation makes one without processes; those that are started end with the test.
func newInstallation(t *testing.T) *installation {
	t.Helper()
	rig.RealKafka(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	in := &installation{t: t, dir: t.TempDir(), supply: newSupply(rand.New(rand.NewPCG(seed, 0)), partitions)}
	in.Pipeline = pipeline.New(t, pipeline.Options{RealKafka: true, Partitions: partitions})
	in.Topics(streams.Deliveries)
	in.host = filepath.Join(in.dir, "host")
	in.location = filepath.Join(in.host, "archive")
	key := filepath.Join(in.host, "archive.key")
	err := errors.Join(os.MkdirAll(in.location, 0o700), archive.CreateMasterKey(key))
	if err != nil {
		t.Fatal(err)
	}
	files, err := archive.OpenFiles(in.location)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() }) // it was only read
	in.reads(files)
	in.missSoon(streams.IngestGroup, streams.ProjectGroup)
	t.Cleanup(in.end)
	return in
}

// reads lets the audit read the archive from a store.
func (in *installation) reads(store archive.Store) {
	in.t.Helper()
	ring, err := archive.ReadKeyring(filepath.Join(in.host, "archive.key"))
	if err != nil {
		in.t.Fatal(err)
	}
	in.archive = archive.New(store, archive.NewPostgresKeys(in.Pool, ring))
}

// missSoon makes the members of groups that are not heard of lose their partitions after session.
func (in *installation) missSoon(groups ...string) {
	in.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, g := range groups {
		set := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		set.Name, set.Value, set.Op = "consumer.session.timeout.ms", kadm.StringPtr(session), kmsg.IncrementalAlterConfigOpSet
		group := kmsg.NewIncrementalAlterConfigsRequestResource()
		group.ResourceType, group.ResourceName = kmsg.ConfigResourceTypeGroupConfig, in.Cluster.Prefix+g
		group.Configs = append(group.Configs, set)
		req.Resources = append(req.Resources, group)
	}
	resp, err := req.RequestWith(in.t.Context(), in.Client)
	if err == nil {
		for _, r := range resp.Resources {
			err = errors.Join(err, kerr.ErrorForCode(r.ErrorCode))
		}
	}
	if err != nil {
		in.t.Fatalf("set the session timeout of groups (the broker must allow it: group.consumer.min.session.timeout.ms): %v", err)
	}
}

// end ends what still runs; what the processes said is shown where the test has failed.
func (in *installation) end() {
	for _, p := range in.processes {
		if err := p.child.Stop(context.Background(), syscall.SIGKILL, syscall.SIGKILL); err != nil {
			in.t.Error(err)
		}
		if in.t.Failed() {
			lines := strings.Split(p.said(), "\n")
			in.t.Logf("process %d, %s, said at last:\n%s", p.pid(), p.name, strings.Join(lines[max(0, len(lines)-15):], "\n"))
		}
	}
}

// applyFeed applies the supplier's feed; an ingest process must run.
func (in *installation) applyFeed() {
	in.t.Helper()
	spec, err := feed.ParseYAML("acme-eu.yaml", []byte(acme))
	if err != nil {
		in.t.Fatal(err)
	}
	in.ApplyFeed(spec)
}

// deliver publishes a wave of n deliveries.
func (in *installation) deliver(n int) {
	in.t.Helper()
	byPartition := map[int32][]*kgo.Record{}
	for _, r := range in.wave(n) {
		byPartition[r.Partition] = append(byPartition[r.Partition], r)
	}
	for _, p := range slices.Sorted(maps.Keys(byPartition)) {
		in.PublishTo(p, byPartition[p]...)
	}
}

// replayEverything begins a replay of what was delivered so far, which is n deliveries, in three pages or two.
func (in *installation) replayEverything(n int64) {
	in.t.Helper()
	in.Publish(pipeline.Event(streams.Commands, "t1", fmt.Appendf(nil, `{"feed": "acme-eu", "rate": %d}`, n/2),
		map[string]string{"id": fmt.Sprint("replay of ", n), "source": "/chaos", "type": streams.ReplayStartType, streams.ExtTenant: "t1", streams.ExtReason: "to be sure"}))
	in.Until("the replay to begin", func(context.Context) (begun bool, err error) {
		in.inspect(func(tx pgx.Tx) error {
			return tx.QueryRow(in.t.Context(), "SELECT EXISTS (SELECT FROM audit_v1.replay_run AS r WHERE r.state = 'running')").Scan(&begun)
		})
		return begun, nil
	})
}

// replayed waits until every replay has ended, and compares the last one with its plan: n deliveries, all of them repeats.
func (in *installation) replayed(n int64) {
	in.t.Helper()
	in.Until("the replay to end", func(context.Context) (ended bool, err error) {
		in.inspect(func(tx pgx.Tx) error {
			return tx.QueryRow(in.t.Context(), "SELECT bool_and(r.state = 'sent' AND r.sent = r.answered) FROM audit_v1.replay_run AS r").Scan(&ended)
		})
		return ended, nil
	})
	var sent, repeats int64
	in.inspect(func(tx pgx.Tx) error {
		return tx.QueryRow(in.t.Context(), `
			SELECT r.sent, (SELECT count(*)
			                  FROM audit_v1.replay AS p
			                  JOIN audit_v1.outcome AS o ON (o.lane, o."offset") = (p.lane, p."offset")
			                 WHERE p.of_run = r.id
			                   AND o.outcome = 'duplicate')
			  FROM audit_v1.replay_run AS r
			 ORDER BY r.recorded_at DESC
			 LIMIT 1`).Scan(&sent, &repeats)
	})
	if sent != n || repeats != n {
		in.t.Errorf("the replay has sent %d deliveries, %d of them repeats, want %d", sent, repeats, n)
	}
}

// fillOutbox makes the outbox begin its next slot, as a full one would, so that what stands in the present one is pruned.
func (in *installation) fillOutbox() {
	in.t.Helper()
	err := postgres.InTx(in.t.Context(), in.Pool, postgres.Janitor, func(tx pgx.Tx) error {
		_, err := outbox.Prune(in.t.Context(), tx, 0)
		return err
	})
	if err != nil {
		in.t.Fatal(err)
	}
}

func (in *installation) inspect(f func(tx pgx.Tx) error) {
	in.t.Helper()
	if err := postgres.InTx(in.t.Context(), in.Pool, postgres.Inspect, f); err != nil {
		in.t.Fatal(err)
	}
}

// commits counts the transactions of a process that have moved lanes of a kind.
func (in *installation) commits(p *process, kind string) (n int) {
	in.t.Helper()
	in.inspect(func(tx pgx.Tx) error {
		return tx.QueryRow(in.t.Context(), `
			SELECT count(DISTINCT j.recorded_at)
			  FROM audit_v1.commit_journal AS j
			  JOIN audit_v1.position AS p ON p.lane = j.lane
			 WHERE p.kind = $1
			   AND j.owner ~ ('[:/]' || $2::int || '(/[0-9]+)?$')`, kind, p.pid()).Scan(&n)
	})
	return n
}

// audit holds what is stored now against the invariants. Nothing has to run, and everything may.
func (in *installation) audit() audit.Report {
	in.t.Helper()
	report, err := audit.Run(in.t.Context(), audit.Inputs{Pool: in.Pool, Cluster: in.Cluster, Archive: in.archive, Mapper: in.Mapper})
	if err != nil {
		in.t.Fatal(err)
	}
	if !report.OK() {
		var text strings.Builder
		if err := report.Write(&text); err != nil {
			in.t.Fatal(err)
		}
		in.t.Fatalf("the audit:\n%s", text.String())
	}
	return report
}

// verify waits until all that was delivered is in the view and in every topic, and holds it against the model of the supply
// and against the invariants.
func (in *installation) verify() {
	in.t.Helper()
	in.SettleOffers()
	in.checkOutcomes()
	in.checkHistory()
	in.checkTopic()
	in.checkOffers()
	for _, i := range in.audit().Invariants {
		if len(i.Checked) == 0 || len(i.NotChecked) > 0 {
			in.t.Errorf("audit of %s: checked %v, not checked %v, want all of it checked", i.ID, i.Checked, i.NotChecked)
		}
	}
}

// checkOutcomes compares what became of the events of the topic, and the receipts.
func (in *installation) checkOutcomes() {
	in.t.Helper()
	got := map[string]int{}
	var receipts int
	in.inspect(func(tx pgx.Tx) error {
		clear(got)
		rows, err := tx.Query(in.t.Context(), `
			SELECT coalesce(o.reason, o.outcome), count(*)
			  FROM audit_v1.outcome AS o
			  JOIN audit_v1.position AS p ON p.lane = o.lane
			 WHERE p.topic = $1
			 GROUP BY 1`, streams.Deliveries)
		if err != nil {
			return err
		}
		var (
			outcome string
			n       int
		)
		if _, err := pgx.ForEachRow(rows, []any{&outcome, &n}, func() error { got[outcome] = n; return nil }); err != nil {
			return err
		}
		return tx.QueryRow(in.t.Context(), "SELECT count(*) FROM audit_v1.receipt AS r JOIN audit_v1.position AS p ON p.lane = r.lane WHERE p.topic = $1",
			streams.Deliveries).Scan(&receipts)
	})
	if !maps.Equal(got, in.outcomes) {
		in.t.Errorf("outcomes: got %v, want %v", got, in.outcomes)
	}
	if receipts != in.deliveries {
		in.t.Errorf("got %d receipts, want %d", receipts, in.deliveries)
	}
}

// checkHistory compares the observations, with what each says.
func (in *installation) checkHistory() {
	in.t.Helper()
	got := map[row]row{}
	docs := in.Observations("t1")
	for _, d := range docs {
		r, err := claim(d)
		if err != nil {
			in.t.Fatal(err)
		}
		got[r] = r
	}
	if len(docs) != len(in.claimed) || !maps.Equal(got, in.claimed) {
		in.t.Errorf("got %d observations, want %d; not delivered: %v; lost: %v", len(docs), len(in.claimed), only(got, in.claimed), only(in.claimed, got))
	}
}

// checkTopic looks in the topic of observations for each row of an accepted delivery, once: those that were new as recorded,
// those that restate as sighted. Decisions are there once in each partition.
func (in *installation) checkTopic() {
	in.t.Helper()
	type place struct {
		id        string
		partition int32 // of a decision, which each partition gets
	}
	ids, types := map[place]int{}, map[string]int{}
	for _, r := range in.Committed(streams.Observations) {
		var at place
		var kind string
		for _, h := range r.Headers {
			switch h.Key {
			case "ce_id":
				at.id = string(h.Value)
			case "ce_type":
				kind = string(h.Value)
			}
		}
		if kind == streams.DecisionMade {
			at.partition = r.Partition
		} else {
			types[kind]++
		}
		ids[at]++
	}
	for at, n := range ids {
		if n > 1 {
			in.t.Errorf("event %s is %d times in the topic of observations", at.id, n)
		}
	}
	want := map[string]int{streams.ObservationRecorded: len(in.claimed), streams.ObservationSighted: in.rows - len(in.claimed)}
	maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
	if !maps.Equal(types, want) {
		in.t.Errorf("events in the topic of observations: got %v, want %v", types, want)
	}
}

// checkOffers compares the view with the fold of what was delivered.
func (in *installation) checkOffers() {
	in.t.Helper()
	got := map[string]row{}
	for _, d := range in.Offers("t1") {
		r, err := claim(d.Document)
		if err != nil {
			in.t.Fatal(err)
		}
		got[r.SKU] = r
	}
	if !maps.Equal(got, in.offers) {
		in.t.Errorf("the view: got %v, want %v", only(got, in.offers), only(in.offers, got))
	}
}

// String says how much was delivered.
func (in *installation) String() string {
	return fmt.Sprintf("%d deliveries, %d rows, %d observations, %d offers, outcomes %v", in.deliveries, in.rows, len(in.claimed), len(in.offers), in.outcomes)
}
