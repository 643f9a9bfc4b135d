package postgres_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

func open(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), dsn, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func execute(t *testing.T, pool *pgxpool.Pool, statement string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestMigrateTwiceAtOnceIsOnce(t *testing.T) {
	super := open(t, rig.DatabaseAsSuperuser(t, rig.Database(t)))
	execute(t, super, "CREATE DATABASE twice")
	t.Cleanup(func() { _, _ = super.Exec(context.Background(), "DROP DATABASE twice WITH (FORCE)") })
	dsn := strings.Replace(super.Config().ConnString(), "/"+super.Config().ConnConfig.Database, "/twice", 1)
	var (
		wg    sync.WaitGroup
		errs  [2]error
		count [2]int
	)
	for i := range errs {
		wg.Go(func() {
			applied, err := postgres.Migrate(t.Context(), dsn)
			errs[i], count[i] = err, len(applied)
		})
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	steps, _, err := postgres.Migrations(t.Context(), open(t, dsn))
	if err != nil {
		t.Fatal(err)
	}
	if count[0]+count[1] != len(steps) || slices.ContainsFunc(steps, func(m postgres.Migration) bool { return !m.Applied }) {
		t.Errorf("applied %d and %d of %d steps: %v", count[0], count[1], len(steps), steps)
	}
}

func TestAnOlderAndANewerSchemaAreRefused(t *testing.T) {
	dsn := rig.Database(t)
	pool, super := open(t, dsn), open(t, rig.DatabaseAsSuperuser(t, dsn))
	if err := postgres.CheckSchema(t.Context(), pool); err != nil {
		t.Fatalf("the newest schema is refused: %v", err)
	}
	for _, c := range []struct{ name, statement, want string }{
		{"newer", "INSERT INTO schema_version (version_id, is_applied) VALUES (9999, true)", "use the newer offerlog"},
		{"older", "DELETE FROM schema_version WHERE version_id IN (4, 9999)", "run offerlog migrate up"},
	} {
		execute(t, super, c.statement)
		if err := postgres.CheckSchema(t.Context(), pool); !errors.Is(err, postgres.ErrSchema) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("a schema that is %s: got %v, want ErrSchema with %q", c.name, err, c.want)
		}
	}
}

func TestInTxRunsAgainAfterALostRaceAndRollsBackOtherErrors(t *testing.T) {
	pool := open(t, rig.Database(t))
	tries := 0
	err := postgres.InTx(t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) error {
		tries++
		if tries < 3 {
			return postgres.ErrLostRace
		}
		var role string
		if err := tx.QueryRow(t.Context(), "SELECT current_user").Scan(&role); err != nil {
			return err
		}
		if role != string(postgres.Ingest) {
			t.Errorf("the transaction runs as %s", role)
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("got %v after %d tries, want success at the third", err, tries)
	}
	boom := errors.New("boom")
	err = postgres.InTx(t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "UPDATE registry SET version = version + 1"); err != nil {
			return err
		}
		return boom
	})
	var version int64
	if err := pool.QueryRow(t.Context(), "SELECT version FROM registry").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, boom) || version != 1 {
		t.Errorf("got %v and version %d, want the error and nothing changed", err, version)
	}
}

func TestAnErrorOfTheServerAtCommitIsNoUnknownCommit(t *testing.T) {
	dsn := rig.Database(t)
	super := open(t, rig.DatabaseAsSuperuser(t, dsn))
	execute(t, super, "CREATE TABLE deferred (n int PRIMARY KEY, UNIQUE (n) DEFERRABLE INITIALLY DEFERRED)")
	execute(t, super, "ALTER TABLE deferred DROP CONSTRAINT deferred_pkey; GRANT INSERT ON deferred TO offerlog_ingest")
	err := postgres.InTx(t.Context(), open(t, dsn), postgres.Ingest, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "INSERT INTO deferred VALUES (1), (1)")
		return err
	})
	var unknown *postgres.UnknownCommitError
	var pg *pgconn.PgError
	if errors.As(err, &unknown) || !errors.As(err, &pg) || pg.Code != "23505" {
		t.Errorf("got %v, want the constraint's own error", err)
	}
}

func TestAConnectionLostInCommitIsAnUnknownCommit(t *testing.T) {
	dsn := rig.Database(t)
	super, pool := open(t, rig.DatabaseAsSuperuser(t, dsn)), open(t, dsn)
	err := postgres.InTx(t.Context(), pool, postgres.Ingest, func(tx pgx.Tx) error {
		execute(t, super, "SELECT pg_terminate_backend($1)", int(tx.Conn().PgConn().PID()))
		return nil
	})
	var unknown *postgres.UnknownCommitError
	if !errors.As(err, &unknown) || !postgres.OutOfReach(err) {
		t.Errorf("got %v, want an UnknownCommitError that counts as out of reach", err)
	}
}

func TestATransactionHasLimitsAndCompilesNothing(t *testing.T) {
	dsn := rig.Database(t)
	super := open(t, rig.DatabaseAsSuperuser(t, dsn))
	execute(t, super, "ALTER DATABASE "+super.Config().ConnConfig.Database+" SET jit = on")
	pool := open(t, dsn)
	limits := func(want string) func(tx pgx.Tx) error {
		return func(tx pgx.Tx) error {
			var got string
			err := tx.QueryRow(t.Context(), "SELECT concat_ws(' ', current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout'), current_setting('jit'))").Scan(&got)
			if got != want {
				t.Errorf("got limits %s, want %s", got, want)
			}
			return err
		}
	}
	if err := errors.Join(
		postgres.InTx(t.Context(), pool, postgres.Ingest, limits("1min 30s off")),
		postgres.AsTenant(t.Context(), pool, postgres.Read, "t1", limits("1min 30s off")),
		postgres.Snapshot(t.Context(), pool, postgres.Inspect, limits("30min 30min off"))); err != nil {
		t.Error(err)
	}
}

// A process that stands still loses its transaction, and finds that out as something that passes.
func TestWhoStandsStillInATransactionLosesItWithItsLocks(t *testing.T) {
	dsn := rig.Database(t)
	sleeper, other := open(t, dsn), open(t, rig.DatabaseAsSuperuser(t, dsn))
	for name, wakesIn := range map[string]func(tx pgx.Tx) error{
		"a statement": func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "SELECT 1")
			return err
		},
		"the commit": func(pgx.Tx) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			err := postgres.InTx(t.Context(), sleeper, postgres.Ingest, func(tx pgx.Tx) error {
				if _, err := tx.Exec(t.Context(), "UPDATE registry SET version = version + 1"); err != nil {
					return err
				}
				if _, err := tx.Exec(t.Context(), "SET LOCAL idle_in_transaction_session_timeout = '1ms'"); err != nil {
					return err
				}
				execute(t, other, "UPDATE registry SET version = version") // gets the lock when the sleeper has lost it
				return wakesIn(tx)
			})
			if err == nil || !postgres.OutOfReach(err) {
				t.Errorf("got %v, want an error that counts as out of reach", err)
			}
		})
	}
}

func TestEveryTenantTableIsForcedAndNobodyLogsInAsAnOwner(t *testing.T) {
	super := open(t, rig.DatabaseAsSuperuser(t, rig.Database(t)))
	rows, err := super.Query(t.Context(), `
		SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity, pg_get_userbyid(c.relowner), r.rolcanlogin OR r.rolsuper OR r.rolbypassrls
		  FROM pg_class AS c
		  JOIN pg_roles AS r ON r.oid = c.relowner
		 WHERE c.relkind IN ('r', 'p')
		   AND c.relnamespace = 'public'::regnamespace
		   AND EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'tenant')`)
	if err != nil {
		t.Fatal(err)
	}
	var (
		table, owner string
		forced, bad  bool
		n            int
	)
	if _, err := pgx.ForEachRow(rows, []any{&table, &forced, &owner, &bad}, func() error {
		n++
		if !forced || bad || owner != "offerlog_owner" {
			t.Errorf("%s: forced row-level security %v, owner %s (logs in or is above policies: %v)", table, forced, owner, bad)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n < 12 {
		t.Errorf("found %d tables with a tenant", n)
	}
}

var update = flag.Bool("update", false, "write schemas/postgres/schema.sql")

// schema.sql is what a reader looks at instead of adding up migrations. It is a dump, and this test keeps it true.
func TestSchemaDumpIsTrue(t *testing.T) {
	dump, err := exec.LookPath("pg_dump")
	if err != nil {
		t.Skip("no pg_dump: it comes with a PostgreSQL installation")
	}
	dsn := rig.DatabaseAsSuperuser(t, rig.Database(t))
	out, err := exec.CommandContext(t.Context(), dump, "--schema-only", "--exclude-table=public.schema_version*", "--exclude-table=public.goose_lock", "--dbname="+dsn).Output()
	if err != nil {
		t.Fatalf("pg_dump: %v", err)
	}
	// What differs from one version of pg_dump to the next says nothing about the schema.
	noise := regexp.MustCompile(`(?m)^(--.*|SET .*|SELECT pg_catalog\.set_config.*|\\(un)?restrict .*|.*transaction_timeout.*)\n`)
	have := regexp.MustCompile(`\n{2,}`).ReplaceAllString(noise.ReplaceAllString(string(out), ""), "\n\n")
	have = "-- The schema that the migrations lead to. Written by: go test ./pkg/postgres -run SchemaDump -update\n" + strings.TrimSpace(have) + "\n"
	const path = "../../schemas/postgres/schema.sql"
	if *update {
		if err := os.WriteFile(path, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if have != string(want) {
		t.Error("schemas/postgres/schema.sql is not what the migrations make: run go test ./pkg/postgres -run SchemaDump -update")
	}
}

// Of the kinds of record each role of the database sees those that it is for: a reader offers and their freshness, an auditor evidence
// and the run log too, and who inspects all tenants no table at all.
func TestS_000_11_each_role_of_the_database_reads_its_kinds_of_record(t *testing.T) {
	pool := open(t, rig.Database(t))
	kinds := map[string][]string{
		"offers":    {"observation", "sighting", "current_offer", "publication", "decision"},
		"artifacts": {"artifact", "tenant_key"},
		"runs":      {"run", "run_page", "run_event", "quarantine", "quarantine_decision", "pruning"},
		"tokens":    {"token"},
	}
	may := map[postgres.Role][]string{postgres.Read: {"offers"}, postgres.Audit: {"offers", "artifacts", "runs"}, postgres.Inspect: nil}
	for role, allowed := range may {
		for kind, tables := range kinds {
			for _, table := range tables {
				for verb, statement := range map[string]string{"read": "SELECT * FROM " + table, "add to": "INSERT INTO " + table + " DEFAULT VALUES",
					"change": "UPDATE " + table + " SET tenant = tenant", "remove from": "DELETE FROM " + table} {
					err := postgres.InTx(t.Context(), pool, role, func(tx pgx.Tx) error {
						_, err := tx.Exec(t.Context(), statement)
						return err
					})
					want := verb == "read" && slices.Contains(allowed, kind)
					if pg, denied := errors.AsType[*pgconn.PgError](err); want != (err == nil) || !want && (!denied || pg.Code != "42501") {
						t.Errorf("%s, %s %s: got %v, want it allowed: %t", role, verb, table, err, want)
					}
				}
			}
		}
	}
}
