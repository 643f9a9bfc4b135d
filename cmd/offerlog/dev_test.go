package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
)

const devFeed = `
feed: kills
tenant: demo
connector: kills
account: ACC-1
accepts: {topics: [deliveries], source: /kills}
format: {kind: json, rows: ".offers[]"}
order: version
mapping:
  version: 1
  fields: {source_record: .sku, source_version: .rev, item: {mpn: .sku}, quantity: .qty, price: .price, currency: .cur}
`

// dev is killed at random moments while deliveries flow through it. In the end every delivery has its outcome, the log of
// observations lacks none, and the view shows every offer.
func TestDevLosesNothingWhenItIsKilled(t *testing.T) {
	const rounds, deliveries = 6, 200
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	d := newDevProcess(t)
	d.start()
	d.register(devFeed)
	for round := range rounds {
		d.deliver(round, deliveries)
		d.killAfter(time.Duration(random.IntN(400)) * time.Millisecond)
		d.start()
	}
	total := rounds * deliveries
	// A record that was tried alone each time when three kills came is taken for their reason, and set aside.
	d.await("SELECT count(*) FROM audit_v1.outcome WHERE outcome = 'accepted' OR reason = 'crash_loop'", total)
	accepted := d.ask("SELECT count(*) FROM audit_v1.outcome WHERE outcome = 'accepted'")
	if accepted < total-rounds/3 {
		t.Errorf("%d deliveries are accepted, want %d, but for one or two that the kills hit three times", accepted, total)
	}
	d.await("SELECT count(*) FROM audit_v1.current_offer WHERE revision IS NOT NULL", accepted)
	if got := d.published(); got != accepted {
		t.Errorf("the log of observations has %d of them, want %d", got, accepted)
	}
}

// A devProcess is an offerlog dev that runs as a process of its own.
type devProcess struct {
	t        *testing.T
	program  string
	dir      string
	cmd      *exec.Cmd
	stderr   bytes.Buffer // of all its lives
	instance devInstance
}

func newDevProcess(t *testing.T) *devProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := &devProcess{t: t, program: filepath.Join(t.TempDir(), "offerlog")}
	if err := os.Symlink(self, d.program); err != nil {
		t.Fatal(err)
	}
	if d.dir, err = os.MkdirTemp("", "offerlog-dev-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d.cmd != nil {
			d.signal(syscall.SIGINT)
		}
		if t.Failed() {
			t.Logf("dev said:\n%s", d.stderr.String())
		}
		if err := os.RemoveAll(d.dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(d.dir, 0o755); err != nil { // PostgreSQL may be another user
		t.Fatal(err)
	}
	return d
}

// start returns when dev has told where it listens.
func (d *devProcess) start() {
	d.t.Helper()
	d.cmd = exec.CommandContext(context.Background(), d.program, "dev", "--dir", d.dir, "--port", "0")
	d.cmd.Stderr = &d.stderr
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	pid := d.cmd.Process.Pid
	d.until("dev runs", func() bool {
		content, err := os.ReadFile(runFile(d.dir))
		return err == nil && json.Unmarshal(content, &d.instance) == nil && d.instance.PID == pid
	})
}

func (d *devProcess) killAfter(wait time.Duration) {
	<-time.After(wait)
	d.signal(syscall.SIGKILL)
}

// signal ends the process.
func (d *devProcess) signal(s syscall.Signal) {
	if err := d.cmd.Process.Signal(s); err != nil {
		d.t.Error(err)
	}
	_ = d.cmd.Wait() // killed is an error, and is meant
	d.cmd = nil
}

func (d *devProcess) register(text string) {
	d.t.Helper()
	spec, err := feed.ParseYAML("feed.yaml", []byte(text))
	if err != nil {
		d.t.Fatal(err)
	}
	pool, err := postgres.Open(d.t.Context(), d.instance.Postgres, 1)
	if err != nil {
		d.t.Fatal(err)
	}
	defer pool.Close()
	err = postgres.InTx(d.t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) error {
		_, fault, err := feed.Apply(d.t.Context(), tx, spec, offer.DeliveryID{1}, time.Now())
		if fault != nil {
			return fault
		}
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *devProcess) client(opts ...kgo.Opt) *kgo.Client {
	d.t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(d.instance.Kafka))...)
	if err != nil {
		d.t.Fatal(err)
	}
	return cl
}

// deliver produces n deliveries of one offer each, and returns when Kafka has all of them.
func (d *devProcess) deliver(round, n int) {
	d.t.Helper()
	cl := d.client()
	defer cl.Close()
	var records []*kgo.Record
	for i := range n {
		id := fmt.Sprintf("%d-%d", round, i)
		r := &kgo.Record{Topic: streams.Deliveries, Key: []byte(id), Value: fmt.Appendf(nil, `{"offers":[{"sku":%q,"rev":1,"qty":"4","price":"1.50","cur":"EUR"}]}`, id)}
		for _, h := range [][2]string{{"ce_specversion", "1.0"}, {"ce_id", id}, {"ce_time", "2026-03-02T08:00:00Z"}, {"ce_source", "/kills"},
			{"ce_type", streams.DeliveryType}, {"content-type", "application/json"}} {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
		}
		records = append(records, r)
	}
	if err := cl.ProduceSync(d.t.Context(), records...).FirstErr(); err != nil {
		d.t.Fatal(err)
	}
}

// ask returns the number that a query says.
func (d *devProcess) ask(query string) (n int) {
	d.t.Helper()
	err := execute(d.t.Context(), d.instance.Postgres, func(conn *pgx.Conn) error {
		_, err := conn.Exec(d.t.Context(), "SET ROLE offerlog_inspect")
		if err == nil {
			err = conn.QueryRow(d.t.Context(), query).Scan(&n)
		}
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}

// await waits until a query says want.
func (d *devProcess) await(query string, want int) {
	d.t.Helper()
	got := -1
	err := execute(d.t.Context(), d.instance.Postgres, func(conn *pgx.Conn) error {
		_, err := conn.Exec(d.t.Context(), "SET ROLE offerlog_inspect")
		defer func() { d.t.Logf("%s: %d, want %d", query, got, want) }()
		d.until(fmt.Sprintf("%s: %d", query, want), func() bool {
			if err == nil {
				err = conn.QueryRow(d.t.Context(), query).Scan(&got)
			}
			return err != nil || got == want
		})
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

// patience bounds a wait: after kills, records are taken one by one, which a busy machine does slowly.
const patience = 5 * time.Minute

func (d *devProcess) until(what string, done func() bool) {
	d.t.Helper()
	for deadline := time.After(patience); !done(); {
		select {
		case <-deadline:
			d.t.Fatalf("waited for %v until %s", patience, what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// published counts the committed events of observations, each once.
func (d *devProcess) published() int {
	d.t.Helper()
	cl := d.client(kgo.ConsumeTopics(streams.Observations), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer cl.Close()
	topic, err := kafka.Describe(d.t.Context(), cl, streams.Observations, true)
	if err != nil {
		d.t.Fatal(err)
	}
	left := 0
	for p := range topic.Ends {
		if topic.Ends[p] > topic.Starts[p] {
			left++
		}
	}
	seen := map[string]bool{}
	for left > 0 {
		fetched := cl.PollFetches(d.t.Context())
		if err := fetched.Err(); err != nil {
			d.t.Fatal(err)
		}
		for r := range fetched.RecordsAll() {
			if r.Offset == topic.Ends[r.Partition]-1 {
				left--
			}
			if r.Attrs.IsControl() {
				continue
			}
			for _, h := range r.Headers {
				if h.Key == "ce_id" {
					seen[string(h.Value)] = true
				}
			}
		}
	}
	return len(seen)
}
