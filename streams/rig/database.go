package rig

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/offerlog/offerlog/pkg/localserver"
	"github.com/offerlog/offerlog/pkg/postgres"
)

// The login of the tests: no superuser, so that grants and row-level security hold for it as for a real one.
const login, loginPassword = "offerlog_test", "offerlog_test"

// Database makes a database with the newest schema for the test and returns its DSN, for a login that is a member of
// postgres.Roles and nothing else. It is a copy of one that is migrated once for each test process, and goes with the
// test.
func Database(t testing.TB) (dsn string) {
	t.Helper()
	server := PostgresServer(t)
	template, err := migrated()
	if err != nil {
		t.Fatalf("rig: make the migrated database: %v", err)
	}
	name := fmt.Sprintf("%s_%d", template, copies.Add(1))
	if err := execute(t.Context(), server, "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		t.Fatalf("rig: copy the migrated database: %v", err)
	}
	t.Cleanup(func() {
		if err := drop(context.Background(), server, name); err != nil {
			t.Errorf("rig: drop database %s: %v", name, err)
		}
	})
	return onServer(server, url.UserPassword(login, loginPassword), name)
}

// DatabaseAsSuperuser is the DSN of a database that Database has made, for what no role of offerlog may do.
func DatabaseAsSuperuser(t testing.TB, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatalf("rig: read the DSN of a database: %v", err)
	}
	return onServer(PostgresServer(t), nil, strings.TrimPrefix(u.Path, "/"))
}

// Restored dumps a database that Database has made and restores it into another cluster, which has other transaction ids, other
// sequences and the same roles, and returns its DSN. Where the environment gives the server it is another database there.
func Restored(t testing.TB, dsn string) string {
	t.Helper()
	server := PostgresServer(t)
	if os.Getenv("OFFERLOG_TEST_POSTGRES") == "" {
		other, err := localserver.StartPostgres(t.Context(), Folder(t), 0, "fsync=off", maxWAL)
		if err != nil {
			t.Fatalf("rig: start another server: %v", err)
		}
		t.Cleanup(func() {
			if err := other.Stop(context.Background()); err != nil {
				t.Errorf("rig: stop the other server: %v", err)
			}
		})
		server = other.DSN()
		// Migrating any database makes the roles, which a dump does not hold.
		if _, err = postgres.Migrate(t.Context(), server); err == nil {
			err = makeLogin(t.Context(), server)
		}
		if err != nil {
			t.Fatalf("rig: make the roles: %v", err)
		}
	}
	name := fmt.Sprintf("offerlog_restored_%d_%d", os.Getpid(), copies.Add(1))
	if err := execute(t.Context(), server, "CREATE DATABASE "+name); err != nil {
		t.Fatalf("rig: make the database to restore into: %v", err)
	}
	t.Cleanup(func() {
		if err := drop(context.Background(), server, name); err != nil {
			t.Errorf("rig: drop database %s: %v", name, err)
		}
	})
	to, dump := onServer(server, nil, name), t.TempDir()+"/dump.sql"
	restore := []string{"--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--output=" + os.DevNull}
	for _, c := range []*exec.Cmd{
		exec.CommandContext(t.Context(), "pg_dump", "--file="+dump, DatabaseAsSuperuser(t, dsn)),
		exec.CommandContext(t.Context(), "psql", append(restore, "--file="+dump, to)...),
		exec.CommandContext(t.Context(), "psql", append(restore, to, "--command",
			"SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, 7777777) FROM pg_sequences")...),
	} {
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("rig: %s: %v: %s", c.Args[0], err, out)
		}
	}
	return onServer(server, url.UserPassword(login, loginPassword), name)
}

var copies atomic.Int64

// migrated makes the database that others are copied from, and returns its name.
var migrated = sync.OnceValues(func() (string, error) {
	server, err := postgresServer()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	name := "offerlog_test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	if err := execute(ctx, server, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	servers.push(func(ctx context.Context) error { return drop(ctx, server, name) })
	if _, err := postgres.Migrate(ctx, onServer(server, nil, name)); err != nil {
		return "", err
	}
	return name, makeLogin(ctx, server)
})

// makeLogin makes the login, which the whole server shares: another test process may be making it too.
func makeLogin(ctx context.Context, server string) error {
	err := execute(ctx, server, "CREATE ROLE "+login+" LOGIN PASSWORD '"+loginPassword+"' NOSUPERUSER NOBYPASSRLS")
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && (pg.Code == "42710" || pg.Code == "23505") {
		err = nil
	}
	for _, role := range postgres.Roles() {
		if err == nil {
			err = execute(ctx, server, "GRANT "+string(role)+" TO "+login)
		}
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "23505" {
			err = nil
		}
	}
	return err
}

func drop(ctx context.Context, server, database string) error {
	return execute(ctx, server, "DROP DATABASE IF EXISTS "+database+" WITH (FORCE)")
}

// execute runs one statement in a connection of its own.
func execute(ctx context.Context, dsn, statement string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, statement)
	return err
}

// onServer is the DSN of another database of the server, and of another user where one is given.
func onServer(server string, user *url.Userinfo, database string) string {
	u, err := url.Parse(server)
	if err != nil {
		panic("rig: OFFERLOG_TEST_POSTGRES is not of the form postgres://user:password@host:port/database")
	}
	u.Path = "/" + database
	if user != nil {
		u.User = user
	}
	return u.String()
}
