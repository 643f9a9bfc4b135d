package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	runs "github.com/offerlog/offerlog/pkg/run"
	"github.com/offerlog/offerlog/pkg/token"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/gateway"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// An intake is an installation with a gateway, and one feed for each way in.
type intake struct {
	*pipeline.Pipeline
	t       *testing.T
	gateway string // http://host:port
	secret  token.Token
	file    string // that holds the token
}

func newIntake(t *testing.T, ways []string) *intake {
	t.Helper()
	in := &intake{t: t, Pipeline: pipeline.New(t, pipeline.Options{}), secret: token.New(), file: filepath.Join(t.TempDir(), "token")}
	in.Topics(streams.Deliveries)
	in.StartAll()
	for _, way := range ways {
		spec, err := feed.ParseYAML("feed.yaml", fmt.Appendf(nil, `
feed: %[1]s
tenant: t1
connector: %[1]s
account: ACC-%[1]s
accepts: {topics: [deliveries], source: /%[1]s}
format: {kind: json, rows: ".offers[]"}
order: version
mapping:
  version: 1
  fields: {source_record: .sku, source_version: .rev, item: {mpn: .sku}, quantity: .qty, price: .price, currency: .cur, observed_at: .ts}
`, way))
		if err != nil {
			t.Fatal(err)
		}
		in.ApplyFeed(spec)
	}
	err := postgres.InTx(t.Context(), in.Pool, postgres.Ingest, func(tx pgx.Tx) error {
		g := token.Grant{Name: "test", Role: token.Publisher, SHA256: in.secret.Digest().String()}
		fault, err := token.Create(t.Context(), tx, "t1", g, offer.DeliveryID{1}, time.Now())
		if fault != nil {
			return fault
		}
		return err
	})
	if err == nil {
		err = os.WriteFile(in.file, []byte(in.secret.Reveal()+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	in.gateway = "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- gateway.New(in.Pool, in.Cluster, listener, gateway.Config{}, slog.New(slog.DiscardHandler)).Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return in
}

// publish runs the command.
func (in *intake) publish(args ...string) {
	in.t.Helper()
	in.offerlog(append([]string{"publish"}, args...)...)
}

// call is a webhook: the supplier posts an event of its own making.
func (in *intake) call(id string, body []byte) {
	in.t.Helper()
	event := fmt.Sprintf(`{"specversion": "1.0", "type": %q, "source": "/webhook", "id": %q, "data": %s}`, streams.DeliveryType, id, body)
	req, err := http.NewRequestWithContext(in.t.Context(), http.MethodPost, in.gateway+gateway.Path, strings.NewReader(event))
	if err != nil {
		in.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+in.secret.Reveal())
	req.Header.Set("Content-Type", "application/cloudevents+json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		in.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		in.t.Fatalf("call %s: %s", id, resp.Status)
	}
}

// tell is a connector without Kafka that says something of the run EXP-1, or sends a page of it.
func (in *intake) tell(kind, id, data string, page string) {
	in.t.Helper()
	req, err := http.NewRequestWithContext(in.t.Context(), http.MethodPost, in.gateway+gateway.Path, strings.NewReader(data))
	if err != nil {
		in.t.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + in.secret.Reveal(), "Content-Type": "application/json", "ce-specversion": "1.0",
		"ce-type": kind, "ce-source": "/pages", "ce-id": id, "ce-runid": "EXP-1", "ce-page": page} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		in.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		in.t.Fatalf("tell %s: %s", id, resp.Status)
	}
}

// offerlog runs a command as the operator of tenant t1, and returns what it prints.
func (in *intake) offerlog(args ...string) string {
	in.t.Helper()
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs, environ: []string{"OFFERLOG_KAFKA=" + strings.Join(in.Cluster.Brokers, ","), "OFFERLOG_POSTGRES=" + in.DSN, "OFFERLOG_TENANT=t1"}}
	if exit := a.execute(in.t.Context(), args); exit != 0 {
		in.t.Fatalf("offerlog %q: exit %d: %s", args, exit, errs.String())
	}
	return out.String()
}

// body is what a supplier sends: rows of its range, of which each says its quantity.
func body(quantity int, skus ...int) []byte {
	rows := make([]string, len(skus))
	for i, sku := range skus {
		rows[i] = fmt.Sprintf(`{"sku": "A-%d", "rev": 1, "qty": "%d", "price": "1.50", "cur": "EUR", "ts": "2026-03-02T08:00:00Z"}`, sku, quantity)
	}
	return fmt.Appendf(nil, `{"offers": [%s]}`, strings.Join(rows, ", "))
}

// write puts files into a folder of their own and returns their paths.
func write(t *testing.T, files ...[]byte) (dir string, paths []string) {
	t.Helper()
	dir = t.TempDir()
	for i, content := range files {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("part-%d.json", i+1)))
		if err := os.WriteFile(paths[i], content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, paths
}

// Four ways in, one fixture each: one pulled body, the pages of an export, the calls of a webhook, a folder of dropped files.
// All give the same records; sent again, in any order, all are repeats; sent with another content under their ids, all are set
// aside, and what stands stays.
func TestS_000_03_every_way_of_intake_gives_the_same_records_and_replays_alike(t *testing.T) {
	ways := []string{"pull", "pages", "webhook", "drop"}
	in := newIntake(t, ways)
	deliver := func(quantity int) map[string]func() {
		whole, pages := body(quantity, 1, 2, 3, 4, 5, 6), [][]byte{body(quantity, 1, 2), body(quantity, 3, 4), body(quantity, 5, 6)}
		return map[string]func(){
			"pull": func() {
				_, files := write(t, whole)
				in.publish("--feed", "pull", "--id", "2026-03-02", files[0])
			},
			"pages": func() {
				_, files := write(t, pages...)
				in.publish(append([]string{"--feed", "pages", "--id", "EXP-1"}, files...)...)
			},
			"webhook": func() {
				for i, page := range pages {
					in.call(fmt.Sprintf("call-%d", i+1), page)
				}
			},
			"drop": func() {
				dir, _ := write(t, pages...)
				in.publish("--feed", "drop", "--id", "DROP-1", "--url", in.gateway, "--token-file", in.file, dir)
			},
		}
	}
	do := func(how map[string]func()) {
		order := slices.Clone(ways)
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, way := range order {
			how[way]()
		}
		in.Settle()
	}
	check := func(sentence string, want string) {
		t.Helper()
		for _, way := range ways {
			n := map[string]int{"pull": 1}[way]
			if n == 0 {
				n = 3 // deliveries
			}
			if got, want := in.outcomes(way), strings.ReplaceAll(want, "N", fmt.Sprint(n)); got != want {
				t.Errorf("%s, %s: got %s, want %s", sentence, way, got, want)
			}
			if got := in.records(way); len(got) != 6 || !slices.Equal(got, in.records("pull")) {
				t.Errorf("%s, %s: got %q, want %q", sentence, way, got, in.records("pull"))
			}
		}
	}
	do(deliver(4))
	check("delivered", "accepted N")
	before := in.records("pull")
	do(deliver(4))
	check("delivered again", "accepted N, duplicate N")
	do(deliver(5))
	check("with another content under the same ids", "accepted N, duplicate N, quarantined N")
	if after := in.records("pull"); !slices.Equal(before, after) {
		t.Errorf("got %q, want what stood before: %q", after, before)
	}
}

// records are the observations that came one way, without what names the way.
func (in *intake) records(way string) (records []string) {
	for _, o := range in.Observations("t1") {
		if o.Account == "ACC-"+way {
			records = append(records, fmt.Sprint(o.Record, " ", o.Version, " ", o.Quantity, " ", o.Price, " ", o.Currency, " ", o.ObservedAt))
		}
	}
	slices.Sort(records)
	return records
}

// outcomes counts what became of the events that came one way.
func (in *intake) outcomes(way string) (counts string) {
	in.t.Helper()
	err := postgres.InTx(in.t.Context(), in.Pool, postgres.Inspect, func(tx pgx.Tx) error {
		return tx.QueryRow(in.t.Context(), `
			SELECT coalesce(string_agg(o.outcome || ' ' || o.n, ', ' ORDER BY o.outcome), '')
			  FROM (SELECT outcome, count(*) AS n FROM audit_v1.outcome WHERE (tenant, feed) = ('t1', $1) GROUP BY outcome) AS o`, way).Scan(&counts)
	})
	if err != nil {
		in.t.Fatal(err)
	}
	return counts
}

// Of a page that could not be fetched the run log names the page, the attempt, the time and the error; once the page has come,
// the run is whole and the failure still told.
func TestS_000_12_the_run_log_diagnoses_a_failed_page(t *testing.T) {
	in := newIntake(t, []string{"pages"})
	page := func(n int) {
		in.tell(streams.DeliveryType, fmt.Sprint("EXP-1/", n), string(body(n, n)), fmt.Sprint(n))
	}
	in.tell(streams.RunStarted, "EXP-1/started", `{"pages": 3, "credential": "vault:suppliers/acme#reader", "started_at": "2026-03-02T07:00:00Z"}`, "")
	page(1)
	page(2)
	in.tell(streams.RunFailed, "EXP-1/3/failed", `{"page": 3, "attempt": 2, "error": "503 Service Unavailable", "failed_at": "2026-03-02T07:01:30Z"}`, "")
	in.Settle()
	const failure = "page 3, attempt 2, 2026-03-02T07:01:30Z: 503 Service Unavailable"
	check := func(state, pages, missing string) {
		t.Helper()
		list, shown := in.offerlog("runs", "list"), in.offerlog("runs", "show", "EXP-1")
		for _, want := range []string{"EXP-1", state, pages} {
			if !strings.Contains(list, want) {
				t.Errorf("runs list: got %s, want it with %q", list, want)
			}
		}
		for _, want := range []string{state, pages, failure, "vault:suppliers/acme#reader", "2026-03-02T07:00:00Z"} {
			if !strings.Contains(shown, want) {
				t.Errorf("runs show: got %s, want it with %q", shown, want)
			}
		}
		var d runs.Document
		if err := json.Unmarshal([]byte(in.offerlog("runs", "show", "EXP-1", "--json")), &d); err != nil {
			t.Fatal(err)
		}
		if len(d.Failures) != 1 || d.Failures[0].Page != 3 || d.Failures[0].Attempt != 2 || fmt.Sprint(d.PagesMissing) != missing {
			t.Errorf("got failures %+v, missing %v, want page 3 at attempt 2, and %s missing", d.Failures, d.PagesMissing, missing)
		}
	}
	check("failed", "2 of ?", "[]")
	page(3)
	in.tell(streams.RunCompleted, "EXP-1/completed", `{"pages": 3}`, "")
	in.Settle()
	check("complete", "3 of 3", "[]")
}
