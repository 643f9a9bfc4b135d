package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams"
)

// A publication is what the command line says of what to publish.
type publication struct {
	feed, id, at string
	records      string // file of raw records; then the rest is empty
	files        []string
	wait         bool
	timeout      time.Duration
}

func (a *app) publishCommand() *cobra.Command {
	var p publication
	cmd := &cobra.Command{
		Use:   "publish [--feed NAME FILE...]",
		Short: "Publish files to a feed, or raw records",
		Long: "Publishes each file as one event of the feed, in binary mode, with the feed's source. The event's id names the delivery, so\n" +
			"publishing it again with the same id is a repeat, and with other content a mismatch:\n\n" +
			"  one file, --id X          X\n" +
			"  N files, --id X           X/1 to X/N: the pages of one export, in the order given, as run X\n" +
			"  no --id                   the file's name without its folder and its ending, so a retry needs no more than the name\n\n" +
			"The id is the record's key too: a repeat comes behind the first in the same partition. FILE may be - with --id.\n\n" +
			"--records produces records exactly as a file gives them, one JSON object a line:\n" +
			"  {\"topic\": \"deliveries\", \"key\": \"k\", \"headers\": {\"ce_id\": \"1\"}, \"value\": \"text\"}\n" +
			"headers may be a list of [name, value] where a name repeats; instead of value: value_base64, or \"value\": null; key may be null.",
		Example: "  offerlog publish --feed acme-eu --id EXP-8821 page1.json page2.json page3.json --wait\n" +
			"  offerlog publish --feed acme-eu --id EXP-8821/2 page2.json\n  offerlog publish --records events.jsonl --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			p.files = args
			if err := p.validate(cmd.CommandPath()); err != nil {
				return err
			}
			return a.publish(cmd.Context(), p)
		},
	}
	cmd.Flags().StringVar(&p.feed, "feed", "", "whose deliveries the files are")
	cmd.Flags().StringVar(&p.id, "id", "", "of the event; of several files: before /1, /2, ...")
	cmd.Flags().StringVar(&p.at, "time", "", "when the supplier says so, RFC 3339: observed_at where the mapping gives none")
	cmd.Flags().StringVar(&p.records, "records", "", "file of raw records, instead of --feed and files")
	cmd.Flags().BoolVar(&p.wait, "wait", false, "wait for the outcome of each event and print it")
	cmd.Flags().DurationVar(&p.timeout, "timeout", 30*time.Second, "how long to wait for the outcomes")
	return cmd
}

func (p publication) validate(command string) error {
	hint := "run " + command + " --help"
	switch {
	case p.records != "" && (p.feed != "" || p.id != "" || p.at != "" || len(p.files) > 0):
		return usage(hint, "--records says all of its records; it goes with no feed, id, time or file")
	case p.records != "":
		return nil
	case p.feed == "" || len(p.files) == 0:
		return usage(hint, "nothing to publish: want --feed and files, or --records")
	}
	for _, f := range p.files {
		if f == "-" && (p.id == "" || len(p.files) > 1) {
			return usage(hint, "standard input has no name: want --id, and no other file")
		}
	}
	if p.at == "" {
		return nil
	}
	at, err := offer.ParseTime(p.at)
	if err == nil && offer.TimeOf(at.Time()).Text != at.Text {
		err = fmt.Errorf("%q has more than nine digits of a second", p.at)
	}
	if err != nil {
		return usage("write a time such as 2026-03-02T08:00:00Z", "--time: %w", err)
	}
	return nil
}

// publish produces, prints where it all stands, and with --wait what became of it.
func (a *app) publish(ctx context.Context, p publication) error {
	a.findDev()
	records, err := a.recordsOf(ctx, p)
	if err != nil {
		return err
	}
	cl, err := a.openKafka(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	if !p.wait {
		done, err := produce(ctx, cl, a.settings.Cluster(), records)
		if e := a.showPublished(done); err == nil {
			err = e
		}
		return err
	}
	pool, err := a.openTenant(ctx, postgres.Audit) // before anything is published
	if err != nil {
		return err
	}
	defer pool.Close()
	done, err := produce(ctx, cl, a.settings.Cluster(), records)
	if err != nil {
		_ = a.showPublished(done) // the error says more
		return err
	}
	waitCtx, cancel := withTimeout(ctx, p.timeout)
	defer cancel()
	attempts, err := awaitOutcomes(waitCtx, pool, a.settings.Tenant, done)
	if err != nil {
		_ = a.showPublished(done)
		return err
	}
	if err := a.showAttempts(attempts); err != nil {
		return err
	}
	return verdict(attempts)
}

func (a *app) showPublished(done []published) error {
	return show(a, "ID\tTOPIC\tPARTITION\tOFFSET", done, func(p published) string {
		return cells(p.ID, p.Topic, decimal(int64(p.Partition)), decimal(p.Offset))
	})
}

// verdict is an error where an event was quarantined: conflicts have a code of their own.
func verdict(attempts []receipt.Document) error {
	aside, mismatches := 0, 0
	for _, d := range attempts {
		if d.Outcome == offer.Quarantined {
			aside++
		}
		if d.Reason == offer.ReasonReplayPayloadMismatch {
			mismatches++
		}
	}
	const hint = "run offerlog quarantine list --open, with --tenant " + offer.SystemTenant + " for what no feed expects"
	switch {
	case aside == 0:
		return nil
	case mismatches > 0:
		return &exitError{exitConflict, offer.ReasonReplayPayloadMismatch, hint,
			fmt.Errorf("%d of %d events contradict what was accepted under their id; that is unchanged", mismatches, len(attempts))}
	}
	return &exitError{exitQuarantined, "quarantined", hint, fmt.Errorf("%d of %d events were set aside", aside, len(attempts))}
}

// exitQuarantined: all was done, and some of it stands in quarantine.
const exitQuarantined = 7

// recordsOf reads all that is to be published before any of it is.
func (a *app) recordsOf(ctx context.Context, p publication) ([]*kgo.Record, error) {
	if p.records != "" {
		return readRecords(p.records)
	}
	var r feed.Registered
	err := a.asTenant(ctx, postgres.Read, func(tx pgx.Tx) (err error) {
		r, err = findFeed(ctx, tx, p.feed)
		return err
	})
	if err != nil {
		return nil, err
	}
	pages, err := pagesOf(p.id, p.files, readPayload)
	if err != nil {
		return nil, usage("check the names of the files; nothing was published", "%w", err)
	}
	return deliveriesOf(r.Spec, p.at, pages)
}

// pagesOf names the events that files are: see the command's help.
func pagesOf(id string, files []string, read func(name string) ([]byte, error)) (pages []page, err error) {
	pages = make([]page, len(files))
	for i, name := range files {
		switch {
		case id == "":
			pages[i].id = strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
		case len(files) == 1:
			pages[i].id = id
		default:
			pages[i] = page{id: id + "/" + strconv.Itoa(i+1), run: id, number: i + 1, of: len(files)}
		}
		if pages[i].payload, err = read(name); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

func readPayload(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(name)
}

// A page is one event to publish: a whole export, or one of several pages.
type page struct {
	id         string
	run        string // "" where it is no page
	number, of int
	payload    []byte
}

// contentTypes are those of the formats that a feed declares; the feed's charset wins over none.
var contentTypes = map[string]string{"json": cloudevents.ApplicationJSON, "ndjson": "application/x-ndjson", "csv": "text/csv", "xml": cloudevents.ApplicationXML}

// deliveriesOf makes the events of a feed, in its first topic.
func deliveriesOf(spec feed.Spec, at string, pages []page) ([]*kgo.Record, error) {
	records := make([]*kgo.Record, len(pages))
	for i, p := range pages {
		e := cloudevents.NewEvent()
		e.SetID(p.id)
		e.SetSource(spec.Accepts.Source)
		e.SetType(streams.DeliveryType)
		if at != "" {
			t, err := offer.ParseTime(at)
			if err != nil {
				return nil, err
			}
			e.SetTime(t.Time())
		}
		if p.run != "" {
			e.SetExtension("runid", p.run)
			e.SetExtension("page", strconv.Itoa(p.number))
			e.SetExtension("pages", strconv.Itoa(p.of))
		}
		if t := contentTypes[spec.Format.Kind]; t != "" {
			e.SetDataContentType(t)
		}
		e.DataEncoded = p.payload
		var err error
		if records[i], err = delivery.Encode(e, spec.Accepts.Topics[0], []byte(p.id)); err != nil {
			return nil, usage("name it with --id", "%w", err)
		}
	}
	return records, nil
}
