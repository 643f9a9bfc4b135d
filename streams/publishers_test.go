package streams_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/token"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/gateway"
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
	broker := []string{p.Cluster.Brokers[0], p.Cluster.Topic(streams.Deliveries)}
	url, tokenFile := startGateway(t, p, spec.Tenant)
	for name, program := range map[string]func(*testing.T) []string{
		"Go": func(*testing.T) []string { return slices.Concat([]string{"go", "run", dir}, broker) },
		"Python": func(t *testing.T) []string {
			for _, python := range []string{"python3", "/usr/bin/python3"} {
				if exec.CommandContext(t.Context(), python, "-c", "import confluent_kafka").Run() == nil {
					return slices.Concat([]string{python, filepath.Join(dir, "publish.py")}, broker)
				}
			}
			t.Skip("SKIPPED: no python3 has confluent_kafka: install python3-confluent-kafka")
			return nil
		},
		"Java": func(t *testing.T) []string {
			return slices.Concat([]string{"java", "-cp", filepath.Join(rig.KafkaJars(t), "*"), filepath.Join(dir, "Publish.java")}, broker)
		},
		"kcat": func(t *testing.T) []string {
			if _, err := exec.LookPath("kcat"); err != nil {
				t.Skip("SKIPPED: kcat is not in PATH: install kcat")
			}
			return slices.Concat([]string{filepath.Join(dir, "publish-kcat.sh")}, broker)
		},
		"curl": func(t *testing.T) []string {
			if _, err := exec.LookPath("curl"); err != nil {
				t.Skip("SKIPPED: curl is not in PATH: install curl")
			}
			return []string{filepath.Join(dir, "publish-curl.sh"), url, tokenFile}
		},
	} {
		t.Run(name, func(t *testing.T) {
			args := append(program(t), spec.Accepts.Source, name, payload)
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

// startGateway runs a gateway with the test, and returns its URL and a file that holds a publisher's token.
func startGateway(t *testing.T, p *pipeline.Pipeline, tenant string) (url, tokenFile string) {
	t.Helper()
	secret := token.New()
	err := postgres.InTx(t.Context(), p.Pool, postgres.Ingest, func(tx pgx.Tx) error {
		fault, err := token.Create(t.Context(), tx, tenant, token.Grant{Name: "test", Role: token.Publisher, SHA256: secret.Digest().String()}, offer.DeliveryID{1}, time.Now())
		if fault != nil {
			return fault
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	tokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(secret.Reveal()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- gateway.New(p.Pool, p.Cluster, listener, gateway.Config{}, slog.New(slog.DiscardHandler)).Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String(), tokenFile
}
