package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/outbox"
	"github.com/offerlog/offerlog/pkg/postgres"
	runs "github.com/offerlog/offerlog/pkg/run"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig"
)

// outboxGets stores rows in the outbox of the first lane, as ingest would: with the numbers of the lane and in one
// transaction with its position.
func (s *scene) outboxGets(st *step) {
	rows, _ := st.args["rows"].([]any)
	ctx := s.t.Context()
	s.register(ctx)
	if err := postgres.InTx(ctx, s.p.Pool, postgres.Ingest, func(tx pgx.Tx) error { return s.insert(ctx, tx, 0, rows) }); err != nil {
		s.t.Fatal(err)
	}
}

// register makes the lanes of the default topic, once: it would wait for transactions that hold one.
func (s *scene) register(ctx context.Context) {
	if s.registered {
		return
	}
	s.registered = true
	t, err := kafka.Describe(ctx, s.p.Client, s.p.Cluster.Topic(streams.Deliveries), false)
	if err == nil {
		err = postgres.InTx(ctx, s.p.Pool, postgres.Ingest, func(tx pgx.Tx) error {
			_, err := lane.Register(ctx, tx, lane.Input, streams.Deliveries, t.ID, t.Starts)
			return err
		})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) insert(ctx context.Context, tx pgx.Tx, partition int32, rows []any) error {
	lanes, err := lane.List(ctx, tx, lane.Input, streams.Deliveries)
	if err != nil {
		return err
	}
	l := lanes[partition]
	held, err := lane.Lock(ctx, tx, []lane.Span{{Lane: l.ID, From: l.Next, To: l.Next + int64(len(rows))}})
	if err != nil {
		return err
	}
	h := &held[0]
	var events []outbox.Event
	for _, row := range rows {
		body, err := json.Marshal(row)
		if err != nil {
			return err
		}
		h.Sequence++
		events = append(events, outbox.Event{Lane: l.ID, Seq: h.Sequence, Topic: streams.Observations, Key: "t1/ACC-1/A-1",
			ID: offer.Derive("case", string(body)), Type: streams.ObservationRecorded, Body: body, RecordedAt: h.RecordedAt})
	}
	if err := outbox.Append(ctx, tx, nil, events); err != nil {
		return err
	}
	return lane.Advance(ctx, tx, held, "case")
}

// txInserts stores a row in the outbox of a partition in a transaction that stays open.
func (s *scene) txInserts(st *step) {
	ctx := s.t.Context()
	partition := int32(st.int("partition")) //nolint:gosec // a partition
	s.register(ctx)
	tx, err := s.p.Pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: "BEGIN; SET LOCAL ROLE " + string(postgres.Ingest)})
	if err == nil {
		s.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		err = s.insert(ctx, tx, partition, []any{st.text("outbox")})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.txs[st.actor] = tx
}

func (s *scene) txCommits(st *step) {
	if err := s.txs[st.actor].Commit(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// batches counts the transactions that stored the partition from one record to another.
func (s *scene) batches(first, last *kgo.Record) (n int) {
	err := postgres.InTx(s.t.Context(), s.p.Pool, postgres.Inspect, func(tx pgx.Tx) error {
		return tx.QueryRow(s.t.Context(), `
			SELECT count(*)
			  FROM audit_v1.commit_journal AS j
			  JOIN audit_v1.position AS p ON p.lane = j.lane
			 WHERE (p.kind, p.topic, p.partition) = ('input', $1, $2)
			   AND j.to_offset > $3
			   AND j.from_offset <= $4`, s.p.Cluster.Name(first.Topic), first.Partition, first.Offset, last.Offset).Scan(&n)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// tenantTables are the tables and views with rows of tenants, and who owns each.
const tenantTables = `
	SELECT c.oid::regclass::text, pg_get_userbyid(c.relowner)
	  FROM pg_class AS c
	  JOIN pg_attribute AS a ON a.attrelid = c.oid
	 WHERE c.relnamespace = 'public'::regnamespace
	   AND c.relkind IN ('r', 'p', 'v', 'm')
	   AND a.attname = 'tenant'
	   AND NOT a.attisdropped
	 ORDER BY 1`

// A tableTrial is what a role could do in a table.
type tableTrial struct {
	table string
	rows  int
	err   error
}

// tryTables does a statement in every table of tenants, each in a transaction of its own under the step's role.
func (s *scene) tryTables(st *step, statement func(table string) string) (trials []tableTrial) {
	ctx := s.t.Context()
	if tenant := st.args["tenant"]; tenant != nil {
		s.t.Fatalf("step %d: only readers without a tenant are known, not %v", st.n, tenant)
	}
	conn, err := pgx.Connect(ctx, rig.DatabaseAsSuperuser(s.t, s.p.DSN))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, tenantTables)
	if err != nil {
		s.t.Fatal(err)
	}
	var table, owner string
	owners := map[string]string{}
	if _, err := pgx.ForEachRow(rows, []any{&table, &owner}, func() error { owners[table] = owner; return nil }); err != nil {
		s.t.Fatal(err)
	}
	for table, owner := range owners {
		var role string
		switch name := st.text("role"); name {
		case "read":
			role = string(postgres.Read)
		case "table owner":
			role = owner
		default:
			s.t.Fatalf("step %d: no role is called %q", st.n, name)
		}
		trial := tableTrial{table: table}
		trial.err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL ROLE "+pgx.Identifier{role}.Sanitize()); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, statement(table))
			trial.rows = int(tag.RowsAffected())
			return err
		})
		trials = append(trials, trial)
	}
	return trials
}

// readerSelects counts the rows that a role sees. A table that it may not even read shows none.
func (s *scene) readerSelects(st *step) {
	n := 0
	for _, trial := range s.tryTables(st, func(table string) string { return "SELECT FROM " + table }) {
		if trial.err != nil && !denied(trial.err) {
			s.t.Fatalf("step %d: %s: %v", st.n, trial.table, trial.err)
		}
		n += trial.rows
	}
	s.final.step[fmt.Sprintf("step_%d_rows", st.n)] = n
}

// readerReadsRun reads how a run stands.
func (s *scene) readerReadsRun(st *step) {
	err := postgres.AsTenant(s.t.Context(), s.p.Pool, postgres.Audit, usualTenant, func(tx pgx.Tx) error {
		found, err := runs.List(s.t.Context(), tx, runs.Filter{Name: st.text("run"), Limit: 2}, time.Now())
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("got %d runs, want one", len(found))
		}
		if err == nil {
			s.final.step["state"], s.final.step["pages_seen"], s.final.step["pages"] = found[0].State, found[0].PagesSeen, found[0].Pages
		}
		return err
	})
	if err != nil {
		s.t.Fatalf("step %d: %v", st.n, err)
	}
}

// readerInserts tries to insert into every table.
func (s *scene) readerInserts(st *step) {
	answer := "refused"
	for _, trial := range s.tryTables(st, func(table string) string { return "INSERT INTO " + table + " (tenant) VALUES ('t1')" }) {
		if !denied(trial.err) && !takesNothing(trial.err) {
			answer = fmt.Sprintf("%s answered %v", trial.table, trial.err)
		}
	}
	s.final.step[fmt.Sprintf("step_%d", st.n)] = answer
}

// takesNothing reports that PostgreSQL refused since nobody can insert into a view of several tables.
func takesNothing(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "55000"
}

// denied reports that PostgreSQL refused for want of a right.
func denied(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "42501"
}
