// Command pages is an example connector: it pulls a paginated HTTP export and publishes every page as a delivery of one run.
//
//	EXPORT_TOKEN=… go run ./docs/connectors/pages -url https://supplier.example/offers -source /acme-eu/export -run "$(date +%F)"
//
// The next page is the one that the answer's Link header names (RFC 8288, rel="next"). It says when the run starts, which
// page fails how often and why, and how many pages there were. Run it again under the same run id after any failure: what is
// known already is answered as a duplicate, and the run completes when its last page is there.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/delivery"
)

const (
	attempts = 3
	maxPage  = 16 << 20 // bytes: what one event may carry
)

// A connector pulls one export.
type connector struct {
	kafka  *kgo.Client
	http   *http.Client
	topic  string
	source string // of its events: selects the feed
	run    string // names the export: the same on a retry
	token  string
	began  time.Time
	pause  time.Duration // before the second attempt at a page; twice as long before the third
}

func main() {
	var c connector
	broker := flag.String("broker", "127.0.0.1:9092", "a Kafka broker")
	start := flag.String("url", "", "the first page")
	flag.StringVar(&c.topic, "topic", "deliveries", "the topic to publish to")
	flag.StringVar(&c.source, "source", "", "accepts.source of the feed")
	flag.StringVar(&c.run, "run", "", "names this export: the same on a retry, another for the next one")
	flag.DurationVar(&c.pause, "pause", 2*time.Second, "before a failed page is asked for again")
	flag.Parse()
	if *start == "" || c.source == "" || c.run == "" {
		log.Fatal("-url, -source and -run are needed")
	}
	c.token, c.http, c.began = os.Getenv("EXPORT_TOKEN"), &http.Client{Timeout: time.Minute}, time.Now()
	if err := c.pull(context.Background(), *broker, *start); err != nil {
		log.Fatal(err)
	}
}

// pull publishes the run until it is done or the process is told to stop.
func (c *connector) pull(ctx context.Context, broker, start string) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	if c.kafka, err = kgo.NewClient(kgo.SeedBrokers(broker)); err != nil {
		return err
	}
	defer c.kafka.Close()
	// A reference says where the credential is kept; the credential itself never leaves this process but to the supplier.
	if err := c.tell(ctx, "started", "", map[string]any{"credential": "env:EXPORT_TOKEN"}); err != nil { //nolint:gosec // where it is kept
		return err
	}
	pages := 0
	for next := start; next != ""; pages++ {
		body, kind, following, err := c.fetch(ctx, next, pages+1)
		if err != nil {
			return err
		}
		if err := c.page(ctx, pages+1, next, body, kind); err != nil {
			return err
		}
		next = following
	}
	return c.tell(ctx, "completed", "", map[string]any{"pages": pages})
}

// fetch gets a page, and tells of each attempt that fails.
func (c *connector) fetch(ctx context.Context, from string, page int) (body []byte, kind, next string, err error) {
	for attempt := 1; attempt <= attempts; attempt++ {
		if body, kind, next, err = c.get(ctx, from); err == nil {
			return body, kind, next, nil
		}
		if told := c.tell(ctx, "failed", fmt.Sprintf("/%d/%d@%d", page, attempt, c.began.Unix()), map[string]any{"page": page, "attempt": attempt, "error": err.Error()}); told != nil {
			return nil, "", "", errors.Join(err, told)
		}
		select {
		case <-ctx.Done():
			return nil, "", "", ctx.Err()
		case <-time.After(c.pause << (attempt - 1)):
		}
	}
	return nil, "", "", fmt.Errorf("page %d failed %d times, run again to complete it: %w", page, attempts, err)
}

var nextLink = regexp.MustCompile(`<([^>]*)>\s*;\s*rel="?next"?`)

func (c *connector) get(ctx context.Context, from string) (body []byte, kind, next string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, "", "", err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, "", "", err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, "", "", fmt.Errorf("the supplier answered %s", res.Status)
	}
	if body, err = io.ReadAll(io.LimitReader(res.Body, maxPage+1)); err != nil {
		return nil, "", "", err
	}
	if len(body) > maxPage {
		return nil, "", "", fmt.Errorf("the page is larger than %d bytes", maxPage)
	}
	if link := nextLink.FindStringSubmatch(res.Header.Get("Link")); link != nil {
		following, err := req.URL.Parse(link[1])
		if err != nil {
			return nil, "", "", err
		}
		next = following.String()
	}
	return body, res.Header.Get("Content-Type"), next, nil
}

// page publishes a page as the supplier sent it. Its id is the export's and the page's, whatever the page says.
func (c *connector) page(ctx context.Context, n int, from string, body []byte, kind string) error {
	e := c.event("offerlog.delivery.v1", strconv.Itoa(n))
	e.SetExtension("page", n)
	e.SetExtension("recordedtime", time.Now().UTC().Format(time.RFC3339Nano))
	if at, err := url.Parse(from); err == nil {
		e.SetExtension("endpoint", at.Host+at.Path)
		e.SetExtension("cursor", at.RawQuery)
	}
	e.SetDataContentType(kind)
	e.DataEncoded = body
	return c.publish(ctx, e)
}

// tell publishes what becomes of the run. Told twice, as after a lost answer, it is told once.
func (c *connector) tell(ctx context.Context, what, id string, data map[string]any) error {
	e := c.event("offerlog.run."+what+".v1", what+id)
	e.SetDataContentType("application/json")
	b, err := json.Marshal(data)
	if err != nil {
		return err
	}
	e.DataEncoded = b
	return c.publish(ctx, e)
}

func (c *connector) event(kind, id string) cloudevents.Event {
	e := cloudevents.NewEvent()
	e.SetType(kind)
	e.SetSource(c.source)
	e.SetID(c.run + "/" + id)
	e.SetExtension("runid", c.run)
	return e
}

func (c *connector) publish(ctx context.Context, e cloudevents.Event) error {
	rec, err := delivery.Encode(e, c.topic, []byte(c.run)) // one key: the events of a run stay in order
	if err != nil {
		return err
	}
	return c.kafka.ProduceSync(ctx, rec).FirstErr()
}
