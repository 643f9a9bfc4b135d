package localserver

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestMain is also the main function of the helper processes: with an argument from helpers it is that helper.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if help, ok := helpers[os.Args[1]]; ok {
			if err := help(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// helpers start a server, print how to reach it, and stay until they are killed.
var helpers = map[string]func(args []string) error{
	"hold-postgres": func(args []string) error {
		p, err := StartPostgres(context.Background(), args[0], 0)
		if err != nil {
			return err
		}
		fmt.Println(p.DSN())
		select {}
	},
	"hold-kafka": func(args []string) error {
		k, err := StartKafka(args[0], 0)
		if err != nil {
			return err
		}
		fmt.Println(k.Addr())
		select {}
	},
}

// hold runs a helper and returns the process and the address that it printed.
func hold(t *testing.T, as account, helper, dir string) (*os.Process, string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if as.credential != nil {
		program = "/proc/self/exe" // the folder of the test's binary may be closed to the account, this link is not
	}
	cmd := as.command(t.Context(), program, helper, dir)
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%s in %s printed no address: %v", helper, dir, err)
	}
	return cmd.Process, strings.TrimSpace(line)
}

// openDir is a temporary folder that every user can enter; t.TempDir is closed to all but its owner.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "localserver")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func start(t *testing.T, dir string, settings ...string) *Postgres {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := StartPostgres(ctx, dir, 0, settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, p) })
	return p
}

func stop(t *testing.T, p *Postgres) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// query runs one statement on a connection of its own and returns its single value as text.
func query(t *testing.T, dsn, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var got string
	if err := conn.QueryRow(t.Context(), sql).Scan(&got); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return got
}

func execute(t *testing.T, dsn, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestAPostgresThatIsStartedAgainHasItsData(t *testing.T) {
	dir := openDir(t)
	p := start(t, dir)
	execute(t, p.DSN(), `CREATE TABLE kept AS SELECT 'first run' AS line`)
	stop(t, p)
	p = start(t, dir)
	if got, want := query(t, p.DSN(), `SELECT line FROM kept`), "first run"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := query(t, p.DSN(), `SHOW server_version`); got != p.Version() {
		t.Errorf("Version: got %q, want %q", p.Version(), got)
	}
}

func TestPostgresSettings(t *testing.T) {
	p := start(t, openDir(t), "fsync=off", "max_connections=17")
	for setting, want := range map[string]string{
		"synchronous_commit": "on",
		"full_page_writes":   "on",
		"listen_addresses":   "127.0.0.1",
		"jit":                "off",
		"port":               strconv.Itoa(p.Port()),
		"fsync":              "off", // given by the caller
		"max_connections":    "17",  // given by the caller
	} {
		if got := query(t, p.DSN(), "SHOW "+setting); got != want {
			t.Errorf("%s: got %q, want %q", setting, got, want)
		}
	}
}

func TestPostgresAsksForItsPassword(t *testing.T) {
	p := start(t, openDir(t))
	dsn := fmt.Sprintf("postgres://postgres:guess@127.0.0.1:%d/postgres?sslmode=disable", p.Port())
	conn, err := pgx.Connect(t.Context(), dsn)
	if err == nil {
		_ = conn.Close(context.Background())
		t.Fatal("a wrong password was accepted")
	}
}

func TestPostgresStartErrors(t *testing.T) {
	t.Run("a folder that is in use names the process", func(t *testing.T) {
		dir := openDir(t)
		start(t, dir)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := StartPostgres(ctx, dir, 0)
		wantError(t, err, "is using "+dir)
	})
	t.Run("a port that is taken is named", func(t *testing.T) {
		port := start(t, openDir(t)).Port()
		_, err := StartPostgres(t.Context(), openDir(t), port)
		wantError(t, err, "Address already in use")
	})
	t.Run("an unknown setting is named", func(t *testing.T) {
		_, err := StartPostgres(t.Context(), openDir(t), 0, "no_such_setting=1")
		wantError(t, err, "no_such_setting")
	})
}

// As root the server runs as another user: the error names the folder that keeps this user out.
func TestEnterNamesTheClosedFolder(t *testing.T) {
	as, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	root := openDir(t)
	closed := filepath.Join(root, "closed")
	dir := filepath.Join(closed, "data")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := findPrograms(t.Context(), root, as)
	if err != nil {
		t.Fatal(err)
	}
	if err := as.enter(t.Context(), p, root); err != nil {
		t.Errorf("an open folder: %v", err)
	}
	err = as.enter(t.Context(), p, dir)
	if os.Geteuid() != 0 {
		if err != nil {
			t.Errorf("a folder of this user: %v", err)
		}
		return
	}
	wantError(t, err, "cannot enter "+closed+":")
}

// The download takes minutes on a slow line and needs one, so it is tried only where it is asked for.
func TestPostgresRunsWithoutAnInstallation(t *testing.T) {
	if os.Getenv("OFFERLOG_TEST_DOWNLOAD") == "" {
		t.Skip("download: OFFERLOG_TEST_DOWNLOAD is not set")
	}
	as, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	dir := openDir(t)
	root := filepath.Join(dir, "postgresql")
	if err := unpack(root, as); err != nil {
		t.Fatal(err)
	}
	downloaded, err := inspect(t.Context(), filepath.Join(root, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	if err := initialize(t.Context(), as, downloaded, data); err != nil {
		t.Fatal(err)
	}
	password, err := os.ReadFile(filepath.Join(data, passwordFile))
	if err != nil {
		t.Fatal(err)
	}
	p := &Postgres{password: string(password)}
	if err := p.run(t.Context(), as, downloaded, data, nil); err != nil {
		t.Fatal(err)
	}
	defer stop(t, p)
	if want, _, _ := strings.Cut(string(pinned), "."); !strings.HasPrefix(p.Version(), want+".") {
		t.Errorf("got version %s, want %s", p.Version(), want)
	}
}

// A child that is asked to end and does not is ended.
func TestChildStopForces(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `trap "" INT; echo deaf; exec sleep 60`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c, err := StartChild(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	wantError(t, c.Stop(ctx, syscall.SIGINT, syscall.SIGKILL), "ended by killed")
}

func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("got error %v, want one that has %q", err, part)
	}
}
