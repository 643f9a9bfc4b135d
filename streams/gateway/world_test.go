package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/token"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/gateway"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

func TestMain(m *testing.M) { pipeline.Main(m) }

// A world is an installation with a gateway, two tenants with feeds, and a token of each role.
type world struct {
	*pipeline.Pipeline
	t      *testing.T
	url    string
	addr   string
	stop   func() error
	tokens map[string]token.Token // by tenant/role
	log    *lines
}

// marker is in every payload and nowhere else: it must be in no log.
const marker = "PAYLOAD-MARKER"

// row is a payload of the feeds: one row, of a record in a version.
func row(sku string, rev int) string {
	return fmt.Sprintf(`{"sku": %q, "rev": %d, "qty": "4", "price": "1.50", "cur": "EUR", "ts": "2026-03-02T08:00:00Z", "note": %q}`, sku, rev, marker)
}

func spec(t *testing.T, tenant, name, source, topic string) feed.Spec {
	t.Helper()
	s, err := feed.ParseYAML("feed.yaml", fmt.Appendf(nil, `
feed: %s
tenant: %s
connector: %s
account: ACC-1
accepts: {topics: [%s], source: %s}
order: version
mapping:
  version: 1
  fields: {source_record: .sku, source_version: .rev, item: {mpn: .sku}, quantity: .qty, price: .price, currency: .cur, observed_at: .ts}
`, name, tenant, name, topic, source))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newWorld starts ingest where stages are wanted; without them nothing is ever decided.
func newWorld(t *testing.T, cfg gateway.Config, stages ...pipeline.Stage) *world {
	t.Helper()
	w := &world{t: t, Pipeline: pipeline.New(t, pipeline.Options{}), tokens: map[string]token.Token{}, log: &lines{}}
	w.Topics(streams.Deliveries, "express")
	for _, s := range stages {
		w.Start(s)
	}
	err := postgres.InTx(t.Context(), w.Pool, postgres.Ingest, func(tx pgx.Tx) error {
		for i, s := range []feed.Spec{
			spec(t, "t1", "acme", "/acme", streams.Deliveries), spec(t, "t1", "acme-night", "/night", streams.Deliveries),
			spec(t, "t1", "acme-day", "/night", "express"), spec(t, "t2", "beta", "/beta", streams.Deliveries),
		} {
			if _, fault, err := feed.Apply(t.Context(), tx, s, offer.DeliveryID{byte(i)}, time.Now()); err != nil {
				return err
			} else if fault != nil {
				return fault
			}
		}
		for _, tenant := range []string{"t1", "t2"} {
			for _, role := range token.Roles() {
				secret := token.New()
				w.tokens[tenant+"/"+string(role)] = secret
				g := token.Grant{Name: "test", Role: role, SHA256: secret.Digest().String()}
				if fault, err := token.Create(t.Context(), tx, tenant, g, offer.DeliveryID{9}, time.Now()); err != nil {
					return err
				} else if fault != nil {
					return fault
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = listener.Addr().String()
	w.url = "http://" + w.addr + gateway.Path
	stage := gateway.New(w.Pool, w.Cluster, listener, cfg, slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- stage.Run(ctx) }()
	w.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := w.stop(); err != nil {
			t.Errorf("the gateway ended with %v", err)
		}
		w.checkLog()
	})
	return w
}

// checkLog makes sure that nothing that is logged holds a token or a payload.
func (w *world) checkLog() {
	w.t.Helper()
	text := w.log.String()
	for whose, secret := range w.tokens {
		if strings.Contains(text, secret.Reveal()[len(token.Prefix):]) {
			w.t.Errorf("the log holds the token of %s", whose)
		}
	}
	if strings.Contains(text, "panic") {
		w.t.Errorf("the log tells of a panic:\n%s", text)
	}
	if strings.Contains(text, marker) {
		w.t.Error("the log holds a payload")
	}
}

// revoke ends a token as its command does.
func (w *world) revoke(whose string) {
	w.t.Helper()
	tenant, _, _ := strings.Cut(whose, "/")
	err := postgres.InTx(w.t.Context(), w.Pool, postgres.Ingest, func(tx pgx.Tx) error {
		_, err := token.Revoke(w.t.Context(), tx, tenant, token.Revocation{Token: token.ID(w.tokens[whose].Digest())}, offer.DeliveryID{8}, time.Now())
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// A request is one to the gateway; the zero value posts an empty body as the publisher of t1.
type request struct {
	method, path string // default POST to gateway.Path; a path that begins with ? or / comes behind that
	as           string // tenant/role; "-": nobody
	headers      []string
	body         io.Reader
}

func text(s string) io.Reader { return strings.NewReader(s) }

// An answer is what came back.
type answer struct {
	status  int
	headers http.Header
	text    string
	gateway.Taken
	Code    string `json:"code"`
	Detail  string `json:"detail"`
	Outcome string `json:"outcome"`
	Status  int    `json:"status"`
	Receipt *struct {
		Outcome string
	}
	Items []struct {
		Item    int
		Status  int
		Taken   *gateway.Taken
		Problem *gateway.Problem
		Receipt *struct{ Outcome string }
	}
}

func (w *world) do(r request) answer {
	w.t.Helper()
	a, err := w.try(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) try(r request) (a answer, err error) {
	if r.method == "" {
		r.method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(w.t.Context(), r.method, w.url+r.path, r.body)
	if err != nil {
		return a, err
	}
	if r.as == "" {
		r.as = "t1/publisher"
	}
	if r.as != "-" {
		req.Header.Set("Authorization", "Bearer "+w.tokens[r.as].Reveal())
	}
	for _, h := range r.headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return a, err
	}
	return read(resp)
}

func read(resp *http.Response) (a answer, err error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	a.status, a.headers, a.text = resp.StatusCode, resp.Header, string(body)
	if err == nil && strings.HasSuffix(resp.Header.Get("Content-Type"), "json") {
		err = json.Unmarshal(body, &a)
	}
	return a, err
}

func (w *world) dial() (net.Conn, error) {
	return (&net.Dialer{}).DialContext(w.t.Context(), "tcp", w.addr)
}

// raw sends bytes as they are and reads one answer.
func (w *world) raw(bytes string) (a answer, err error) {
	conn, err := w.dial()
	if err != nil {
		return a, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(pipeline.Patience))
	if _, err = conn.Write([]byte(bytes)); err != nil {
		return a, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return a, err
	}
	return read(resp)
}

// event are the headers of an event in binary mode.
func event(source, id string, more ...string) []string {
	return append([]string{"ce-specversion: 1.0", "ce-type: " + streams.DeliveryType, "ce-source: " + source, "ce-id: " + id, "content-type: application/json"}, more...)
}

// structured is an event with JSON data in structured mode.
func structured(source, id, data string) string {
	return fmt.Sprintf(`{"specversion":"1.0","type":%q,"source":%q,"id":%q,"data":%s}`, streams.DeliveryType, source, id, data)
}

// written are the records of all input topics.
func (w *world) written() (records []*kgo.Record) {
	w.t.Helper()
	for _, topic := range []string{streams.Deliveries, "express", streams.Commands} {
		records = append(records, w.Committed(topic)...)
	}
	return records
}

func headersOf(rec *kgo.Record) map[string]string {
	m := map[string]string{}
	for _, h := range rec.Headers {
		m[h.Key] = string(h.Value)
	}
	return m
}

// lines collects a log.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func decode(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// sameJSON compares documents that hold no numbers but small ones: structured mode does not keep white space.
func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y bytes.Buffer
	if err := errors.Join(json.Compact(&x, a), json.Compact(&y, b)); err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(x.Bytes(), y.Bytes())
}
