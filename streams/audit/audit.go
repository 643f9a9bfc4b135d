// Package audit holds what is stored against the invariants of offerlog, from outside: what `offerlog audit` runs.
//
// It reads the views of schema audit_v1 in one snapshot of PostgreSQL, the topics, the archive, and changes nothing. Nothing
// here trusts the code that it audits: outcomes are held against the records of the log, observations against the payloads
// read again, topics against history, the view against a fold in Go. It shares with that code the definitions that must be
// one: how a record is decoded, how a payload is mapped, how identities are derived, which rank is higher.
//
// Read Run first. What only several moments can show (I6: nothing ever changes) is checked here as far as one moment can:
// identities and digests are derived again from the columns. An installation may be at work while it is audited: the bounds
// of the topics are noted before the snapshot and after it, so that what moves meanwhile is no violation. The outbox is not
// pruned meanwhile.
//
// Memory does not grow with the payloads, nor with the rows of a delivery: deliveries are read in chunks, history and offers as
// streams, and of each published event three hashes and a place stay.
package audit

import (
	"context"
	"embed"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/view"
)

// Archive is what an audit needs of the archive; *archive.Archive is one.
type Archive interface {
	Verify(ctx context.Context, tenant string, ref archive.Ref) ([]archive.Member, error)
	Open(ctx context.Context, tenant string, ref archive.Ref, offset int64, item int) (*archive.Content, error)
}

// Mapper is what an audit needs of the mapper; *mapping.Child is one.
type Mapper interface {
	Map(ctx context.Context, specs map[offer.Digest]mapping.Spec, reqs []mapping.Request) ([]mapping.Result, error)
	Spool(ctx context.Context, spec mapping.Spec, req mapping.Request, dir string) (mapping.Result, *mapping.Spool, error)
}

// Inputs are what is audited. Only Pool is needed: what takes one that is missing is reported as not checked.
type Inputs struct {
	Pool    *pgxpool.Pool // its login must be a member of postgres.Inspect
	Cluster kafka.Cluster // without brokers: no topics
	Archive Archive       // nil: no evidence
	Mapper  Mapper        // nil: no payload is read again
}

// Run checks the invariants I1 to I13 and I16 to I19. An error says that something could not be read; what does not hold is in the report.
func Run(ctx context.Context, in Inputs) (Report, error) {
	report, err := run(ctx, in)
	if err != nil {
		return Report{}, fmt.Errorf("audit: %w", err)
	}
	report.sort()
	return *report, nil
}

func run(ctx context.Context, in Inputs) (report *Report, err error) {
	report = newReport()
	var l *log
	if len(in.Cluster.Brokers) > 0 {
		if l, err = openLog(ctx, in.Cluster, report); err != nil {
			return nil, err
		}
		defer l.close()
	}
	err = postgres.Snapshot(ctx, in.Pool, postgres.Inspect, func(tx pgx.Tx) error {
		// TRUNCATE is not bound by snapshots: a slot of the outbox that is pruned after this one was taken would look empty. The
		// lock is had before the first statement that takes it, and makes pruning wait for another time.
		if _, err := tx.Exec(ctx, "LOCK TABLE audit_v1.outbox IN ACCESS SHARE MODE"); err != nil {
			return fmt.Errorf("lock the outbox against pruning: %w", err)
		}
		a := &auditor{in: in, Report: report, tx: tx, log: l}
		for _, step := range []func(context.Context) error{
			a.load,
			a.objects,    // I4
			a.tables,     // I2, I3, I7, I8, I16, and of I4, I5, I6, I12 and I13 what SQL can tell
			a.deliveries, // I1, I5
			a.published,  // I6, I9, I10, I13, I17
			a.cursors,    // I11
			a.offers,     // I12, I17, I18
			a.sums,       // I19
		} {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	return report, err
}

// An auditor is one run within its snapshot.
type auditor struct {
	*Report
	in          Inputs
	tx          pgx.Tx
	log         *log // nil: no topics
	lanes       []lane
	generation  int
	checkpoints []view.Checkpoint   // of the active generation, by partition
	decisions   []decision.Decision // by lane and number
	forces      map[int32]decision.InForce
	manifests   []*manifest
	readings    map[mappingVersion]reading
	claims      stretchOfClaims // that was read last
	unread      int64           // deliveries that cannot be read again
}

// A lane is one row of audit_v1.position.
type lane struct {
	ID        int
	Kind      string
	Topic     string
	TopicID   uuid.UUID
	Partition int32
	Start     int64
	Next      int64
	Sequence  int64
	Published int64 // the relay's copy of its cursor
}

const (
	input     = "input"
	projector = "projector"
)

//go:embed *.sql
var statements embed.FS

// statement returns the text of a file beside this one.
func statement(name string) string {
	b, err := statements.ReadFile(name + ".sql")
	if err != nil {
		panic(err) // a name in this package is wrong
	}
	return string(b)
}

// load reads where everything stands.
func (a *auditor) load(ctx context.Context) error {
	rows, err := a.tx.Query(ctx, statement("lanes"))
	if err != nil {
		return fmt.Errorf("read the lanes: %w", err)
	}
	if a.lanes, err = pgx.CollectRows(rows, pgx.RowToStructByName[lane]); err != nil {
		return fmt.Errorf("read the lanes: %w", err)
	}
	if rows, err = a.tx.Query(ctx, statement("checkpoints")); err != nil {
		return fmt.Errorf("read the checkpoints: %w", err)
	}
	a.checkpoints, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c view.Checkpoint, err error) {
		var (
			lanes   []int
			applied []int64
		)
		if err := row.Scan(&c.Generation, &c.Partition, &c.TopicID, &c.Lane, &c.Next, &lanes, &applied); err != nil {
			return c, err
		}
		c.Applied = make(view.Vector, len(lanes))
		for i, l := range lanes {
			c.Applied[l] = applied[i]
		}
		return c, nil
	})
	if err != nil {
		return fmt.Errorf("read the checkpoints: %w", err)
	}
	if rows, err = a.tx.Query(ctx, statement("eligibility")); err != nil {
		return fmt.Errorf("read the decisions: %w", err)
	}
	if a.decisions, err = pgx.CollectRows(rows, decision.Scan); err != nil {
		return fmt.Errorf("read the decisions: %w", err)
	}
	a.forces = map[int32]decision.InForce{}
	if len(a.checkpoints) > 0 {
		a.generation = a.checkpoints[0].Generation
	}
	if err := a.loadManifests(ctx); err != nil {
		return err
	}
	if a.log != nil {
		return a.log.bound(ctx, a.lanes, a.Report)
	}
	return nil
}

// A check is a statement that returns violations, one a row, with columns named like the fields of Violation.
type check struct{ invariant, name string }

var checks = []check{
	{"I2", "i2_items"}, {"I3", "i3_once"}, {"I3", "i3_receipts"}, {"I3", "i3_repeats"}, {"I4", "i4_archived"}, {"I4", "i4_pruned"}, {"I5", "i5_numbers"}, {"I5", "i5_implied"},
	{"I6", "i6_sightings"}, {"I6", "i6_pruned"}, {"I7", "i7_journal"}, {"I7", "i7_gaps"}, {"I8", "i8_history"}, {"I8", "i8_outbox"}, {"I12", "i12_unclaimed"}, {"I13", "i13_positions"},
	{"I16", "i16_returned"}, {"I18", "i18_generations"},
}

// tables runs what set-based SQL can tell.
func (a *auditor) tables(ctx context.Context) error {
	for _, c := range checks {
		rows, err := a.tx.Query(ctx, statement(c.name))
		if err != nil {
			return fmt.Errorf("check %s (%s): %w", c.invariant, c.name, err)
		}
		for rows.Next() {
			v, err := pgx.RowToStructByNameLax[Violation](rows)
			if err != nil {
				rows.Close()
				return fmt.Errorf("check %s (%s): %w", c.invariant, c.name, err)
			}
			v.Invariant = c.invariant
			a.found(v)
		}
		if err := rows.Err(); err != nil {
			return fmt.Errorf("check %s (%s): %w", c.invariant, c.name, err)
		}
	}
	var outcomes, receipts, repeats, archived, claims, lanes, intervals, waiting, changes int64
	if err := a.tx.QueryRow(ctx, statement("counts")).Scan(&outcomes, &receipts, &repeats, &archived, &claims, &lanes, &intervals, &waiting, &changes); err != nil {
		return fmt.Errorf("count what is stored: %w", err)
	}
	a.count("I2", outcomes, "outcomes")
	a.count("I3", receipts, "receipts")
	a.count("I3", repeats, "repeats")
	a.count("I4", archived, "archived payloads")
	a.count("I7", lanes, "lanes")
	a.count("I7", intervals, "intervals")
	a.count("I8", claims, "numbers of history")
	a.count("I8", waiting, "events in the outbox")
	a.count("I16", changes, "changes of offers")
	return nil
}
