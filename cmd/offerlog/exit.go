package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/postgres"
)

// Exit codes. Zero is success; 7 (done, with quarantined items) belongs to the commands that can say so.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitNotAllowed  = 4
	exitConflict    = 5
	exitStale       = 6
	exitInterrupted = 130
)

// An exitError is an error with what a terminal and a script need of it.
type exitError struct {
	exit int    // of the process
	code string // the error's name, the same everywhere
	hint string // the next step; "" where none is known
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usage(hint, format string, args ...any) error {
	return &exitError{exitUsage, "usage", hint, fmt.Errorf(format, args...)}
}

// nextStep is how the errors of the packages end: with what to do, as a command to a person.
var nextStep = regexp.MustCompile(`^(?s)(.*): ((?:run|check|use|restore|make|start|stop|open|choose|grant) [^:]*)$`)

// explain finds the exit code, the name and the next step of any error.
func explain(err error) *exitError {
	e := exitError{exitFailed, "failed", "", err}
	var known *exitError
	switch {
	case errors.As(err, &known):
		e = *known
		e.err = err
	case errors.Is(err, context.Canceled):
		e = exitError{exitInterrupted, "interrupted", "", errors.New("interrupted")}
	case errors.Is(err, kafka.ErrUnreachable):
		e.code = "kafka_unreachable"
	case errors.Is(err, kafka.ErrTransactions):
		e.exit, e.code = exitConflict, "kafka_too_old"
	case errors.Is(err, kafka.ErrNoTopic):
		e.exit, e.code = exitNotFound, "no_topic"
	case errors.Is(err, lane.ErrPartitions):
		e.exit, e.code = exitConflict, "fewer_partitions"
	case errors.Is(err, lane.ErrOtherHalt):
		e.exit, e.code, e.hint = exitConflict, "other_halt", "run offerlog status for what is halted by now"
	case errors.Is(err, postgres.ErrSchema):
		e.exit, e.code = exitConflict, "schema_version"
	case refused(err):
		e.code, e.hint = "postgres_refused", "check user, password and database in --postgres"
	case postgres.OutOfReach(err):
		e.code, e.hint = "postgres_unreachable", "check that PostgreSQL runs and that --postgres names it"
	}
	if m := nextStep.FindStringSubmatch(e.err.Error()); e.hint == "" && m != nil {
		e.hint, e.err = m[2], errors.New(m[1])
	}
	return &e
}

// refused reports a PostgreSQL that answers and does not let this login into this database.
func refused(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(pg.Code, "28") || pg.Code == "3D000")
}

// report prints an error for people, or with asJSON for programs.
func report(w io.Writer, err error, asJSON bool) (exit int) {
	e := explain(err)
	if asJSON {
		line, _ := json.Marshal(map[string]any{"error": e.Error(), "code": e.code, "hint": e.hint, "exit": e.exit}) // strings and a number always can
		fmt.Fprintf(w, "%s\n", line)
		return e.exit
	}
	fmt.Fprintf(w, "offerlog: %s\n", e.Error())
	if e.hint != "" {
		fmt.Fprintf(w, "hint: %s\n", e.hint)
	}
	return e.exit
}
