package localserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Postgres is a running private PostgreSQL server.
type Postgres struct {
	child    *Child
	port     int
	password string
	version  string
}

// maxSocketPath is how long the path of a unix socket may be (sun_path, without its final zero).
const maxSocketPath = 107

// StartPostgres starts a PostgreSQL server on 127.0.0.1:port (0: any free port) and returns when it answers queries.
// ctx bounds the start only.
//
// Its data lives in dir/pg<major>, a folder for each major version, made by the first start, with a random password for
// the superuser in it; its log is dir/pg<major>.log, of the latest start. A dir serves one server at a time: where the
// server of a killed parent is still shutting down, StartPostgres waits for it.
//
// The programs are those of a local installation of version 15 or later, else a pinned version that is downloaded once
// into dir. PostgreSQL refuses to run as root: as root it runs as the user postgres, or nobody, who must be able to
// enter dir.
//
// The server is durable (fsync, synchronous_commit and full_page_writes are on). Each of settings, written name=value,
// overrides one server setting.
func StartPostgres(ctx context.Context, dir string, port int, settings ...string) (*Postgres, error) {
	p, err := startPostgres(ctx, dir, port, settings)
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL in %s: %w", dir, err)
	}
	return p, nil
}

func startPostgres(ctx context.Context, dir string, port int, settings []string) (*Postgres, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	programs, err := findPrograms(ctx, dir, as)
	if err != nil {
		return nil, err
	}
	if err := as.enter(ctx, programs, dir); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "pg"+strconv.Itoa(programs.major))
	if err := initialize(ctx, as, programs, data); err != nil {
		return nil, err
	}
	password, err := os.ReadFile(filepath.Join(data, passwordFile))
	if err != nil {
		return nil, err
	}
	for {
		p := &Postgres{port: port, password: string(password)}
		err := p.run(ctx, as, programs, data, settings)
		if err == nil {
			return p, nil
		}
		pid, held := holder(data)
		if !held {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: process %d is using %s: stop it first", ctx.Err(), pid, data)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// holder is the living process that the data folder belongs to: where a server of ours could not start, that of a killed
// parent, which is still writing its last checkpoint. A pid file that nobody is behind is PostgreSQL's to handle.
func holder(data string) (pid int, held bool) {
	content, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0, false
	}
	line, _, _ := strings.Cut(string(content), "\n")
	pid, err = strconv.Atoi(line)
	if err != nil || pid <= 0 {
		return 0, false
	}
	return pid, !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// passwordFile is the superuser's password, kept in the data folder so that both appear and go together.
const passwordFile = "offerlog.password"

// initialize makes the data folder unless there is one. It works beside it and renames, so that a start that was killed
// half-way leaves nothing that looks like data.
func initialize(ctx context.Context, as account, programs programs, data string) error {
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	fresh := data + ".new"
	secret := fresh + ".password"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return err
	}
	if err := writeSynced(secret, rand.Text()); err != nil {
		return err
	}
	if err := as.own(fresh, secret); err != nil {
		return err
	}
	cmd := as.command(ctx, programs.path("initdb"), "--pgdata="+fresh, "--username=postgres", "--pwfile="+secret,
		"--auth=scram-sha-256", "--encoding=UTF8", "--no-locale")
	cmd.Dir = fresh
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, lastLines(out))
	}
	if err := os.Rename(secret, filepath.Join(fresh, passwordFile)); err != nil {
		return err
	}
	return os.Rename(fresh, data)
}

func writeSynced(name, content string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// run starts the server and waits until it answers.
func (p *Postgres) run(ctx context.Context, as account, programs programs, data string, settings []string) error {
	if p.port == 0 {
		free, err := freePort()
		if err != nil {
			return err
		}
		p.port = free
	}
	log, err := os.Create(data + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := as.command(context.WithoutCancel(ctx), programs.path("postgres"), arguments(data, p.port, settings)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = data, log, log
	// SIGINT is PostgreSQL's fast shutdown: clients are disconnected, and a checkpoint makes the next start quick.
	p.child, err = StartChild(cmd, syscall.SIGINT)
	if err != nil {
		return err
	}
	if err := p.ready(ctx); err != nil {
		_ = p.Stop(ctx)
		out, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%w: %s", err, lastLines(out))
	}
	return nil
}

func arguments(data string, port int, settings []string) []string {
	sockets := data
	if len(filepath.Join(data, ".s.PGSQL."+strconv.Itoa(port))) > maxSocketPath {
		sockets = "" // TCP alone will do
	}
	args := []string{"-D", data, "-p", strconv.Itoa(port)}
	for _, setting := range append([]string{
		"listen_addresses=127.0.0.1",
		"unix_socket_directories=" + sockets,
		"fsync=on",
		"synchronous_commit=on",
		"full_page_writes=on",
		"max_connections=100",
		"shared_buffers=256MB",
		"max_wal_size=4GB",
		"jit=off",
	}, settings...) {
		args = append(args, "-c", setting)
	}
	return args
}

// ready waits until the server accepts a connection with its password, so no other server on that port passes for it.
func (p *Postgres) ready(ctx context.Context) error {
	for {
		conn, err := pgx.Connect(ctx, p.DSN())
		if err == nil {
			p.version = conn.PgConn().ParameterStatus("server_version")
			return conn.Close(ctx)
		}
		select {
		case <-p.child.Done():
			return errors.New("the server ended while starting")
		case <-ctx.Done():
			return fmt.Errorf("%w; the last attempt to connect: %w", ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// DSN is the address of the database postgres with the superuser's name and password.
func (p *Postgres) DSN() string {
	return fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d/postgres?sslmode=disable", p.password, p.port)
}

// Port is the TCP port on 127.0.0.1.
func (p *Postgres) Port() int { return p.port }

// Version is the server's version as it states it, such as "15.13 (Debian 15.13-0+deb12u1)".
func (p *Postgres) Version() string { return p.version }

// Stop disconnects the clients and ends the server with a checkpoint. When ctx ends first, the server is ended at once
// and recovers from its log at the next start.
func (p *Postgres) Stop(ctx context.Context) error {
	return p.child.Stop(ctx, syscall.SIGINT, syscall.SIGQUIT)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// lastLines is the end of a program's output, where it says why it failed.
func lastLines(out []byte) string {
	lines := strings.Split(string(bytes.TrimSpace(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}
