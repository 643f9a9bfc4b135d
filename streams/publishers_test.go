package streams_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// The publishers of docs/publishers are what upstream teams start from: each is run as its own first line says, twice, as
// after a lost answer.
func TestTheDocumentedPublishersReachARealBroker(t *testing.T) {
	dir, err := filepath.Abs(filepath.Join("..", "docs", "publishers"))
	if err != nil {
		t.Fatal(err)
	}
	p := pipeline.New(t, pipeline.Options{RealKafka: true})
	p.Topics(streams.Deliveries)
	p.StartAll()
	spec, err := feed.ParseFile(filepath.Join("..", "testdata", "feeds", "acme-eu", "feed.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p.ApplyFeed(spec)
	payload := filepath.Join(t.TempDir(), "export.json")
	if err := os.WriteFile(payload, []byte(`{"offers": [{"sku": "A-1", "mpn": "A-1", "qty": 6, "price": "820.00", "cur": "EUR", "ts": "2026-03-02T08:00:00Z"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, program := range map[string]func(*testing.T) []string{
		"Go": func(*testing.T) []string { return []string{"go", "run", dir} },
		"Python": func(t *testing.T) []string {
			for _, python := range []string{"python3", "/usr/bin/python3"} {
				if exec.CommandContext(t.Context(), python, "-c", "import confluent_kafka").Run() == nil {
					return []string{python, filepath.Join(dir, "publish.py")}
				}
			}
			t.Skip("SKIPPED: no python3 has confluent_kafka: install python3-confluent-kafka")
			return nil
		},
		"Java": func(t *testing.T) []string {
			return []string{"java", "-cp", filepath.Join(rig.KafkaJars(t), "*"), filepath.Join(dir, "Publish.java")}
		},
		"kcat": func(t *testing.T) []string {
			if _, err := exec.LookPath("kcat"); err != nil {
				t.Skip("SKIPPED: kcat is not in PATH: install kcat")
			}
			return []string{filepath.Join(dir, "publish-kcat.sh")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			args := append(program(t), p.Cluster.Brokers[0], p.Cluster.Topic(streams.Deliveries), spec.Accepts.Source, name, payload)
			for range 2 {
				if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%q: %v: %s", args, err, out)
				}
			}
			p.Settle()
			key := offer.ReplayKey{Source: offer.Source{Tenant: spec.Tenant, Connector: spec.Connector, Account: spec.Account}, EventSource: spec.Accepts.Source, EventID: name}
			var got []offer.Outcome
			err := postgres.AsTenant(t.Context(), p.Pool, postgres.Audit, spec.Tenant, func(tx pgx.Tx) error {
				attempts, err := receipt.Of(t.Context(), tx, key.ID())
				for _, a := range attempts {
					got = append(got, a.Outcome)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if want := []offer.Outcome{offer.Accepted, offer.Duplicate}; !slices.Equal(got, want) {
				t.Errorf("got outcomes %q, want %q", got, want)
			}
		})
	}
}
