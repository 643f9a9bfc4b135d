package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/quarantine"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams/ingest"
)

// entriesAtOnce is how many entries one command is about.
const entriesAtOnce = 500

// A choice is what the command line says of which entries are meant.
type choice struct {
	filter      quarantine.Filter
	since       time.Duration
	dryRun, yes bool
}

// decideCommand makes the command that decides one way about entries.
func (a *app) decideCommand(name, short, kind, long string) *cobra.Command {
	var (
		c       choice
		d       decision
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   name + " [ID...]",
		Short: short,
		Long: long + "\n\nNames entries by id, or all open ones that flags describe: then it prints how many there are and does nothing without --yes.\n" +
			"The decision is an event on the topic commands, and is kept with who decided and why.",
		Example: fmt.Sprintf("  offerlog quarantine %s 6f9619ff-8b86-8d01-b42d-00c04fc964ff --reason \"confirmed by the supplier\"\n"+
			"  offerlog quarantine %[1]s --feed acme-eu --with-reason schema_invalid --since 24h --dry-run\n"+
			"  offerlog quarantine %[1]s --feed acme-eu --with-reason schema_invalid --since 24h --reason \"mapping mended\" --yes", name),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !c.dryRun {
				if err := d.needReason(); err != nil {
					return err
				}
			}
			ids := make([]uuid.UUID, len(args))
			for i, text := range args {
				id, err := uuid.Parse(text)
				if err != nil {
					return usage("run offerlog quarantine list for the ids", "%q is no id of an entry", text)
				}
				ids[i] = id
			}
			described := c.filter.Feed != "" || c.filter.Reason != "" || c.filter.Detail != "" || c.since > 0
			if described == (len(ids) > 0) {
				return usage("run "+cmd.CommandPath()+" --help", "want ids of entries, or flags that describe them")
			}
			ctx, cancel := withTimeout(cmd.Context(), timeout)
			defer cancel()
			return a.decideEntries(ctx, kind, ids, c, d)
		},
	}
	d.flags(cmd, &timeout)
	cmd.Flags().StringVar(&c.filter.Feed, "feed", "", "open entries of this feed")
	cmd.Flags().StringVar(&c.filter.Reason, "with-reason", "", "open entries with this reason of quarantine")
	cmd.Flags().StringVar(&c.filter.Detail, "detail", "", "open entries with this detail")
	cmd.Flags().DurationVar(&c.since, "since", 0, "open entries that were recorded in so long until now")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "only print which entries are meant")
	cmd.Flags().BoolVar(&c.yes, "yes", false, "decide about all that the flags describe")
	return cmd
}

// A decidedNow is an entry that was decided about, as it is printed.
type decidedNow struct {
	Entry   string `json:"entry"`
	Reason  string `json:"reason"`
	Feed    string `json:"feed,omitempty"`
	EventID string `json:"event_id,omitempty"`
	Row     int    `json:"row,omitempty"`
	Command string `json:"command,omitempty"` // the event's id; absent: nothing was decided
}

func (a *app) decideEntries(ctx context.Context, kind string, ids []uuid.UUID, c choice, d decision) error {
	a.findDev()
	pool, err := a.openTenant(ctx, postgres.Audit)
	if err != nil {
		return err
	}
	defer pool.Close()
	var chosen []decidedNow
	err = postgres.AsTenant(ctx, pool, postgres.Audit, a.settings.Tenant, func(tx pgx.Tx) (err error) {
		chosen, err = a.choose(ctx, tx, ids, c)
		return err
	})
	if err != nil {
		return err
	}
	if !c.dryRun && len(ids) == 0 && !c.yes {
		return usage("look at them with --dry-run, and decide about all of them with --yes", "%d open entries are described; nothing was decided", len(chosen))
	}
	if !c.dryRun {
		if err := a.sendEntries(ctx, pool, kind, chosen, d); err != nil {
			return err
		}
	}
	err = a.showDecided(chosen)
	if err == nil && !a.json {
		fmt.Fprintf(a.stderr, "note: %d entries\n", len(chosen))
	}
	return err
}

// sendEntries decides about entries, so many by one command, and notes which.
func (a *app) sendEntries(ctx context.Context, pool *pgxpool.Pool, kind string, chosen []decidedNow, d decision) error {
	cl, err := a.openKafka(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	for part := range slices.Chunk(chosen, entriesAtOnce) {
		var data ingest.Entries
		for _, e := range part {
			data.Entries = append(data.Entries, uuid.MustParse(e.Entry))
		}
		payload, err := json.Marshal(data)
		if err != nil {
			return fmt.Errorf("write the command: %w", err)
		}
		doc, err := sendCommand(ctx, cl, a.settings.Cluster(), pool, a.settings.Tenant, kind, payload, d)
		if err != nil {
			return err
		}
		for i := range part {
			part[i].Command = doc.EventID
		}
	}
	return nil
}

func (a *app) showDecided(chosen []decidedNow) error {
	return show(a, "ENTRY\tREASON\tFEED\tEVENT ID\tROW\tCOMMAND", chosen, func(e decidedNow) string {
		row := ""
		if e.Row > 0 {
			row = decimal(int64(e.Row))
		}
		return cells(e.Entry, e.Reason, e.Feed, e.EventID, row, e.Command)
	})
}

// choose finds the entries that are meant, the oldest first.
func (a *app) choose(ctx context.Context, tx pgx.Tx, ids []uuid.UUID, c choice) (chosen []decidedNow, err error) {
	var found []quarantine.Entry
	if len(ids) == 0 {
		f := c.filter
		f.Open, f.Limit = true, 1<<30
		if c.since > 0 {
			f.Since = time.Now().Add(-c.since)
		}
		if found, err = quarantine.List(ctx, tx, f); err != nil {
			return nil, err
		}
		slices.Reverse(found)
	}
	for _, id := range ids {
		e, _, err := a.quarantined(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		found = append(found, e)
	}
	return toDecide(found), nil
}

func toDecide(entries []quarantine.Entry) []decidedNow {
	chosen := make([]decidedNow, len(entries))
	for i := range entries {
		e := &entries[i]
		chosen[i] = decidedNow{Entry: e.ID.String(), Reason: e.Fault.Reason, Feed: e.Feed, EventID: e.EventID, Row: e.Fault.Row}
	}
	return chosen
}

// A decidedEntry is a decision about an entry, as it is printed.
type decidedEntry struct {
	Verdict    string `json:"verdict"` // released | rejected | redriven
	Release    int    `json:"release,omitempty"`
	Actor      string `json:"actor,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Command    string `json:"command"` // the delivery that decided it
	RecordedAt string `json:"recorded_at"`
}

func newDecidedEntry(d *quarantine.Decision) decidedEntry {
	return decidedEntry{string(d.Verdict), d.Release, d.Actor, d.Reason, d.Command.String(), offer.TimeOf(d.RecordedAt).Text}
}

// as says what a release became.
func (d *decidedEntry) as() string {
	if d.Release == 0 {
		return ""
	}
	return fmt.Sprintf(", as ;release=%d", d.Release)
}

// A fetched says how a payload was fetched, as its event has it.
type fetched struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Source    string `json:"source,omitempty"`
	ID        string `json:"id,omitempty"`
	Time      string `json:"time,omitempty"`
	Retrieved string `json:"recordedtime,omitempty"`
	Endpoint  string `json:"endpoint,omitempty"`
	Cursor    string `json:"cursor,omitempty"`
	Page      string `json:"page,omitempty"`
	Run       string `json:"runid,omitempty"`
}

func newFetched(d *receipt.Document, attributes map[string]string) fetched {
	return fetched{d.Topic, d.Partition, d.Offset, attributes["source"], attributes["id"], attributes["time"], attributes["recordedtime"],
		attributes["endpoint"], attributes["cursor"], attributes["page"], attributes["runid"]}
}

// compareQuarantined reads both payloads of a mismatch from the archive, and says in what they differ.
func (a *app) compareQuarantined(ctx context.Context, q *quarantined) error {
	a.findDev()
	pool, err := a.openTenant(ctx, postgres.Audit)
	if err != nil {
		return err
	}
	defer pool.Close()
	ring, err := a.openKeyring()
	if err != nil {
		return err
	}
	store, err := a.openStore(a.settings.Archive)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()              // it was only read
	folder, err := os.MkdirTemp("", "offerlog-diff-") // payloads of any size; nobody else may enter it
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }() // what stays is temporary
	var (
		payloads [2]payloadFile
		spec     feed.Spec
	)
	err = postgres.AsTenant(ctx, pool, postgres.Audit, a.settings.Tenant, func(tx pgx.Tx) error {
		arch := archive.New(store, archive.NewPostgresKeys(tx, ring))
		q.Contexts = nil
		for i, d := range []*receipt.Document{q.Original, q.Event} {
			if d.Artifact == nil || d.Artifact.State != "stored" {
				return nil
			}
			c, err := arch.Open(ctx, a.settings.Tenant, archive.Ref{Name: d.Artifact.Object, KeyID: d.Artifact.KeyID}, d.Artifact.Offset, d.Artifact.Item)
			if err != nil {
				return err
			}
			payloads[i], err = copyPayload(c, folder)
			if err := errors.Join(err, c.Close()); err != nil {
				return err
			}
			q.Contexts = append(q.Contexts, newFetched(d, payloads[i].event.Attributes))
		}
		r, err := findFeed(ctx, tx, q.Feed)
		spec = r.Spec
		return err
	})
	if err != nil || len(q.Contexts) < 2 {
		return err
	}
	c, err := comparePayloads(ctx, spec.Reading(), folder, &payloads)
	if err == nil {
		q.Difference = &c
	}
	return err
}

// A payloadFile is an event with its payload in a file.
type payloadFile struct {
	event  delivery.Event
	path   string
	length int64
}

// copyPayload reads an entry of the archive into a file of a folder.
func copyPayload(c *archive.Content, folder string) (p payloadFile, err error) {
	file, err := os.CreateTemp(folder, "payload-*")
	if err != nil {
		return p, err
	}
	p.path = file.Name()
	p.length, err = io.Copy(file, c)
	if err = errors.Join(err, file.Close()); err == nil {
		p.event, err = delivery.FromEnvelope(c.Envelope, nil)
	}
	return p, err
}

// comparePayloads maps two payloads as their feed does now and compares them. What cannot be read so has no rows.
func comparePayloads(ctx context.Context, spec mapping.Spec, folder string, payloads *[2]payloadFile) (c quarantine.Comparison, err error) {
	child := mapping.NewChild(mapping.Config{})
	defer func() { _ = child.Close() }() // it has answered
	var sides [2]quarantine.Side
	for i := range payloads {
		p, ev := &payloads[i], &payloads[i].event
		result, rows, err := child.Spool(ctx, spec, mapping.Request{Path: p.path, Length: p.length, HasData: ev.HasData, ContentType: ev.ContentType,
			Attributes: ev.Attributes, EventTime: ev.Time}, folder)
		if err != nil {
			return c, err
		}
		sides[i].Attributes = ev.Attributes
		if result.Fault == nil {
			defer func() { _ = rows.Close() }() // it was only read
			sides[i].Rows, sides[i].Count = rows.Chunks(), rows.Rows()
		}
		file, err := os.Open(p.path)
		if err != nil {
			return c, err
		}
		defer func() { _ = file.Close() }() // it was only read
		sides[i].Payload = file
	}
	return quarantine.Compare(&sides[0], &sides[1])
}

// shownRows bounds the rows of a difference that are printed for people; programs get more.
const shownRows = 20

func differenceLines(q *quarantined) (lines []line) {
	c := q.Difference
	if c == nil {
		return nil
	}
	for i, name := range []string{"first fetched", "second fetched"} {
		f := &q.Contexts[i]
		var parts []string
		for _, p := range [][2]string{{"time", f.Time}, {"recordedtime", f.Retrieved}, {"endpoint", f.Endpoint}, {"cursor", f.Cursor}, {"page", f.Page}, {"runid", f.Run}} {
			if p[1] != "" {
				parts = append(parts, p[0]+" "+p[1])
			}
		}
		lines = append(lines, line{name, fmt.Sprintf("%s/%d/%d %s", f.Topic, f.Partition, f.Offset, strings.Join(parts, ", "))})
	}
	at := "no byte differs"
	if c.Bytes.Offset >= 0 {
		at = fmt.Sprintf("they part at byte %d, line %d", c.Bytes.Offset, c.Bytes.Line)
	}
	lines = append(lines, line{"bytes", fmt.Sprintf("%d and %d: %s", c.Bytes.First, c.Bytes.Second, at)})
	if r := c.Rows; r != nil {
		added, removed, changed := r.Sums()
		lines = append(lines, line{"rows", fmt.Sprintf("%d unchanged, %d changed, %d added, %d removed", r.Unchanged, changed, added, removed)})
		var told []line
		for _, ch := range r.Changed {
			var fields []string
			for _, f := range ch.Fields {
				fields = append(fields, fmt.Sprintf("%s %q -> %q", f.Name, f.Old, f.New))
			}
			told = append(told, line{"changed", ch.Record + ": " + strings.Join(fields, ", ")})
		}
		for _, record := range r.Added {
			told = append(told, line{"added", record})
		}
		for _, record := range r.Removed {
			told = append(told, line{"removed", record})
		}
		if n := added + removed + changed; n > len(told) || n > shownRows {
			told = told[:min(len(told), shownRows)]
			told = append(told, line{"", fmt.Sprintf("and %d more: use --json, which lists the first %d", n-len(told), quarantine.ListedRows)})
		}
		lines = append(lines, told...)
	}
	for _, h := range c.Hints {
		lines = append(lines, line{"hint", h.Cause + ": " + h.Why})
	}
	return lines
}
