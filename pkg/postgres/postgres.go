// Package postgres is the door to PostgreSQL: the pool, transactions under a role, and migrations.
//
// It keeps no session state, so a transaction-mode pooler may stand between: a transaction begins with SET LOCAL ROLE, and
// everything that a session would remember is set inside it.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Role is a database role of offerlog. Nobody logs in as one: the login is a member of those that it needs, and each
// transaction takes one.
type Role string

// Roles. Ingest, Relay, Project and Janitor work across tenants, each on its own tables; Read and Audit see one tenant,
// set for the transaction; Inspect sees schema audit_v1 alone.
const (
	Ingest  Role = "offerlog_ingest"
	Relay   Role = "offerlog_relay"
	Project Role = "offerlog_project"
	Janitor Role = "offerlog_janitor"
	Inspect Role = "offerlog_inspect"
	Read    Role = "offerlog_read"
	Audit   Role = "offerlog_audit"
)

// Roles lists them all: what a login that does everything must be a member of.
func Roles() []Role { return []Role{Ingest, Relay, Project, Janitor, Inspect, Read, Audit} }

// Pool is what this package needs of a pool; *pgxpool.Pool is one.
type Pool interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// Open connects to the database of dsn and checks that it answers. Statements are prepared by description, which a
// transaction-mode pooler does not break.
func Open(ctx context.Context, dsn string, maxConns int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		// pgx keeps the password out of this error, but not the rest of a malformed DSN.
		return nil, errors.New("open PostgreSQL: the DSN is malformed: want postgres://user:password@host:port/database")
	}
	cfg.MaxConns = maxConns
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	cfg.ConnConfig.RuntimeParams["application_name"] = "offerlog"
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open PostgreSQL: %w", err)
	}
	pingCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := pool.Ping(pingCtx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open PostgreSQL at %s:%d: %w", cfg.ConnConfig.Host, cfg.ConnConfig.Port, err)
	}
	return pool, nil
}

// ErrLostRace makes InTx run its function again: something that the function had read was changed by another transaction
// before it could be used.
var ErrLostRace = errors.New("lost a race to another transaction")

// An UnknownCommitError reports a COMMIT that was answered with an error or not at all: it may have happened. Whoever gets
// it asks the database what stands, and never repeats the work blindly.
type UnknownCommitError struct{ Err error }

func (e *UnknownCommitError) Error() string {
	return "the commit may or may not have happened: " + e.Err.Error()
}
func (e *UnknownCommitError) Unwrap() error { return e.Err }

// limits bound a transaction: each statement, and the time between two. A process that stands still in its transaction, or
// a host that is gone without a word, would otherwise keep its locks for ever, from whoever takes its work over. Half a
// minute is less than Kafka waits (45 s) before it gives the partitions of such a process to another.
const limits = "; SET LOCAL statement_timeout = '60s'; SET LOCAL idle_in_transaction_session_timeout = '30s'"

// InTx runs f in one READ COMMITTED transaction under role. It runs f again after a lost race (ErrLostRace, 40001, 40P01),
// so f touches nothing but tx and what it resets itself. Statements are bounded by a minute, the time between two of them
// by half of one: after that the server ends the session, and with it the transaction.
func InTx(ctx context.Context, pool Pool, role Role, f func(tx pgx.Tx) error) error {
	return inTx(ctx, pool, "BEGIN; SET LOCAL ROLE "+string(role)+limits, f)
}

// AsTenant runs f in one read-only transaction under role with the rows of one tenant.
func AsTenant(ctx context.Context, pool Pool, role Role, tenant string, f func(tx pgx.Tx) error) error {
	return inTx(ctx, pool, "BEGIN READ ONLY; SET LOCAL ROLE "+string(role)+limits, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('offerlog.tenant', $1, true)", tenant); err != nil {
			return fmt.Errorf("set tenant: %w", err)
		}
		return f(tx)
	})
}

// Snapshot runs f in one read-only transaction under role, all of whose statements see the database as it was when the
// first of them began. Since it is there for reads of whole tables, statements and the time between them are bounded by half
// an hour.
func Snapshot(ctx context.Context, pool Pool, role Role, f func(tx pgx.Tx) error) error {
	return inTx(ctx, pool, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL ROLE "+string(role)+
		"; SET LOCAL statement_timeout = '30min'; SET LOCAL idle_in_transaction_session_timeout = '30min'", f)
}

// interpreted keeps the server from compiling a statement before it runs it: a fold of some thousand offers takes it a second and a
// half to compile, each time, and some hundredths to run.
const interpreted = "; SET LOCAL jit = off"

// Aside runs f in one transaction under role with the rows of one tenant, all of whose statements see the database as it was when
// the first of them began, and which may keep tables of its own. At the end nothing of it is left. As for Snapshot, half an hour.
func Aside(ctx context.Context, pool Pool, role Role, tenant string, f func(tx pgx.Tx) error) error {
	over := errors.New("over")
	err := inTx(ctx, pool, "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL ROLE "+string(role)+
		"; SET LOCAL statement_timeout = '30min'; SET LOCAL idle_in_transaction_session_timeout = '30min'", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('offerlog.tenant', $1, true)", tenant); err != nil {
			return fmt.Errorf("set tenant: %w", err)
		}
		if err := f(tx); err != nil {
			return err
		}
		return over
	})
	if errors.Is(err, over) {
		return nil
	}
	return err
}

func inTx(ctx context.Context, pool Pool, begin string, f func(tx pgx.Tx) error) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 5*time.Millisecond, 200*time.Millisecond
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := once(ctx, pool, begin+interpreted, f)
		if err != nil && !lostRace(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(wait), backoff.WithMaxTries(20))
	return err
}

func once(ctx context.Context, pool Pool, begin string, f func(tx pgx.Tx) error) error {
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		if rolledBack(err) {
			return fmt.Errorf("commit: %w", err)
		}
		return &UnknownCommitError{err}
	}
	return nil
}

// rolledBack reports an answer of the server that the transaction did not happen.
func rolledBack(err error) bool {
	var pg *pgconn.PgError
	return errors.Is(err, pgx.ErrTxCommitRollback) || errors.As(err, &pg) && pg.Severity == "ERROR"
}

func lostRace(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01") {
		return true
	}
	return errors.Is(err, ErrLostRace)
}

// Refused reports an answer of the server that what was to be stored is the reason of: data, a constraint, or a limit. The same work
// gives the same answer.
func Refused(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23") || strings.HasPrefix(pg.Code, "54"))
}

// OutOfReach reports an error of the way to the server, or of its state, that passes by itself: no row and no statement
// is at fault, so the same work can be done again later.
func OutOfReach(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code[:2] {
		case "08", "53", "57", "58", "25": // connection, resources, shutdown and cancel, system, read-only
			return true
		}
		return pg.Code == "55P03" || lostRace(err)
	}
	var unknown *UnknownCommitError
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.Is(err, ErrLostRace) || errors.As(err, &unknown) || errors.As(err, &connect) || errors.As(err, &network) || pgconn.SafeToRetry(err) ||
		errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}
