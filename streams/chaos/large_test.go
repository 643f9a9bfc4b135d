package chaos

import (
	"bufio"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

const catalogue = `
feed: catalogue
tenant: t1
connector: catalogue
account: ACC-1
accepts: {topics: [deliveries], source: /catalogue}
dataref: {hosts: ['%s']}
format: {kind: csv}
limits: {max_bytes: 1073741824}
order: version
mapping:
  version: 1
  fields: {source_record: .sku, source_version: .rev, item: {mpn: .mpn, manufacturer: .maker}, quantity: .qty, price: .price, currency: .cur}
`

// mostMemory is what ingest and its mapper may hold together, however large a delivery is.
const mostMemory = 400 << 20

// One delivery of 50,000 rows, or with OFFERLOG_SOAK=1 of 1,000,000, that an event names: a worker that is killed in the middle
// leaves nothing, the next one stores it in one transaction, and whoever counts history meanwhile sees none of it or all.
func TestALargeDeliveryIsStoredWholeOrNotAtAll(t *testing.T) {
	rows := 50_000
	if os.Getenv("OFFERLOG_SOAK") != "" {
		rows = 1_000_000
	}
	in := newInstallation(t)
	file := filepath.Join(in.dir, "catalogue.csv")
	size := writeCatalogue(t, file, rows)
	server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { http.ServeFile(rw, r, file) }))
	t.Cleanup(server.Close)
	trusted := filepath.Join(in.dir, "ca.pem")
	if err := os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", trusted)
	t.Setenv("OFFERLOG_DATAREF_ALLOW_ADDRESSES", "127.0.0.1")
	t.Setenv("OFFERLOG_SPOOL", filepath.Join(in.host, "spool"))

	first := in.start(shipped, "", "ingest")
	spec, err := feed.ParseYAML("catalogue.yaml", fmt.Appendf(nil, catalogue, server.Listener.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	in.ApplyFeed(spec)
	first.stop()

	in.Publish(&kgo.Record{Topic: streams.Deliveries, Headers: []kgo.RecordHeader{
		{Key: "ce_specversion", Value: []byte("1.0")}, {Key: "ce_id", Value: []byte("C-1")}, {Key: "ce_source", Value: []byte("/catalogue")},
		{Key: "ce_type", Value: []byte(streams.DeliveryType)}, {Key: "ce_time", Value: []byte("2025-03-01T08:00:00Z")},
		{Key: "content-type", Value: []byte("text/csv")}, {Key: "ce_dataref", Value: []byte(server.URL + "/catalogue.csv")}}})
	seen := in.watch()
	half := rows / 5000 / 2
	killed := in.start(faulty, fmt.Sprintf("ingest.rows_half=kill:%d", half), "ingest")
	killed.diesOf("ingest.rows_half", half)
	if n := in.count("observation"); n != 0 {
		t.Fatalf("%d rows are in history after the worker was killed at half of them", n)
	}

	began := time.Now()
	ingest := in.start(shipped, "", "ingest")
	memory := watchMemory(ingest.pid())
	in.grows("all rows to be in history", rows, func() int { return in.count("observation") }, memory)
	stored := time.Since(began)
	for _, n := range seen() {
		if n != 0 && n != rows {
			t.Errorf("history showed %d of %d rows", n, rows)
		}
	}
	peak := memory()
	t.Logf("%d rows, %d bytes: fetched, archived, mapped and stored in %.1f s, %.0f rows/s; ingest and mapper held %d MB at most", rows, size, stored.Seconds(), float64(rows)/stored.Seconds(), peak>>20)
	if peak > mostMemory {
		t.Errorf("ingest and mapper held %d MB, want at most %d", peak>>20, mostMemory>>20)
	}
	if left, err := filepath.Glob(filepath.Join(in.host, "spool", "spool-*", "*")); err != nil || len(left) != 1 { // the lock
		t.Errorf("the spool folder holds %q, %v", left, err)
	}

	began = time.Now()
	rest := in.start(shipped, "", "relay", "project")
	memory = watchMemory(rest.pid())
	in.grows("all offers to be in the view", rows, func() int { return in.count("current_offer") }, memory)
	t.Logf("the view has followed, offer by offer, in %.1f s, %.0f offers/s; relay and projector held %d MB at most", time.Since(began).Seconds(), float64(rows)/time.Since(began).Seconds(), memory()>>20)
}

// writeCatalogue writes a CSV file of n rows and returns its size.
func writeCatalogue(t *testing.T, name string, n int) int64 {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(file)
	_, _ = w.WriteString("sku,rev,mpn,maker,qty,price,cur\r\n")
	for i := range n { // a bufio.Writer keeps its error for Flush
		_, _ = fmt.Fprintf(w, "SKU-%07d,1,\"MPN %07d\",Maker %d,%d,%d.%02d,EUR\r\n", i, i, i%97, i%1000, i%500, i%100)
	}
	if err := errors.Join(w.Flush(), file.Close()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// count counts the rows of a view of audit_v1.
func (in *installation) count(view string) (n int) {
	in.t.Helper()
	err := postgres.InTx(in.t.Context(), in.Pool, postgres.Inspect, func(tx pgx.Tx) error {
		return tx.QueryRow(in.t.Context(), "SELECT count(*) FROM audit_v1."+view).Scan(&n)
	})
	if err != nil {
		in.t.Fatal(err)
	}
	return n
}

// watch counts history again and again, until it is asked what it saw: each number once.
func (in *installation) watch() (seen func() []int) {
	ctx, stop := context.WithCancel(in.t.Context())
	var (
		numbers []int
		failed  error
		done    sync.WaitGroup
	)
	done.Go(func() {
		for ctx.Err() == nil && failed == nil {
			var n int
			failed = postgres.InTx(context.WithoutCancel(ctx), in.Pool, postgres.Inspect, func(tx pgx.Tx) error {
				return tx.QueryRow(context.WithoutCancel(ctx), "SELECT count(*) FROM audit_v1.observation").Scan(&n)
			})
			if !slices.Contains(numbers, n) {
				numbers = append(numbers, n)
			}
		}
	})
	in.t.Cleanup(stop)
	return func() []int {
		stop()
		done.Wait()
		if failed != nil {
			in.t.Fatal(failed)
		}
		return numbers
	}
}

// grows waits until count has come to n. Patience is for each step of it, as long as the processes are at work.
func (in *installation) grows(what string, n int, count func() int, memory func() int) {
	in.t.Helper()
	for deadline, last := time.Now().Add(10*pipeline.Patience), 0; last < n; memory() {
		if time.Now().After(deadline) {
			in.t.Fatalf("waited for %s: %d of %d", what, last, n)
		}
		if now := count(); now > last {
			deadline, last = time.Now().Add(pipeline.Patience), now
		}
	}
}

// watchMemory returns what tells, each time it is called, the most that a process and its children have held at once so far,
// in bytes, as far as the calls have seen it: of those that live at the moment each one's own most, added up.
func watchMemory(pid int) func() int {
	most := 0
	return func() int {
		sum := highWater(pid)
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		for _, thread := range threads {
			children, _ := os.ReadFile(thread) // a thread may be gone
			for _, child := range strings.Fields(string(children)) {
				if n, err := strconv.Atoi(child); err == nil {
					sum += highWater(n)
				}
			}
		}
		most = max(most, sum)
		return most
	}
}

// highWater is VmHWM of a process in bytes; 0 where it is gone.
func highWater(pid int) (n int) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, _ = fmt.Sscan(rest, &n)
		}
	}
	return n << 10
}
