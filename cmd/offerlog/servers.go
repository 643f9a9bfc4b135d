package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
)

func (a *app) needPostgres() error {
	if a.settings.Postgres == "" {
		return usage("start offerlog dev, or set --postgres, OFFERLOG_POSTGRES or postgres in "+defaultConfig, "no PostgreSQL is named")
	}
	return nil
}

func (a *app) needKafka() error {
	if len(a.settings.Kafka) == 0 {
		return usage("start offerlog dev, or set --kafka, OFFERLOG_KAFKA or kafka in "+defaultConfig, "no Kafka is named")
	}
	return nil
}

// openKafka returns a client of a cluster that answers and whose transactions will do.
func (a *app) openKafka(ctx context.Context) (*kgo.Client, error) {
	return a.openClient(ctx, a.settings.Cluster().NewClient)
}

// openClient is openKafka for a client of another kind.
func (a *app) openClient(ctx context.Context, open func(...kgo.Opt) (*kgo.Client, error)) (*kgo.Client, error) {
	if err := a.needKafka(); err != nil {
		return nil, err
	}
	cl, err := open()
	if err != nil {
		return nil, err
	}
	if err := kafka.Check(ctx, cl); err != nil {
		cl.Close()
		return nil, err
	}
	return cl, nil
}

// openPostgres returns a pool on a database whose schema is this program's.
func (a *app) openPostgres(ctx context.Context) (*pgxpool.Pool, error) {
	if err := a.needPostgres(); err != nil {
		return nil, err
	}
	pool, err := postgres.Open(ctx, a.settings.Postgres, poolSize)
	if err != nil {
		return nil, err
	}
	if err := postgres.CheckSchema(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// poolSize is enough for every stage with one transaction in hand and one reader.
const poolSize = 16

// checkRoles makes sure that the login may take each of roles.
func checkRoles(ctx context.Context, pool *pgxpool.Pool, roles []postgres.Role) error {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	rows, err := pool.Query(ctx, `SELECT DISTINCT r FROM unnest($1::text[]) AS r WHERE NOT pg_has_role(r, 'MEMBER') ORDER BY r`, names)
	if err != nil {
		return fmt.Errorf("check database roles: %w", err)
	}
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("check database roles: %w", err)
	}
	if len(missing) > 0 {
		login := pool.Config().ConnConfig.User
		return &exitError{exitNotAllowed, "role_missing",
			"run as an administrator of the database: GRANT " + strings.Join(missing, ", ") + " TO " + pgx.Identifier{login}.Sanitize() +
				"; for all roles: offerlog migrate up --grant-to " + login,
			fmt.Errorf("login %s is no member of %s", login, strings.Join(missing, ", "))}
	}
	return nil
}

// inputTopics are the topics that ingest reads beside commands: the default one and those of the feeds.
func inputTopics(ctx context.Context, pool *pgxpool.Pool) (topics []string, err error) {
	err = postgres.InTx(ctx, pool, postgres.Ingest, func(tx pgx.Tx) error {
		registry, err := feed.Load(ctx, tx)
		if err == nil {
			topics = registry.Topics()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	topics = append(topics, streams.Deliveries)
	slices.Sort(topics)
	return slices.Compact(topics), nil
}

// ofFeeds reports a topic among inputs that is there only because feeds name it.
func ofFeeds(inputs []string, topic string) bool {
	return topic != streams.Deliveries && slices.Contains(inputs, topic)
}

// checkTopics makes sure that the topics are there, and that none has fewer partitions than lanes are known of it. One that
// only feeds name may come later, as it may where a feed is applied.
func checkTopics(ctx context.Context, cl *kgo.Client, cluster kafka.Cluster, pool *pgxpool.Pool, log *slog.Logger) error {
	inputs, err := inputTopics(ctx, pool)
	if err != nil {
		return err
	}
	var lanes []lane.Lane
	err = postgres.InTx(ctx, pool, postgres.Ingest, func(tx pgx.Tx) error {
		lanes, err = lane.List(ctx, tx, "", "")
		return err
	})
	if err != nil {
		return err
	}
	known := map[string]int{} // by topic: partitions that have lanes
	for _, l := range lanes {
		known[l.Topic] = max(known[l.Topic], int(l.Partition)+1)
	}
	for _, spec := range cluster.Specs(streams.OwnTopics(1), inputs, 1) {
		t, err := kafka.Describe(ctx, cl, spec.Name, false)
		if errors.Is(err, kafka.ErrNoTopic) && ofFeeds(inputs, cluster.Name(spec.Name)) {
			log.Warn("a feed's topic is not there yet: run offerlog topics apply", "topic", spec.Name)
			continue
		}
		if err != nil {
			return err
		}
		if n := known[cluster.Name(spec.Name)]; len(t.Starts) < n {
			return fmt.Errorf("%w: topic %s has %d partitions, %d are known: restore the topic, or check that --kafka names the right cluster",
				lane.ErrPartitions, spec.Name, len(t.Starts), n)
		}
	}
	return nil
}

// openArchive returns the archive of the settings and its store, to be closed. The tenants' keys are read and made as ingest.
func (a *app) openArchive(pool *pgxpool.Pool) (*archive.Archive, archive.Store, error) {
	ring, err := a.openKeyring()
	if err != nil {
		return nil, nil, err
	}
	store, err := a.openStore(a.settings.Archive)
	if err != nil {
		return nil, nil, err
	}
	return archive.New(store, archive.NewPostgresKeys(asRole{pool, postgres.Ingest}, ring)), store, nil
}

// openKeyring reads the master key.
func (a *app) openKeyring() (*archive.Keyring, error) {
	if a.settings.Archive == "" || a.settings.ArchiveKeyFile == "" {
		return nil, usage("set --archive and --archive-key-file; make the key with: (umask 077; head -c 32 /dev/urandom | base64 >archive.key)",
			"the archive has no folder or bucket, or no key")
	}
	ring, err := archive.ReadKeyring(a.settings.ArchiveKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &exitError{exitNotFound, "no_key", "check --archive-key-file: without the key that was used before, the evidence cannot be read", err}
	}
	if err != nil {
		return nil, err
	}
	return ring, nil
}

// openStore opens the store of a location: a folder, which is made where there is none, or a bucket.
func (a *app) openStore(location string) (archive.Store, error) {
	if !strings.HasPrefix(location, archive.S3Scheme) {
		if err := os.MkdirAll(location, 0o700); err != nil {
			return nil, fmt.Errorf("make the archive's folder: %w", err)
		}
		return archive.OpenFiles(location)
	}
	cfg := archive.S3Config{Location: location, Endpoint: a.settings.Endpoint, Region: a.settings.Region, CredentialsFile: a.settings.Credentials}
	if cfg.CredentialsFile == "" {
		cfg.AccessKey, cfg.Secret, cfg.Session = a.getenv("AWS_ACCESS_KEY_ID"), a.getenv("AWS_SECRET_ACCESS_KEY"), a.getenv("AWS_SESSION_TOKEN")
	}
	store, err := archive.OpenS3(cfg)
	if err != nil {
		return nil, usage("check --archive and --archive-endpoint", "%w", err)
	}
	return store, nil
}

// getenv returns a variable that is none of the settings.
func (a *app) getenv(name string) string {
	for _, pair := range a.environ {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// asRole runs each statement in a transaction of its own under a role.
type asRole struct {
	pool *pgxpool.Pool
	role postgres.Role
}

// Exec implements archive.Querier.
func (q asRole) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = postgres.InTx(ctx, q.pool, q.role, func(tx pgx.Tx) error {
		tag, err = tx.Exec(ctx, sql, args...)
		return err
	})
	return tag, err
}

// QueryRow implements archive.Querier.
func (q asRole) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return scan(func(dest ...any) error {
		return postgres.InTx(ctx, q.pool, q.role, func(tx pgx.Tx) error { return tx.QueryRow(ctx, sql, args...).Scan(dest...) })
	})
}

// A scan is a row that is read when it is asked for.
type scan func(dest ...any) error

// Scan implements pgx.Row.
func (s scan) Scan(dest ...any) error { return s(dest...) }
