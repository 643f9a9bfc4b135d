package main

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams/rig"
)

// run executes a command line as a process would.
func run(t *testing.T, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs, environ: []string{"OFFERLOG_DIR=" + t.TempDir()}}
	exit = a.execute(t.Context(), args)
	return out.String(), errs.String(), exit
}

func TestALoginThatMayNotReadIsToldWhichRoleItLacks(t *testing.T) {
	dsn := rig.Database(t)
	superuser := rig.DatabaseAsSuperuser(t, dsn)
	const login = "offerlog_scene_reader"
	statement := func(sql string) {
		t.Helper()
		err := execute(context.WithoutCancel(t.Context()), superuser, func(conn *pgx.Conn) error {
			_, err := conn.Exec(context.WithoutCancel(t.Context()), sql)
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	statement("DROP ROLE IF EXISTS " + login)
	statement("CREATE ROLE " + login + " LOGIN PASSWORD 'reader'; GRANT offerlog_read TO " + login)
	t.Cleanup(func() { statement("DROP ROLE " + login) })
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(login, "reader")
	for _, c := range []struct {
		command string
		exit    int
		stderr  string
	}{
		{"offers", 0, ""},
		{"observations", 0, ""},
		{"feed list", 0, ""},
		{"deliveries", exitNotAllowed, "login offerlog_scene_reader is no member of offerlog_audit\nhint: run as an administrator of the database: GRANT offerlog_audit TO"},
		{"quarantine list", exitNotAllowed, "is no member of offerlog_audit"},
	} {
		_, stderr, exit := run(t, append(strings.Fields(c.command), "--tenant", "t1", "--postgres", u.String())...)
		if exit != c.exit || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: got exit %d and %q, want %d and %q", c.command, exit, stderr, c.exit, c.stderr)
		}
	}
}

func TestAReplayKeyIsReadBackAsItIsPrinted(t *testing.T) {
	for what, key := range map[string]offer.ReplayKey{
		"plain":                     {Source: offer.Source{Tenant: "t1", Connector: "acme", Account: "ACC-1"}, EventSource: "/acme/export", EventID: "EXP-1/2"},
		"a command":                 {Source: offer.Source{Tenant: "t1", Connector: "commands"}, EventSource: "/offerlog/cli", EventID: "7"},
		"signs of all kinds":        {Source: offer.Source{Tenant: "t 1", Connector: "a+b", Account: "ü%2F"}, EventSource: "?x=1&y#z", EventID: "100 %"},
		"an id that looks declared": {Source: offer.Source{Tenant: "t1", Connector: "acme", Account: "ACC-1"}, EventSource: "/acme/export", EventID: "exportid=1&page=2"},
		"declared attributes": {Source: offer.Source{Tenant: "t1", Connector: "acme", Account: "ACC-1"}, EventSource: "/acme/export", EventID: "7",
			Declared: offer.DeclareFields(map[string]string{"exportid": "EXP/1 = ü&?", "page": "2"})},
		"a fallback": {Source: offer.Source{Tenant: "t1", Connector: "acme", Account: "ACC-1"}, EventSource: "/acme/export", EventID: "7",
			Declared: offer.DeclareFallback(map[string]string{"endpoint": "/offers"})},
		"of no feed, unknown": {Source: offer.Source{Tenant: offer.SystemTenant}, EventSource: "s", EventID: "i"},
	} {
		got, err := parseDelivery(key.String())
		if err != nil || got != key.ID() {
			t.Errorf("%s: %s: got %s and error %v, want %s", what, key, got, err, key.ID())
		}
		if got, err = parseDelivery(key.ID().String()); err != nil || got != key.ID() {
			t.Errorf("%s: its id: got %s and error %v", what, got, err)
		}
	}
	for _, wrong := range []string{"", "a/b/c/d", "a/b/c/d/e/f", "a/b/c/d/%", "a/b/c/d/%zz"} {
		if id, err := parseDelivery(wrong); err == nil || explain(err).exit != exitUsage {
			t.Errorf("%q: got %s and error %v, want a usage error", wrong, id, err)
		}
	}
}

func TestARecordIsProducedAsGiven(t *testing.T) {
	rec, err := parseRecord([]byte(`{"topic":"t","key":"","headers":[["b","1"],["a",null],["b","ü"]],"value":"1.50"}`))
	if err != nil {
		t.Fatal(err)
	}
	if rec.Topic != "t" || rec.Key == nil || len(rec.Key) != 0 || string(rec.Value) != "1.50" {
		t.Errorf("got %+v", rec)
	}
	if h := rec.Headers; len(h) != 3 || h[0].Key != "b" || h[1].Key != "a" || h[1].Value != nil || string(h[2].Value) != "ü" {
		t.Errorf("got headers %q", h)
	}
	rec, err = parseRecord([]byte(`{"topic":"t","key":null,"headers":{"z":"1","a":"2","z":"3"},"value_base64":"/wA="}`))
	if err != nil {
		t.Fatal(err)
	}
	if rec.Key != nil || string(rec.Value) != "\xff\x00" || len(rec.Headers) != 3 || rec.Headers[0].Key != "z" || string(rec.Headers[2].Value) != "3" {
		t.Errorf("got %+v", rec)
	}
	if rec, err = parseRecord([]byte(`{"topic":"t","value":null}`)); err != nil || rec.Value != nil {
		t.Errorf("a null value: got %+v and error %v", rec, err)
	}
	for text, want := range map[string]string{
		`{"value":"x"}`:                               "topic is missing",
		`{"topic":"t"}`:                               "value is missing",
		`{"topic":"t","value":1.5}`:                   "value: want a text",
		`{"topic":"t","value":"x","value_base64":""}`: "both there",
		`{"topic":"t","value_base64":"*"}`:            "base64",
		`{"topic":"t","value":"x","offset":1}`:        "offset",
		`{"topic":"t","value":"x","headers":{"a":1}}`: `header "a": want a text`,
		`{"topic":"t","value":"x","headers":[["a"]]}`: "[name, text]",
		`{"topic":"t","value":"x","headers":"a"}`:     "want an object or a list",
		`{"topic":"t","value":"x"} {}`:                "more than one",
		`[]`:                                          "array",
		`{"topic":"t","value":"x"`:                    "EOF",
	} {
		if rec, err := parseRecord([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v and error %v, want one with %q", text, rec, err, want)
		}
	}
}

func TestPagesOfOneExportShareItsId(t *testing.T) {
	for what, c := range map[string]struct {
		id    string
		files []string
		want  []string // id, run and number
	}{
		"one file without an id is named by itself":        {"", []string{"EXP-8822.json"}, []string{delivery.FileID("EXP-8822.json", []byte("EXP-8822.json")) + "  0"}},
		"several files without an id stand for themselves": {"", []string{"a", "b"}, []string{delivery.FileID("a", []byte("a")) + "  0", delivery.FileID("b", []byte("b")) + "  0"}},
		"one file with an id is that delivery":             {"EXP-8821/2", []string{"x.json"}, []string{"EXP-8821/2  0"}},
		"several files with an id are its pages":           {"EXP-8821", []string{"x", "y"}, []string{"EXP-8821/1 EXP-8821 1", "EXP-8821/2 EXP-8821 2"}},
	} {
		var got []string
		for i, name := range c.files {
			p := pageOf(c.id, i, len(c.files), name, []byte(name))
			got = append(got, p.id+" "+p.run+" "+decimal(int64(p.number)))
		}
		if strings.Join(got, ", ") != strings.Join(c.want, ", ") {
			t.Errorf("%s: got %q, want %q", what, got, c.want)
		}
	}
}

// A folder stands for its files, in one order, under the names that they have in it.
func TestAFolderStandsForItsFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.csv", "a.csv", "2026/03/c.csv", ".hidden", ".git/config", "2026/.tmp"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := publication{paths: []string{dir, filepath.Join(dir, "b.csv")}}.files()
	var got []string
	for _, f := range files {
		got = append(got, f.name)
	}
	if want := []string{"2026/03/c.csv", "a.csv", "b.csv", "b.csv"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for what, path := range map[string]string{"nothing": filepath.Join(dir, "gone"), "a folder without files": t.TempDir()} {
		if files, err := (publication{paths: []string{path}}).files(); err == nil {
			t.Errorf("%s: got %v", what, files)
		}
	}
	big, err := os.Create(filepath.Join(dir, "big"))
	if err == nil {
		err = errors.Join(big.Truncate(delivery.MaxInline+1), big.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if files, err := (publication{paths: []string{dir}}).files(); err == nil || !strings.Contains(err.Error(), "dataref") {
		t.Errorf("a file that no event carries: got %v, %v", files, err)
	}
}

// However large a folder is, a bounded part of it is in memory.
func TestFilesAreReadAPartAtATime(t *testing.T) {
	var files []file
	for i := range 5 {
		path := filepath.Join(t.TempDir(), "f")
		f, err := os.Create(path)
		if err == nil {
			err = errors.Join(f.Truncate(delivery.MaxInline), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file{path, decimal(int64(i))})
	}
	p := publication{id: "X"}
	var got []string
	for n := 0; n < len(files); {
		pages, err := p.read(files, n)
		if err != nil || len(pages) == 0 || len(pages) > partBytes/delivery.MaxInline {
			t.Fatalf("got %d pages, %v", len(pages), err)
		}
		for _, pg := range pages {
			got = append(got, pg.id)
		}
		n += len(pages)
	}
	if want := []string{"X/1", "X/2", "X/3", "X/4", "X/5"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestVerdictTellsConflictsFromWhatIsSetAside(t *testing.T) {
	accepted := receipt.Document{Result: receipt.Result{Outcome: offer.Accepted}}
	aside := receipt.Document{Result: receipt.Result{Outcome: offer.Quarantined, Reason: offer.ReasonUnknownFeed}}
	mismatch := receipt.Document{Result: receipt.Result{Outcome: offer.Quarantined, Reason: offer.ReasonReplayPayloadMismatch}}
	for what, c := range map[string]struct {
		attempts []receipt.Document
		exit     int
	}{
		"all taken":               {[]receipt.Document{accepted, {Result: receipt.Result{Outcome: offer.Duplicate}}}, 0},
		"one set aside":           {[]receipt.Document{accepted, aside}, exitQuarantined},
		"a mismatch among others": {[]receipt.Document{aside, mismatch, accepted}, exitConflict},
	} {
		exit := 0
		if err := verdict(c.attempts); err != nil {
			exit = explain(err).exit
		}
		if exit != c.exit {
			t.Errorf("%s: got exit %d, want %d", what, exit, c.exit)
		}
	}
}

func TestTextsOfSuppliersCannotMoveTheCursor(t *testing.T) {
	if got, want := cells("a\x1b[2Jb\nc\td", "\u202eabc", "ü \u00a0€", ""), "a\uFFFD[2Jb\uFFFDc\uFFFDd\t\uFFFDabc\tü \u00a0€\t-"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
