package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
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
	records      string   // file of raw records; then the rest is empty
	paths        []string // of files and folders; - is standard input
	url          string   // of a gateway; "": straight to Kafka
	tokenFile    string
	wait         bool
	timeout      time.Duration
}

func (a *app) publishCommand() *cobra.Command {
	var p publication
	cmd := &cobra.Command{
		Use:   "publish [--feed NAME FILE|FOLDER...]",
		Short: "Publish files to a feed, or raw records",
		Long: "Publishes each file as one event of the feed, in binary mode, with the feed's source. The event's id names the delivery, so\n" +
			"publishing it again with the same id is a repeat, and with other content a mismatch:\n\n" +
			"  no --id                   the file's name with a digest of its content: the same file again is a repeat, and other\n" +
			"                            content under the same name another delivery\n" +
			"  one file, --id X          X\n" +
			"  N files, --id X           X/1 to X/N: the pages of one export, in the order given, as run X\n\n" +
			"A folder stands for the files in it and in its folders, by name, without those that begin with a dot; FILE may be - for\n" +
			"standard input. The id is the record's key too: a repeat comes behind the first in the same partition.\n\n" +
			"With --url the files go through a gateway, which needs no Kafka and no database here: a token of role publisher is enough.\n\n" +
			"--records produces records exactly as a file gives them, one JSON object a line:\n" +
			"  {\"topic\": \"deliveries\", \"key\": \"k\", \"headers\": {\"ce_id\": \"1\"}, \"value\": \"text\"}\n" +
			"headers may be a list of [name, value] where a name repeats; instead of value: value_base64, or \"value\": null; key may be null.",
		Example: "  offerlog publish --feed acme-eu prices.csv --wait\n" +
			"  offerlog publish --feed acme-eu --id EXP-8821 page1.json page2.json page3.json --wait\n" +
			"  offerlog publish --feed acme-eu drop/ --url https://gateway.example --token-file publisher.token\n" +
			"  curl -s https://acme.example/prices | offerlog publish --feed acme-eu --id 2026-03-02 -\n" +
			"  offerlog publish --records events.jsonl --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			p.paths = args
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
	cmd.Flags().StringVar(&p.url, "url", "", "address of a gateway, such as http://127.0.0.1:8081, instead of Kafka")
	cmd.Flags().StringVar(&p.tokenFile, "token-file", "", "with --url: file with a token of role publisher")
	cmd.Flags().BoolVar(&p.wait, "wait", false, "wait for the outcome of each event and print it")
	cmd.Flags().DurationVar(&p.timeout, "timeout", 30*time.Second, "how long to wait for the outcomes")
	return cmd
}

func (p publication) validate(command string) error {
	hint := "run " + command + " --help"
	switch {
	case p.records != "" && (p.feed != "" || p.id != "" || p.at != "" || p.url != "" || len(p.paths) > 0):
		return usage(hint, "--records says all of its records; it goes with no feed, id, time, gateway or file")
	case (p.url == "") != (p.tokenFile == ""):
		return usage("make a token with: offerlog token create --role publisher --name NAME >publisher.token", "--url and --token-file go together")
	case p.records != "":
		return nil
	case p.feed == "" || len(p.paths) == 0:
		return usage(hint, "nothing to publish: want --feed and files, or --records")
	}
	if slices.Contains(p.paths, "-") && len(p.paths) > 1 {
		return usage(hint, "standard input goes with no other file")
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

// publish writes everything, prints where it all stands, and with --wait what became of it.
func (a *app) publish(ctx context.Context, p publication) error {
	files, err := p.files()
	if err != nil {
		return usage("check the names of the files; nothing was published", "%w", err)
	}
	if p.url != "" {
		return a.publishByGateway(ctx, p, files)
	}
	a.findDev()
	var spec feed.Spec
	var raw []*kgo.Record
	if p.records != "" {
		raw, err = readRecords(p.records)
	} else {
		spec, err = a.specOf(ctx, p.feed)
	}
	if err != nil {
		return err
	}
	cl, err := a.openClient(ctx, a.settings.Cluster().NewPublisher)
	if err != nil {
		return err
	}
	defer cl.Close()
	var pool *pgxpool.Pool
	if p.wait {
		if pool, err = a.openTenant(ctx, postgres.Audit); err != nil { // before anything is published
			return err
		}
		defer pool.Close()
	}
	done, err := produce(ctx, cl, a.settings.Cluster(), raw)
	for n := 0; n < len(files) && err == nil; { // a part at a time, so that a folder may be larger than memory
		var pages []page
		if pages, err = p.read(files, n); err != nil {
			break
		}
		n += len(pages)
		var records []*kgo.Record
		if records, err = deliveriesOf(spec, p.at, pages); err != nil {
			break
		}
		var more []published
		more, err = produce(ctx, cl, a.settings.Cluster(), records)
		done = append(done, more...)
	}
	if err != nil || !p.wait {
		if e := a.showPublished(done); err == nil { // the error says more
			err = e
		}
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

// specOf returns a feed of the tenant.
func (a *app) specOf(ctx context.Context, name string) (spec feed.Spec, err error) {
	err = a.asTenant(ctx, postgres.Read, func(tx pgx.Tx) error {
		r, err := findFeed(ctx, tx, name)
		spec = r.Spec
		return err
	})
	return spec, err
}

// A file is one to publish: where it is, and what it is called wherever it is.
type file struct{ path, name string }

// files finds all that the paths stand for, and makes sure that each can be published before any of it is.
func (p publication) files() (files []file, err error) {
	for _, root := range p.paths {
		if root == "-" {
			files = append(files, file{root, p.feed})
			continue
		}
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if path != root && strings.HasPrefix(d.Name(), ".") {
				if d.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
			info, err := os.Stat(path) // of what a link leads to
			if err != nil || info.IsDir() {
				return err
			}
			if !info.Mode().IsRegular() {
				return fmt.Errorf("%s is no file", path)
			}
			if info.Size() > delivery.MaxInline {
				return fmt.Errorf("%s has %d bytes, an event carries at most %d: put it where offerlog can fetch it, and publish an event with its address in dataref",
					path, info.Size(), delivery.MaxInline)
			}
			name, err := filepath.Rel(root, path)
			if name == "." {
				name = filepath.Base(path)
			}
			files = append(files, file{path, filepath.ToSlash(name)})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(files) == 0 && len(p.paths) > 0 {
		return nil, fmt.Errorf("there is no file in %s", strings.Join(p.paths, ", "))
	}
	return files, nil
}

// partBytes is how much of the files is in memory at a time.
const partBytes = 32 << 20

// read reads the next files from the n-th on, as many as fit, and at least one.
func (p publication) read(files []file, n int) (pages []page, err error) {
	for size := 0; n < len(files) && size < partBytes; n++ {
		payload, err := readPayload(files[n].path)
		if err != nil {
			return nil, err
		}
		pages = append(pages, pageOf(p.id, n, len(files), files[n].name, payload))
		size += len(payload)
	}
	return pages, nil
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

// pageOf names the event that the n-th of so many files is: see the command's help.
func pageOf(id string, n, of int, name string, payload []byte) page {
	switch {
	case id == "":
		return page{id: delivery.FileID(name, payload), payload: payload}
	case of == 1:
		return page{id: id, payload: payload}
	}
	return page{id: id + "/" + strconv.Itoa(n+1), run: id, number: n + 1, of: of, payload: payload}
}

// readPayload reads a file, or standard input, of at most the size that an event carries.
func readPayload(name string) ([]byte, error) {
	var in io.Reader = os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	payload, err := io.ReadAll(io.LimitReader(in, delivery.MaxInline+1))
	if err == nil && len(payload) > delivery.MaxInline {
		err = fmt.Errorf("%s has more than %d bytes, which is what an event carries", name, delivery.MaxInline)
	}
	return payload, err
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
