package streams_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// The example connectors of docs/connectors carry an export to the view, whatever goes wrong on the way.
func TestS_000_03_theExampleConnectorsAreIntake(t *testing.T) {
	export := func(records ...string) string {
		var rows []string
		for _, r := range records {
			rows = append(rows, fmt.Sprintf(`{"sku": %q, "mpn": %[1]q, "qty": 6, "price": "820.00", "cur": "EUR", "ts": "2026-03-02T08:00:00Z"}`, r))
		}
		return `{"offers": [` + strings.Join(rows, ",") + `]}`
	}
	spec, err := feed.ParseFile(filepath.Join("..", "testdata", "feeds", "acme-eu", "feed.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	begin := func(t *testing.T) *pipeline.Pipeline {
		p := pipeline.New(t, pipeline.Options{})
		p.Topics(streams.Deliveries)
		p.StartAll()
		p.ApplyFeed(spec)
		return p
	}
	offers := func(p *pipeline.Pipeline) (records []string) {
		for _, o := range p.Offers(spec.Tenant) {
			records = append(records, o.Record)
		}
		slices.Sort(records)
		return records
	}
	want := []string{"A-1", "A-2", "A-3"}

	t.Run("pages, of which one fails until the export is pulled again", func(t *testing.T) {
		p := begin(t)
		var broken atomic.Bool
		broken.Store(true)
		supplier := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			page := strings.TrimPrefix(r.URL.Path, "/")
			switch {
			case r.Header.Get("Authorization") != "Bearer s3cret":
				w.WriteHeader(http.StatusForbidden)
			case page == "3" && broken.Load():
				w.WriteHeader(http.StatusBadGateway)
			default:
				if page != "3" {
					w.Header().Set("Link", fmt.Sprintf(`</%d>; rel="next"`, int(page[0]-'0')+1))
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, export("A-"+page))
			}
		}))
		t.Cleanup(supplier.Close)
		program := build(t, "pages")
		pull := func() ([]byte, error) {
			cmd := exec.CommandContext(t.Context(), program, "-broker", p.Cluster.Brokers[0], "-topic", p.Cluster.Topic(streams.Deliveries),
				"-source", spec.Accepts.Source, "-run", "EXP-1", "-pause", "1ms", "-url", supplier.URL+"/1")
			cmd.Env = append(os.Environ(), "EXPORT_TOKEN=s3cret")
			return cmd.CombinedOutput()
		}
		if out, err := pull(); err == nil || !strings.Contains(string(out), "page 3 failed 3 times") {
			t.Fatalf("got %v: %s, want it to say which page failed", err, out)
		}
		p.Settle()
		if got := offers(p); len(got) > 0 {
			t.Errorf("of a run without its last page the view shows %q, want nothing: the feed holds partial runs", got)
		}
		broken.Store(false)
		for range 2 {
			if out, err := pull(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		p.SettleOffers()
		if got := offers(p); !slices.Equal(got, want) {
			t.Errorf("got offers %q, want %q", got, want)
		}
	})

	t.Run("a folder, watched by one that dies in between", func(t *testing.T) {
		p := begin(t)
		dir := t.TempDir()
		program := build(t, "folder")
		for i, record := range want {
			name := fmt.Sprintf("drop-%d.json", i)
			if err := os.WriteFile(filepath.Join(dir, name), []byte(export(record)), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), program, "-broker", p.Cluster.Brokers[0], "-topic", p.Cluster.Topic(streams.Deliveries),
				"-source", spec.Accepts.Source, "-every", "20ms", dir)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			moved := filepath.Join(dir, "published", name)
			p.Until(moved, func(context.Context) (bool, error) {
				_, err := os.Stat(moved)
				return err == nil, nil
			})
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait() // it was killed
			// As if it had died before the move: the next one publishes the file again.
			if err := os.Rename(moved, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		p.SettleOffers()
		if got := offers(p); !slices.Equal(got, want) {
			t.Errorf("got offers %q, want %q", got, want)
		}
	})
}

func build(t *testing.T, connector string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), connector)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../docs/connectors/"+connector)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the connector: %v: %s", err, out)
	}
	return program
}
