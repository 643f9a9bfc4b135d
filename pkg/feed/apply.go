package feed

import (
	"bytes"
	"context"
	_ "embed" // for the statements
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/offer"
)

//go:embed standing.sql
var standingSQL string

//go:embed taken.sql
var takenSQL string

//go:embed catalogue.sql
var catalogueSQL string

//go:embed freeze.sql
var freezeSQL string

//go:embed put.sql
var putSQL string

//go:embed unroute.sql
var unrouteSQL string

//go:embed versions.sql
var versionsSQL string

//go:embed in_force.sql
var inForceSQL string

//go:embed route.sql
var routeSQL string

// Apply registers a spec, as ParseFile, ParseYAML or ParseJSON returned it, on the word of the command delivery, and
// moves the registry's version. It takes the exclusive lock; a transaction that holds the shared one must not call it.
//
// What cannot be is a fault, with the next step, and changes nothing: a topic and source that another feed has, another
// connector, account or identity of a known feed, a mapping version below the one in force, or a known one that reads otherwise.
// A spec that is in force already is no fault and changes nothing either.
func Apply(ctx context.Context, tx pgx.Tx, s Spec, delivery offer.DeliveryID, at time.Time) (changed bool, fault *offer.Fault, err error) {
	changed, fault, err = apply(ctx, tx, s, delivery, at)
	if err != nil {
		return false, nil, fmt.Errorf("apply feed %s of tenant %s: %w", s.Feed, s.Tenant, err)
	}
	return changed, fault, nil
}

// Versions returns the mapping versions of a tenant's feed, the newest first.
func Versions(ctx context.Context, q Querier, tenant, name string) ([]int, error) {
	rows, err := q.Query(ctx, versionsSQL, tenant, name)
	if err != nil {
		return nil, fmt.Errorf("list the mapping versions of feed %s: %w", name, err)
	}
	versions, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return nil, fmt.Errorf("list the mapping versions of feed %s: %w", name, err)
	}
	return versions, nil
}

// PutInForce has the feed's deliveries read under one of its mapping versions from now on, and moves the registry's version
// where that is another one. The caller holds the exclusive lock.
func PutInForce(ctx context.Context, tx pgx.Tx, tenant, name string, version int) error {
	if _, err := tx.Exec(ctx, inForceSQL, tenant, name, version); err != nil {
		return fmt.Errorf("put mapping version %d of feed %s in force: %w", version, name, err)
	}
	return nil
}

func apply(ctx context.Context, tx pgx.Tx, s Spec, delivery offer.DeliveryID, at time.Time) (bool, *offer.Fault, error) {
	spec, err := s.JSON()
	if err != nil {
		return false, nil, err
	}
	reading, err := json.Marshal(s.Reading())
	if err != nil {
		return false, nil, err
	}
	digest := s.Reading().Digest()
	if _, err := LockExclusive(ctx, tx); err != nil {
		return false, nil, err
	}
	same, fault, err := compare(ctx, tx, s, spec, digest)
	if err != nil || fault != nil || same {
		return false, fault, err
	}
	if fault, err = free(ctx, tx, s); err != nil || fault != nil {
		return false, fault, err
	}
	for _, step := range []struct {
		sql  string
		args []any
	}{
		{freezeSQL, []any{s.Tenant, s.Feed, s.Mapping.Version, digest[:], reading, at}},
		{putSQL, []any{s.Tenant, s.Feed, s.Connector, s.Account, s.Accepts.Source, s.Accepts.Topics, s.Mapping.Version, spec, uuid.UUID(delivery), at}},
		{unrouteSQL, []any{s.Tenant, s.Feed, s.Accepts.Source, s.Accepts.Topics}},
		{routeSQL, []any{s.Tenant, s.Feed, s.Accepts.Source, s.Accepts.Topics}},
		{"UPDATE registry SET version = version + 1", nil},
	} {
		if _, err := tx.Exec(ctx, step.sql, step.args...); err != nil {
			return false, nil, err
		}
	}
	return true, nil, nil
}

// compare holds a spec against what stands of its feed.
func compare(ctx context.Context, tx pgx.Tx, s Spec, spec []byte, digest offer.Digest) (same bool, _ *offer.Fault, _ error) {
	var (
		connector, account string
		inForce, greatest  int // the greatest may be out of force, and is taken all the same
		standing           Spec
		known              []byte
	)
	err := tx.QueryRow(ctx, standingSQL, s.Tenant, s.Feed, s.Mapping.Version).Scan(&connector, &account, &inForce, &standing, &known, &greatest)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, err
	}
	switch {
	case connector != s.Connector:
		return false, refused("connector", "feed %s is known with connector %q: its deliveries are named by it; register another feed for connector %q", s.Feed, connector, s.Connector), nil
	case account != s.Account:
		return false, refused("account", "feed %s is known with account %q: its deliveries and offers are named by it; register another feed for account %q", s.Feed, account, s.Account), nil
	case !reflect.DeepEqual(standing.Identity, s.Identity):
		return false, refused("identity", "feed %s is known with another identity: its deliveries are named by it, and one that comes again would be taken for a new one; register another feed", s.Feed), nil
	case s.Mapping.Version < inForce:
		return false, refused("mapping.version", "version %d is in force; going back is applying the old program as a new version: set mapping.version to %d", inForce, greatest+1), nil
	case known != nil && !bytes.Equal(known, digest[:]):
		return false, refused("mapping.version", "version %d is known and reads payloads otherwise; mapping versions are immutable: set mapping.version to %d", s.Mapping.Version, greatest+1), nil
	}
	b, err := standing.JSON()
	return bytes.Equal(b, spec), nil, err
}

// free looks for another feed on the spec's routes, and for another one that brings snapshots of the account.
func free(ctx context.Context, tx pgx.Tx, s Spec) (*offer.Fault, error) {
	var topic, tenant, name string
	if s.Mode == ModeSnapshot {
		err := tx.QueryRow(ctx, catalogueSQL, s.Tenant, s.Account, s.Feed).Scan(&name)
		if err == nil {
			return refused("mode", "feed %s brings whole catalogues of account %q already, and an account has one such feed: have one of them bring changes", name, s.Account), nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return nil, err
		}
	}
	err := tx.QueryRow(ctx, takenSQL, s.Accepts.Topics, s.Accepts.Source, s.Tenant, s.Feed).Scan(&topic, &tenant, &name)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	whose := "feed " + name
	if tenant != s.Tenant {
		whose = "a feed of another tenant" // whose name and feeds are nobody else's to know
	}
	return refused("accepts", "events with source %q on topic %s are those of %s; a topic and a source belong to one feed: give this one a source or a topic of its own", s.Accepts.Source, topic, whose), nil
}

func refused(path, format string, args ...any) *offer.Fault {
	return &offer.Fault{Reason: offer.ReasonSchemaInvalid, Path: path, Message: fmt.Sprintf(format, args...)}
}
