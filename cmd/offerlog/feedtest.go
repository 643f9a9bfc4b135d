package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/streams"
)

// fixturesFolder stands beside a feed file. expectedSuffix takes the place of a fixture's own.
const (
	fixturesFolder = "fixtures"
	expectedSuffix = ".expected.json"
)

// fixtureTime is the event's time where an expectation names none: any, and always the same.
const fixtureTime = "2026-01-01T00:00:00Z"

// rowsShown are the rows that are printed of a fixture for people; --json prints all.
const rowsShown = 10

func (a *app) feedTestCommand() *cobra.Command {
	var update bool
	cmd := &cobra.Command{
		Use:   "test FILE [FIXTURE...]",
		Short: "Try a feed on fixtures; needs no server",
		Long: "Reads fixtures as the feed says and prints their rows, and the rejected ones with their places. Fixtures are payloads as the\n" +
			"supplier sends them: the arguments, or all files of the folder " + fixturesFolder + " beside the feed file. NAME" + expectedSuffix + " beside\n" +
			"NAME.json (or .csv, .xml ...) says what must come out, in normal form, and with \"event\" the attributes of the event; --update\n" +
			"writes it. Each fixture is read by two mapper processes with other time zones, locales and numbers of threads, which must\n" +
			"agree, and with other digits in its numbers, which must come out: a binary float on the way loses them.",
		Example: "  offerlog feed test acme-eu/feed.yaml\n  offerlog feed test acme-eu/feed.yaml export.json --json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("name the feed file", "offerlog feed test wants a FILE")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := readFeed(args[0])
			if err != nil {
				return err
			}
			files := args[1:]
			if len(files) == 0 {
				if files, err = fixturesBeside(args[0]); err != nil {
					return err
				}
			}
			return a.testFeed(cmd.Context(), spec, files, update)
		},
	}
	cmd.Flags().BoolVar(&update, "update", false, "write what came out as what must come out")
	return cmd
}

// fixturesBeside lists the fixtures in the folder beside a feed file.
func fixturesBeside(feedFile string) (files []string, err error) {
	folder := filepath.Join(filepath.Dir(feedFile), fixturesFolder)
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasSuffix(e.Name(), expectedSuffix) {
			files = append(files, filepath.Join(folder, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, &exitError{exitNotFound, "no_fixture", "put a payload of the supplier there, or name one: offerlog feed test FILE FIXTURE",
			fmt.Errorf("%s holds no fixture", folder)}
	}
	return files, nil
}

// A reading is what a fixture gives, and in a file what it must give.
type reading struct {
	Event    map[string]string `json:"event,omitempty"` // attributes, beside those that every event has
	Fault    *offer.Fault      `json:"fault,omitempty"` // of the delivery as a whole
	Rows     []readRow         `json:"rows,omitempty"`
	Repeated int               `json:"repeated,omitempty"` // rows equal to an earlier one
	Rejected []offer.Fault     `json:"rejected,omitempty"`
}

// A readRow is one row in normal form.
type readRow struct {
	Row        int    `json:"row"`
	Record     string `json:"source_record"`
	Version    string `json:"source_version,omitempty"`
	ObservedAt string `json:"observed_at"`
	offer.Content
	Warnings []string `json:"warnings,omitempty"`
}

// A tested fixture is what is printed of it.
type tested struct {
	Fixture  string   `json:"fixture"`
	Expected string   `json:"expected"` // agrees | differs | written | none
	Problems []string `json:"problems,omitempty"`
	reading
}

// surprising reports rows that were set aside though nobody said that they must be.
func (t *tested) surprising() bool {
	return t.Expected == "none" && (t.Fault != nil || len(t.Rejected) > 0)
}

// testFeed tries a feed on fixtures.
func (a *app) testFeed(ctx context.Context, spec feed.Spec, files []string, update bool) error {
	var places [2]*mapping.Child
	for i, environment := range [][]string{{"TZ=Pacific/Kiritimati", "LC_ALL=tr_TR.UTF-8", "GOMAXPROCS=1"}, {"TZ=America/St_Johns", "LC_ALL=C", "GOMAXPROCS=4"}} {
		places[i] = mapping.NewChild(mapping.Config{Processes: 1, Environment: environment})
		defer func() { _ = places[i].Close() }()
	}
	results := make([]tested, len(files))
	bad, surprising := 0, 0
	for i, file := range files {
		var err error
		if results[i], err = testFixture(ctx, spec, places, file, update); err != nil {
			return fmt.Errorf("test feed %s on %s: %w", spec.Feed, file, err)
		}
		if len(results[i].Problems) > 0 {
			bad++
		} else if results[i].surprising() {
			surprising++
		}
	}
	if a.json {
		if err := show(a, "", results, nil); err != nil {
			return err
		}
	} else if err := a.showTested(results); err != nil {
		return err
	}
	switch {
	case bad > 0:
		return &exitError{exitConflict, "fixture_mismatch", "mend the mapping, or, where what came out is right, run offerlog feed test with --update",
			fmt.Errorf("feed %s: %d of %d fixtures did not come out as they must", spec.Feed, bad, len(files))}
	case surprising > 0:
		return &exitError{exitQuarantined, "rows_rejected", "mend the mapping, or, where it is right to reject them, say so with --update",
			fmt.Errorf("feed %s: %d of %d fixtures have rows that are rejected", spec.Feed, surprising, len(files))}
	}
	return nil
}

// testFixture reads one fixture in both places and looks at what comes out.
func testFixture(ctx context.Context, spec feed.Spec, places [2]*mapping.Child, file string, update bool) (tested, error) {
	t := tested{Fixture: file, Expected: "none"}
	expectedFile := strings.TrimSuffix(file, filepath.Ext(file)) + expectedSuffix
	want, err := readExpected(expectedFile)
	if err != nil {
		return t, err
	}
	request, err := fixtureRequest(spec, file, want)
	if err != nil {
		return t, err
	}
	program, err := mapping.Compile(spec.Reading())
	if err != nil {
		return t, err
	}
	probes, err := program.Probes(ctx, &request)
	if fault := new(offer.Fault); err != nil && !errors.As(err, &fault) {
		return t, err
	}
	specs := map[offer.Digest]mapping.Spec{request.Spec: spec.Reading()}
	requests := []mapping.Request{request}
	for _, p := range probes {
		specs[p.Spec.Digest()] = p.Spec
		for _, payload := range p.Payloads {
			twin := request
			twin.Spec, twin.Payload, twin.ContentType = p.Spec.Digest(), payload, ""
			requests = append(requests, twin)
		}
	}
	first, err := places[0].Map(ctx, specs, requests)
	if err != nil {
		return t, err
	}
	second, err := places[1].Map(ctx, specs, requests[:1])
	if err != nil {
		return t, err
	}
	t.reading = readingOf(&first[0])
	if want != nil {
		t.Event = want.Event
	}
	if one, other := digestOf(&first[0]), digestOf(&second[0]); one != other {
		t.Problems = append(t.Problems, fmt.Sprintf("two processes read it differently: %s and %s; the mapping depends on more than the payload", one, other))
	}
	lost := map[string]bool{}
	for i := range probes {
		for _, l := range probes[i].Losses(&first[0], &first[1+2*i], &first[2+2*i]) {
			if !lost[l.Field+l.Path] {
				lost[l.Field+l.Path] = true
				t.Problems = append(t.Problems, l.String())
			}
		}
	}
	switch {
	case update:
		t.Expected = "written"
		return t, writeExpected(expectedFile, t.reading)
	case want != nil:
		t.Expected = "agrees"
		if differences := want.differences(&t.reading); len(differences) > 0 {
			t.Expected = "differs"
			t.Problems = append(t.Problems, differences...)
		}
	}
	return t, nil
}

// fixtureRequest is the delivery that a fixture stands for.
func fixtureRequest(spec feed.Spec, file string, want *reading) (mapping.Request, error) {
	payload, err := os.ReadFile(file)
	if err != nil {
		return mapping.Request{}, usage("check the name of the file", "%w", err)
	}
	contentType := contentTypes[spec.Format.Kind]
	attributes := map[string]string{"specversion": "1.0", "id": filepath.Base(file), "source": spec.Accepts.Source, "type": streams.DeliveryType,
		"time": fixtureTime, "datacontenttype": contentType}
	if want != nil {
		for name, value := range want.Event {
			attributes[name] = value
		}
	}
	at, err := offer.ParseTime(attributes["time"])
	if err != nil {
		return mapping.Request{}, usage("correct event.time in the expectation", "%s: %w", file, err)
	}
	return mapping.Request{Spec: spec.Reading().Digest(), Payload: payload, HasData: true, ContentType: attributes["datacontenttype"], Attributes: attributes, EventTime: at}, nil
}

// readExpected returns nil where there is no expectation.
func readExpected(file string) (*reading, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // nothing is expected
	}
	var want reading
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		err = d.Decode(&want)
	}
	if err != nil {
		return nil, usage("correct it, or write it anew with --update", "%s: %w", file, err)
	}
	return &want, nil
}

// writeExpected leaves out the messages of faults, which are not compared.
func writeExpected(file string, r reading) error {
	if r.Fault != nil {
		r.Fault = new(silent(*r.Fault))
	}
	r.Rejected = slices.Clone(r.Rejected)
	for i, f := range r.Rejected {
		r.Rejected[i] = silent(f)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

func readingOf(res *mapping.Result) reading {
	r := reading{Fault: res.Fault, Repeated: res.Repeated, Rejected: res.Rejected}
	for i := range res.Rows {
		row := &res.Rows[i]
		out := readRow{Row: row.Number, Record: row.Record, ObservedAt: row.ObservedAt.Text, Content: row.Content, Warnings: row.Warnings}
		if row.HasVersion {
			out.Version = strconv.FormatInt(row.Version, 10)
		}
		r.Rows = append(r.Rows, out)
	}
	return r
}

// differences says, row by row, what was wanted and did not come out, or came out and was not wanted. The messages of faults
// explain, and may be worded better one day: they are not compared.
func (want *reading) differences(got *reading) (differences []string) {
	type line struct{ what, text string }
	lines := func(r *reading) (all []line) {
		put := func(what string, v any) {
			all = append(all, line{what, string(encode(v))})
		}
		if r.Fault != nil {
			put("fault", silent(*r.Fault))
		}
		for i := range r.Rows {
			put(fmt.Sprintf("row %d", r.Rows[i].Row), r.Rows[i])
		}
		for _, f := range r.Rejected {
			put(fmt.Sprintf("row %d", f.Row), silent(f))
		}
		put("repeated rows", r.Repeated)
		return all
	}
	left := map[line]bool{}
	for _, l := range lines(got) {
		left[l] = true
	}
	for _, l := range lines(want) {
		if !left[l] {
			differences = append(differences, fmt.Sprintf("%s: want %s", l.what, l.text))
		}
		delete(left, l)
	}
	for _, l := range lines(got) {
		if left[l] {
			differences = append(differences, fmt.Sprintf("%s: got %s", l.what, l.text))
		}
	}
	return differences
}

func silent(f offer.Fault) offer.Fault {
	f.Message = ""
	return f
}

func digestOf(res *mapping.Result) offer.Digest {
	return offer.Sum(encode(res))
}

// encode writes what always can be written: structs of texts and numbers.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// showTested prints fixtures for people.
func (a *app) showTested(results []tested) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for i := range results {
		t := &results[i]
		fmt.Fprintf(w, "%s: %d rows, %d rejected, expectation: %s\n", t.Fixture, len(t.Rows)+t.Repeated, len(t.Rejected), t.Expected)
		if len(t.Rows) > 0 {
			fmt.Fprintln(w, "  ROW\tRECORD\tVERSION\tMPN\tGTIN\tQUANTITY\tPRICE\tCURRENCY\tOBSERVED")
		}
		for _, r := range t.Rows[:min(len(t.Rows), rowsShown)] {
			fmt.Fprintf(w, "  %s\n", cells(decimal(int64(r.Row)), r.Record, r.Version, r.Item.MPN, r.Item.GTIN, r.Quantity.String(), r.Price.String(), r.Currency, r.ObservedAt))
		}
		if more := len(t.Rows) - rowsShown; more > 0 {
			fmt.Fprintf(w, "  ... %d more; --json prints all\n", more)
		}
		if t.Fault != nil {
			fmt.Fprintf(w, "  quarantined: %v\n", t.Fault)
		}
		for j := range t.Rejected {
			fmt.Fprintf(w, "  rejected: %v\n", &t.Rejected[j])
		}
		for _, p := range t.Problems {
			fmt.Fprintf(w, "  problem: %s\n", p)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
