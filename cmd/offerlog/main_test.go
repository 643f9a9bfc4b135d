package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/schemas"
	"github.com/offerlog/offerlog/streams/rig"
)

func TestMain(m *testing.M) {
	rig.Main(m, func() bool { // the mapper of an offerlog that is this program
		served, code := mapping.ServeIfChild()
		if served {
			os.Exit(code)
		}
		return false
	}, func() bool { // offerlog in a scene
		if filepath.Base(os.Args[0]) == "offerlog" {
			os.Exit(offerlog())
		}
		return false
	})
}

// TestScenes runs testdata/*.txtar. A scene's offerlog is this program under another name.
func TestScenes(t *testing.T) {
	self, err := os.Executable()
	readme, err2 := filepath.Abs("../../README.md")
	feeds, err3 := filepath.Abs("../../testdata/feeds")
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			bin := filepath.Join(e.WorkDir, ".bin")
			e.Setenv("PATH", bin+string(filepath.ListSeparator)+e.Getenv("PATH"))
			e.Setenv("OFFERLOG_LISTEN", "127.0.0.1:0")
			e.Setenv("OFFERLOG_GATEWAY_LISTEN", "127.0.0.1:0")
			e.Setenv("README", readme)
			e.Setenv("FEEDS", feeds)
			e.Values[theTest] = e.T()
			return errors.Join(os.Mkdir(bin, 0o755), os.Symlink(self, filepath.Join(bin, "offerlog")))
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"servers": sceneServers, "empty-database": sceneEmptyDatabase, "sql": sceneSQL, "feed": sceneFeed,
			"dev-folder": sceneDevFolder, "produce": sceneProduce, "outcomes": sceneOutcomes, "halt": sceneHalt,
			"exits": sceneExits, "await": sceneAwait, "readme": sceneReadme, "gateway": sceneGateway, "conforms": sceneConforms,
			"begins": sceneBegins, "prune": scenePrune,
		},
	})
}

type key int

const theTest key = 0

func tb(ts *testscript.TestScript) testing.TB { return ts.Value(theTest).(testing.TB) }

// sceneServers gives the scene a database with the newest schema and a Kafka without topics.
func sceneServers(ts *testscript.TestScript, _ bool, _ []string) {
	dsn := rig.Database(tb(ts))
	addr, _ := rig.FakeKafka(tb(ts))
	ts.Setenv("OFFERLOG_POSTGRES", dsn)
	ts.Setenv("SUPERUSER", rig.DatabaseAsSuperuser(tb(ts), dsn))
	u, err := url.Parse(dsn)
	ts.Check(err)
	u.User = url.UserPassword("offerlog_scene_stranger", "stranger")
	ts.Setenv("STRANGER", u.String())
	u.User = url.UserPassword("offerlog_nobody", "wrong")
	ts.Setenv("NOBODY", u.String())
	ts.Setenv("OFFERLOG_KAFKA", addr)
}

var databases atomic.Int64

// sceneEmptyDatabase gives the scene a database without a schema, as the server's superuser.
func sceneEmptyDatabase(ts *testscript.TestScript, _ bool, _ []string) {
	u, err := url.Parse(rig.PostgresServer(tb(ts)))
	ts.Check(err)
	server := u.String()
	name := fmt.Sprintf("offerlog_scene_%d_%d", os.Getpid(), databases.Add(1))
	statement := func(s string) error {
		return execute(context.Background(), server, func(conn *pgx.Conn) error {
			_, err := conn.Exec(context.Background(), s)
			return err
		})
	}
	ts.Check(statement("CREATE DATABASE " + name))
	ts.Defer(func() { ts.Check(statement("DROP DATABASE " + name + " WITH (FORCE)")) })
	u.Path = "/" + name
	ts.Setenv("OFFERLOG_POSTGRES", u.String())
	ts.Setenv("SUPERUSER", u.String())
}

// sceneSQL executes a statement in the scene's database, as superuser: in that of servers, or of the running dev.
func sceneSQL(ts *testscript.TestScript, _ bool, args []string) {
	dsn := ts.Getenv("SUPERUSER")
	if dsn == "" {
		dsn = running(ts).Postgres
	}
	ts.Check(execute(context.Background(), dsn, func(conn *pgx.Conn) error {
		_, err := conn.Exec(context.Background(), strings.Join(args, " "))
		return err
	}))
}

// sceneFeed registers a feed in the scene's database, as ingest does for a command: feed FILE.
func sceneFeed(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	spec, err := feed.ParseFile(ts.MkAbs(args[0]))
	ts.Check(err)
	pool, err := postgres.Open(ctx, ts.Getenv("OFFERLOG_POSTGRES"), 1)
	ts.Check(err)
	defer pool.Close()
	ts.Check(postgres.InTx(ctx, pool, postgres.Ingest, func(tx pgx.Tx) error {
		_, fault, err := feed.Apply(ctx, tx, spec, offer.DeliveryID{1}, time.Now())
		if fault != nil {
			return fault
		}
		return err
	}))
}

// sceneDevFolder gives the scene a folder for offerlog dev that PostgreSQL's user can enter.
func sceneDevFolder(ts *testscript.TestScript, _ bool, _ []string) {
	dir, err := os.MkdirTemp("", "offerlog-dev-")
	ts.Check(err)
	ts.Defer(func() { ts.Check(os.RemoveAll(dir)) })
	ts.Check(os.Chmod(dir, 0o755))
	ts.Setenv("OFFERLOG_DIR", dir)
}

// running is the offerlog dev in the scene's folder.
func running(ts *testscript.TestScript) (i devInstance) {
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(runFile(ts.Getenv("OFFERLOG_DIR")))), &i))
	return i
}

// sceneProduce writes a record to the running dev: produce TOPIC TEXT.
func sceneProduce(ts *testscript.TestScript, _ bool, args []string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(running(ts).Kafka))
	ts.Check(err)
	defer cl.Close()
	ts.Check(cl.ProduceSync(context.Background(), &kgo.Record{Topic: args[0], Value: []byte(args[1])}).FirstErr())
}

// sceneOutcomes waits until the running dev has recorded as many: outcomes N.
func sceneOutcomes(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ts.Check(execute(ctx, running(ts).Postgres, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SET ROLE offerlog_inspect")
		for got := -1; err == nil && got != want; {
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
			err = conn.QueryRow(ctx, "SELECT count(*) FROM audit_v1.outcome").Scan(&got)
		}
		return err
	}))
}

// sceneHalt halts a partition of the running dev where it stands: halt TOPIC PARTITION.
func sceneHalt(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	ts.Check(execute(ctx, running(ts).Postgres, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SET ROLE offerlog_ingest")
		if err == nil {
			_, err = conn.Exec(ctx, "UPDATE lane SET halt_reason = 'log_gap', halt_from = next, halt_to = next WHERE topic = $1 AND partition::text = $2", args[0], args[1])
		}
		return err
	}))
}

// sceneBegins gives the running dev a topic of one partition with the records of a file, and a lane that begins behind them: begins TOPIC FILE.
func sceneBegins(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cluster := context.Background(), kafka.Cluster{Brokers: []string{running(ts).Kafka}}
	cl, err := cluster.NewPublisher()
	ts.Check(err)
	defer cl.Close()
	_, err = kadm.NewClient(cl).CreateTopic(ctx, 1, 1, nil, args[0])
	ts.Check(err)
	records, err := readRecords(ts.MkAbs(args[1]))
	ts.Check(err)
	ts.Check(cl.ProduceSync(ctx, records...).FirstErr())
	topic, err := kafka.Describe(ctx, cl, args[0], false)
	ts.Check(err)
	pool, err := postgres.Open(ctx, running(ts).Postgres, 1)
	ts.Check(err)
	defer pool.Close()
	ts.Check(postgres.InTx(ctx, pool, postgres.Ingest, func(tx pgx.Tx) error {
		_, err := lane.Register(ctx, tx, lane.Input, args[0], topic.ID, topic.Ends)
		return err
	}))
}

// scenePrune removes what stands before an offset of partition 0 of a topic of the running dev: prune TOPIC OFFSET.
func scenePrune(ts *testscript.TestScript, _ bool, args []string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(running(ts).Kafka))
	ts.Check(err)
	defer cl.Close()
	before, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: args[0], At: before})
	resp, err := kadm.NewClient(cl).DeleteRecords(context.Background(), offsets)
	ts.Check(err)
	ts.Check(resp.Error())
}

// sceneConforms holds each line of a file against a schema of schemas: conforms SCHEMA FILE. A file without a line is wrong.
func sceneConforms(ts *testscript.TestScript, _ bool, args []string) {
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	c.AssertFormat()
	const home = "https://offerlog.dev/schemas/"
	files, err := fs.Glob(schemas.Events, "*.json")
	ts.Check(err)
	for _, name := range files {
		b, err := schemas.Events.ReadFile(name)
		ts.Check(err)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		ts.Check(err)
		ts.Check(c.AddResource(home+name, doc))
	}
	schema, err := c.Compile(home + args[0])
	ts.Check(err)
	text := strings.TrimSpace(ts.ReadFile(args[1]))
	if text == "" {
		ts.Fatalf("%s has no line", args[1])
	}
	for line := range strings.Lines(text) {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		ts.Check(err)
		if err := schema.Validate(doc); err != nil {
			ts.Fatalf("%s: %v", line, err)
		}
	}
}

// sceneExits runs a program that must end with an exit code: exits CODE PROGRAM ARGS...
func sceneExits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		failed, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = failed.ExitCode()
	}
	if got != want {
		ts.Fatalf("got exit code %d, want %d", got, want)
	}
}

// sceneAwait runs a program until it succeeds: await PROGRAM ARGS...
func sceneAwait(ts *testscript.TestScript, _ bool, args []string) {
	deadline := time.After(time.Minute)
	for ts.Exec(args[0], args[1:]...) != nil {
		select {
		case <-deadline:
			ts.Fatalf("%s does not succeed", strings.Join(args, " "))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// sceneReadme runs the code of a section of the README as a reader would, on the running dev: readme SECTION.
func sceneReadme(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile(ts.Getenv("README"))
	ts.Check(err)
	_, section, ok := strings.Cut(string(text), "\n## "+args[0]+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, code, found := strings.Cut(section, "\n```sh\n")
	code, _, closed := strings.Cut(code, "\n```\n")
	if !ok || !found || !closed {
		ts.Fatalf("the README has no section %s with code", args[0])
	}
	ts.Check(ts.Exec("sh", "-e", "-c", strings.ReplaceAll(code, defaultGatewayListen, running(ts).Gateway)))
}

// sceneGateway sets GATEWAY to the address of the running dev's.
func sceneGateway(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Setenv("GATEWAY", "http://"+running(ts).Gateway)
}
