package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/localserver"
	"github.com/offerlog/offerlog/pkg/postgres"
)

// freshServer starts a PostgreSQL that no offerlog has seen, and returns the superuser's DSN: roles belong to a whole server,
// so on that of the other tests they are there already.
func freshServer(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "offerlog-fresh-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL may run as another user
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := localserver.StartPostgres(ctx, dir, 0, "fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return server.DSN()
}

// offerlogOn runs a command line with a database of its own.
func offerlogOn(t *testing.T, dsn string, args ...string) (exit int, out string) {
	t.Helper()
	var b bytes.Buffer
	a := app{stdout: &b, stderr: &b, environ: []string{"OFFERLOG_POSTGRES=" + dsn}}
	return a.execute(t.Context(), args), b.String()
}

// Two logins, none of them a superuser: one owns the database and may create roles, the programs run under the other.
func TestTheOwnerOfADatabaseWhoMayCreateRolesMigratesItAndLetsALoginIn(t *testing.T) {
	server := freshServer(t)
	statement := func(dsn, s string) {
		t.Helper()
		err := execute(t.Context(), dsn, func(conn *pgx.Conn) error {
			_, err := conn.Exec(t.Context(), s)
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	as := func(login string) string {
		u, err := url.Parse(server)
		if err != nil {
			t.Fatal(err)
		}
		u.User, u.Path = url.UserPassword(login, "secret"), "/prices"
		return u.String()
	}
	statement(server, "CREATE ROLE migrator LOGIN PASSWORD 'secret' CREATEROLE")
	statement(server, "CREATE ROLE app LOGIN PASSWORD 'secret'")
	statement(server, "CREATE DATABASE prices OWNER migrator")

	if exit, out := offerlogOn(t, as("app"), "migrate", "up"); exit != exitNotAllowed || !strings.Contains(out, "hint: use a login that owns the database and has CREATEROLE") {
		t.Errorf("a login that may nothing: got exit code %d and %q", exit, out)
	}
	if exit, out := offerlogOn(t, as("migrator"), "migrate", "up", "--grant-to", "nobody"); exit != exitNotFound || !strings.Contains(out, `hint: make it as an administrator of the server: CREATE ROLE "nobody" LOGIN`) {
		t.Errorf("a login that is not there: got exit code %d and %q", exit, out)
	}
	for range 2 { // the second time there is nothing to do
		if exit, out := offerlogOn(t, as("migrator"), "migrate", "up", "--grant-to", "app"); exit != 0 {
			t.Fatalf("got exit code %d: %s", exit, out)
		}
	}
	pool, err := postgres.Open(t.Context(), as("app"), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := postgres.CheckSchema(t.Context(), pool); err != nil {
		t.Error(err)
	}
	var d diagnosis
	checkLogin(t.Context(), &d, pool)
	if got, want := fmt.Sprint(d.findings), "[{login pass app is bound by row-level security } {roles pass app may take every role of offerlog }]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
