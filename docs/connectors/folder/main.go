// Command folder is an example connector: it watches a folder and publishes each file that is dropped there.
//
//	go run ./docs/connectors/folder -source /acme-eu/drop /srv/drop
//
// A file is taken once two looks find it unchanged, so that none is taken while it is written, and is then moved to the
// folder's sub-folder published. Its id is its name and the digest of what it holds: a crash between the two publishes it
// again, which is answered as a duplicate, and a new version under an old name is another delivery.
package main

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"mime"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/delivery"
)

// A connector watches one folder.
type connector struct {
	kafka  *kgo.Client
	topic  string
	source string // of its events: selects the feed
	dir    string
	seen   map[string]stamp // files as the last look found them
}

// A stamp changes when a file is written to.
type stamp struct {
	size     int64
	modified time.Time
}

func main() {
	c := connector{seen: map[string]stamp{}}
	broker := flag.String("broker", "127.0.0.1:9092", "a Kafka broker")
	every := flag.Duration("every", 2*time.Second, "between two looks")
	flag.StringVar(&c.topic, "topic", "deliveries", "the topic to publish to")
	flag.StringVar(&c.source, "source", "", "accepts.source of the feed")
	flag.Parse()
	if c.dir = flag.Arg(0); c.dir == "" || c.source == "" {
		log.Fatal("-source and a folder are needed")
	}
	if err := c.watch(context.Background(), *broker, *every); err != nil {
		log.Fatal(err)
	}
}

// watch looks until the process is told to stop.
func (c *connector) watch(ctx context.Context, broker string, every time.Duration) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if c.kafka, err = kgo.NewClient(kgo.SeedBrokers(broker)); err != nil {
		return err
	}
	defer c.kafka.Close()
	if err := os.MkdirAll(filepath.Join(c.dir, "published"), 0o755); err != nil {
		return err
	}
	look := time.NewTicker(every)
	defer look.Stop()
	for {
		if err := c.look(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
}

// look publishes what has not changed since the last look.
func (c *connector) look(ctx context.Context) error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	found := map[string]stamp{}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // moved away meanwhile, or no file
		}
		now := stamp{info.Size(), info.ModTime()}
		if before, known := c.seen[entry.Name()]; !known || before != now {
			found[entry.Name()] = now
			continue
		}
		if err := c.publish(ctx, entry.Name(), info); err != nil {
			return err
		}
	}
	c.seen = found
	return nil
}

func (c *connector) publish(ctx context.Context, name string, info fs.FileInfo) error {
	path := filepath.Join(c.dir, name)
	payload, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(payload)
	e := cloudevents.NewEvent()
	e.SetType("offerlog.delivery.v1")
	e.SetSource(c.source)
	e.SetID(fmt.Sprintf("%s@%x", name, digest[:8]))
	e.SetSubject(name)
	e.SetTime(info.ModTime())
	e.SetDataContentType(mime.TypeByExtension(filepath.Ext(name)))
	e.DataEncoded = payload
	rec, err := delivery.Encode(e, c.topic, []byte(name))
	if err != nil {
		return err
	}
	if err := c.kafka.ProduceSync(ctx, rec).FirstErr(); err != nil {
		return err
	}
	return os.Rename(path, filepath.Join(c.dir, "published", name))
}
