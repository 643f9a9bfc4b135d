package streams_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/shadow"
	"github.com/offerlog/offerlog/streams/rig"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

func TestMain(m *testing.M) { pipeline.Main(m) }

// Every statement is planned on the migrated schema under a role that may run it, so a misspelt column, a missing grant or a
// table that a role should not need shows here and not at three in the morning.
func TestEveryStatementPlansUnderOneOfItsRoles(t *testing.T) {
	ctx := t.Context()
	pool, err := postgres.Open(ctx, rig.Database(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, path := range sqlFiles(t) {
		t.Run(strings.TrimPrefix(path, "../"), func(t *testing.T) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var refused []string
			for _, role := range postgres.Roles() {
				err := postgres.InTx(ctx, pool, role, func(tx pgx.Tx) error {
					if filepath.Base(filepath.Dir(path)) == "shadow" { // its tables are the transaction's own
						if _, err := shadow.Begin(ctx, tx); err != nil || filepath.Base(path) == "begin.sql" {
							return err
						}
					}
					return plan(ctx, tx, string(b))
				})
				if err == nil {
					return
				}
				refused = append(refused, fmt.Sprintf("%s: %v", role, err))
			}
			t.Errorf("no role can plan it:\n%s", strings.Join(refused, "\n"))
		})
	}
}

func plan(ctx context.Context, tx pgx.Tx, statement string) error {
	statement = strings.TrimSuffix(strings.TrimSpace(statement), ";")
	d, err := tx.Prepare(ctx, "", statement)
	if err != nil {
		return err
	}
	if !strings.Contains(statement, "SELECT") && !strings.Contains(statement, "INSERT") && !strings.Contains(statement, "UPDATE") {
		return nil // LOCK, TRUNCATE: nothing to plan
	}
	// A prepared statement outlives its transaction: the last role's may still be there.
	if _, err := tx.Exec(ctx, "DEALLOCATE ALL; PREPARE s AS "+statement); err != nil {
		return err
	}
	args := ""
	if n := len(d.ParamOIDs); n > 0 {
		args = "(" + strings.TrimSuffix(strings.Repeat("NULL, ", n), ", ") + ")"
	}
	_, err = tx.Exec(ctx, "EXPLAIN EXECUTE s"+args)
	return err
}
