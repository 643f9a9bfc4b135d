package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check servers, schema, topics, roles, archive, key and clock, and say what to mend",
		Long: "Checks what offerlog stands on. What fails can lose or mix up data, or keeps a stage from running; a warning is what a\n" +
			"larger installation would not want. It leaves nothing behind.",
		Example: "  offerlog doctor\n  offerlog doctor --json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context()) },
	}
}

// Results of a check.
const (
	passed = "pass"
	warned = "warn"
	failed = "fail"
)

// A finding is one line of doctor.
type finding struct {
	Check  string `json:"check"`
	Result string `json:"result"` // pass | warn | fail
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // what to do, where it did not pass
}

// A diagnosis collects findings, in the order of the checks.
type diagnosis struct{ findings []finding }

func (d *diagnosis) pass(check, detail string) {
	d.findings = append(d.findings, finding{check, passed, detail, ""})
}

func (d *diagnosis) warn(check, fix, detail string) {
	d.findings = append(d.findings, finding{check, warned, detail, fix})
}

func (d *diagnosis) fail(check, fix, detail string) {
	d.findings = append(d.findings, finding{check, failed, detail, fix})
}

// blame notes an error as a failed check, with the next step that it names.
func (d *diagnosis) blame(check string, err error) {
	e := explain(err)
	d.fail(check, e.hint, e.Error())
}

func (a *app) doctor(ctx context.Context) error {
	a.findDev()
	var d diagnosis
	cl, err := a.openKafka(ctx)
	if err != nil {
		d.blame("kafka", err)
	} else {
		defer cl.Close()
		d.pass("kafka", strings.Join(a.settings.Kafka, ",")+" answers, transaction.version 2")
	}
	pool := a.checkPostgres(ctx, &d)
	if pool != nil {
		defer pool.Close()
	}
	if cl != nil {
		a.checkTopicSettings(ctx, &d, cl, pool)
	}
	a.checkArchive(ctx, &d, pool)
	err = show(a, "CHECK\tRESULT\tFOUND", d.findings, func(f finding) string {
		row := cells(f.Check, f.Result, f.Detail)
		if f.Fix != "" {
			row += "\n\t\t" + "fix: " + f.Fix
		}
		return row
	})
	if err != nil {
		return err
	}
	bad := 0
	for _, f := range d.findings {
		if f.Result == failed {
			bad++
		}
	}
	if bad > 0 {
		return &exitError{exitFailed, "unhealthy", "mend what fails, in the order of the lines", fmt.Errorf("doctor: %d of %d checks fail", bad, len(d.findings))}
	}
	return nil
}

// checkPostgres returns a pool where the schema can be used; what does not depend on it is checked in any case.
func (a *app) checkPostgres(ctx context.Context, d *diagnosis) *pgxpool.Pool {
	if err := a.needPostgres(); err != nil {
		d.blame("postgres", err)
		return nil
	}
	pool, err := postgres.Open(ctx, a.settings.Postgres, 2)
	if err != nil {
		d.blame("postgres", err)
		return nil
	}
	d.pass("postgres", redact(a.settings.Postgres)+" answers")
	checkDurability(ctx, d, pool)
	checkClock(ctx, d, pool)
	if err := postgres.CheckSchema(ctx, pool); err != nil {
		d.blame("schema", err)
		pool.Close()
		return nil
	}
	d.pass("schema", "is this program's")
	checkLogin(ctx, d, pool)
	checkRows(ctx, d, pool)
	return pool
}

// checkDurability looks at what a commit is worth.
func checkDurability(ctx context.Context, d *diagnosis, pool *pgxpool.Pool) {
	for _, setting := range []struct{ name, without string }{
		{"fsync", "a crash of the machine can corrupt the database"},
		{"full_page_writes", "a crash of the machine can tear pages"},
		{"synchronous_commit", "a commit that was answered can be lost, while Kafka keeps what followed from it"},
	} {
		var value string
		if err := pool.QueryRow(ctx, "SELECT current_setting($1)", setting.name).Scan(&value); err != nil {
			d.blame("postgres "+setting.name, err)
		} else if value == "off" {
			d.fail("postgres "+setting.name, "set "+setting.name+" = on", "is off: "+setting.without)
		} else {
			d.pass("postgres "+setting.name, value)
		}
	}
}

// Skews of the clock between this machine and the database's.
const (
	skewWarn = time.Second
	skewFail = time.Minute
)

func checkClock(ctx context.Context, d *diagnosis, pool *pgxpool.Pool) {
	var there time.Time
	asked := time.Now()
	if err := pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&there); err != nil {
		d.blame("clock", err)
		return
	}
	round := time.Since(asked)
	skew := there.Sub(asked.Add(round / 2)).Abs()
	detail := fmt.Sprintf("database and this machine differ by %s (the question took %s)", skew.Round(time.Millisecond), round.Round(time.Millisecond))
	const fix = "run a time service on both machines"
	switch {
	case skew-round/2 > skewFail:
		d.fail("clock", fix, detail)
	case skew-round/2 > skewWarn:
		d.warn("clock", fix, detail)
	default:
		d.pass("clock", detail)
	}
}

// checkLogin makes sure that row-level security holds for the login, and that it may do all that this program does.
func checkLogin(ctx context.Context, d *diagnosis, pool *pgxpool.Pool) {
	login := pool.Config().ConnConfig.User
	var super, bypass, owner bool
	err := pool.QueryRow(ctx, `
		SELECT r.rolsuper, r.rolbypassrls,
		       pg_has_role(r.oid, 'offerlog_owner', 'MEMBER')
		       OR EXISTS (SELECT FROM pg_class AS c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND c.relowner = r.oid AND c.relname <> 'schema_version')
		  FROM pg_roles AS r
		 WHERE r.rolname = session_user`).Scan(&super, &bypass, &owner)
	const fix = "give the programs a login of their own: CREATE ROLE offerlog_app LOGIN NOSUPERUSER NOBYPASSRLS, then let it take the roles: offerlog migrate up --grant-to offerlog_app"
	switch {
	case err != nil:
		d.blame("login", err)
		return
	case super:
		d.fail("login", fix, login+" is a superuser: no policy holds for it")
	case bypass:
		d.fail("login", fix, login+" has BYPASSRLS: no policy holds for it")
	case owner:
		d.fail("login", fix, login+" owns tables, or is a member of their owner")
	default:
		d.pass("login", login+" is bound by row-level security")
	}
	if err := checkRoles(ctx, pool, postgres.Roles()); err != nil {
		e := explain(err)
		d.warn("roles", e.hint, e.Error()+": commands and stages that need it do not run under this login")
		return
	}
	d.pass("roles", login+" may take every role of offerlog")
}

// checkRows makes sure that no table of tenants shows rows without a policy, also to its owner.
func checkRows(ctx context.Context, d *diagnosis, pool *pgxpool.Pool) {
	rows, err := pool.Query(ctx, `
		SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity
		  FROM pg_class AS c
		 WHERE c.relnamespace = 'public'::regnamespace
		   AND c.relkind IN ('r', 'p')
		   AND (EXISTS (SELECT FROM pg_attribute AS t WHERE t.attrelid = c.oid AND t.attname = 'tenant' AND NOT t.attisdropped)
		        OR c.relname ~ '^outbox(_[0-9]+)?$')
		 ORDER BY c.relname`)
	if err != nil {
		d.blame("row-level security", err)
		return
	}
	var (
		name   string
		forced bool
		total  int
		open   []string
	)
	if _, err := pgx.ForEachRow(rows, []any{&name, &forced}, func() error {
		if total++; !forced {
			open = append(open, name)
		}
		return nil
	}); err != nil {
		d.blame("row-level security", err)
		return
	}
	if len(open) > 0 {
		d.fail("row-level security", "ALTER TABLE "+open[0]+" ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; the same for the others",
			"not enabled and forced on "+strings.Join(open, ", "))
		return
	}
	d.pass("row-level security", fmt.Sprintf("enabled and forced on all %d tables of tenants", total))
}

// checkTopicSettings looks at every topic of the installation, as far as the database can be asked which there are.
func (a *app) checkTopicSettings(ctx context.Context, d *diagnosis, cl *kgo.Client, pool *pgxpool.Pool) {
	inputs, known := []string{streams.Deliveries}, map[string]int{}
	if pool != nil && checkRoles(ctx, pool, []postgres.Role{postgres.Ingest}) == nil {
		var err error
		if inputs, err = inputTopics(ctx, pool); err == nil {
			known, err = knownPartitions(ctx, pool)
		}
		if err != nil {
			d.blame("topics", err)
			return
		}
	}
	cluster := a.settings.Cluster()
	plan, err := kafka.Plan(ctx, cl, cluster.Specs(streams.OwnTopics(a.settings.Partitions), inputs, a.settings.Partitions))
	if err != nil {
		d.blame("topics", err)
		return
	}
	var there []string
	for _, c := range plan {
		check, n := "topic "+c.Topic, known[cluster.Name(c.Topic)]
		switch {
		case c.Action == kafka.Create && ofFeeds(inputs, cluster.Name(c.Topic)):
			d.warn(check, "run offerlog topics apply", "is not there: what feeds expect of it is read once it is")
			continue
		case c.Action == kafka.Create:
			d.fail(check, "run offerlog topics apply", "is not there")
			continue
		case c.Have < n:
			d.fail(check, "restore the topic, or check that --kafka names the right cluster", fmt.Sprintf("has %d partitions, lanes are known of %d", c.Have, n))
		case cluster.Name(c.Topic) == streams.Observations && n > 0 && c.Have != n:
			d.fail(check, "restore the topic: keys have moved between partitions", fmt.Sprintf("has %d partitions, the projector knows %d", c.Have, n))
		case len(c.Set) > 0:
			var wrong []string
			for _, name := range slices.Sorted(maps.Keys(c.Set)) {
				wrong = append(wrong, name+" is not "+c.Set[name])
			}
			d.fail(check, "run offerlog topics apply", strings.Join(wrong, ", "))
		default:
			d.pass(check, fmt.Sprintf("%d partitions, settings as wanted", c.Have))
		}
		there = append(there, c.Topic)
	}
	checkReplicas(ctx, d, cl, there)
}

// checkReplicas looks at whether an acknowledged record outlives a broker.
func checkReplicas(ctx context.Context, d *diagnosis, cl *kgo.Client, topics []string) {
	if len(topics) == 0 {
		return
	}
	configs, err := kadm.NewClient(cl).DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		d.blame("replicas", err)
		return
	}
	var unclean, lone []string
	for _, c := range configs {
		for _, v := range c.Configs {
			switch v.Key + "=" + v.MaybeValue() {
			case "unclean.leader.election.enable=true":
				unclean = append(unclean, c.Name)
			case "min.insync.replicas=1":
				lone = append(lone, c.Name)
			}
		}
	}
	if len(unclean) > 0 {
		d.fail("leader election", "set unclean.leader.election.enable=false", "unclean.leader.election.enable is true, so that acknowledged records can be lost: "+strings.Join(unclean, ", "))
	} else {
		d.pass("leader election", "never unclean")
	}
	if len(lone) > 0 {
		d.warn("replicas", "use three replicas and set min.insync.replicas=2", "min.insync.replicas is 1, so that one lost disk loses acknowledged records: "+strings.Join(lone, ", "))
	} else {
		d.pass("replicas", "min.insync.replicas is above 1")
	}
}

// knownPartitions counts the partitions that have lanes, by topic: of observations those of the projector.
func knownPartitions(ctx context.Context, pool *pgxpool.Pool) (map[string]int, error) {
	known := map[string]int{}
	err := postgres.InTx(ctx, pool, postgres.Ingest, func(tx pgx.Tx) error {
		clear(known)
		lanes, err := lane.List(ctx, tx, "", "")
		for _, l := range lanes {
			known[l.Topic] = max(known[l.Topic], int(l.Partition)+1)
		}
		return err
	})
	return known, err
}

// checkArchive writes and reads in the archive, and opens the tenant's newest key.
func (a *app) checkArchive(ctx context.Context, d *diagnosis, pool *pgxpool.Pool) {
	const set = "set --archive and --archive-key-file as ingest has them"
	fix := "check that " + a.settings.Archive + " is there, writable, has room, and is on a file system with hard links"
	if strings.HasPrefix(a.settings.Archive, archive.S3Scheme) {
		fix = "check the bucket, --archive-endpoint and the credentials, and that the server honours If-None-Match on writes"
	}
	if a.settings.Archive == "" {
		d.warn("archive", set, "no folder or bucket is named: this process could not ingest")
	} else if err := a.tryArchive(ctx); err != nil {
		d.fail("archive", fix, err.Error())
	} else {
		d.pass("archive", a.settings.Archive+" takes objects, and none twice")
	}
	if a.settings.ArchiveKeyFile == "" {
		d.warn("archive key", set, "no key file is named: this process could not ingest")
		return
	}
	ring, err := archive.ReadKeyring(a.settings.ArchiveKeyFile)
	if err != nil {
		d.fail("archive key", "restore the key file; without it the evidence cannot be read", err.Error())
		return
	}
	if pool == nil || a.settings.Tenant == "" || checkRoles(ctx, pool, []postgres.Role{postgres.Audit}) != nil {
		d.pass("archive key", a.settings.ArchiveKeyFile+" can be read; no tenant's key was tried")
		return
	}
	err = postgres.AsTenant(ctx, pool, postgres.Audit, a.settings.Tenant, func(tx pgx.Tx) error {
		var id string
		if err := tx.QueryRow(ctx, `SELECT key_id FROM tenant_key WHERE wrapped IS NOT NULL ORDER BY length(key_id) DESC, key_id DESC LIMIT 1`).Scan(&id); err != nil {
			return err
		}
		_, err := archive.NewPostgresKeys(tx, ring).ByID(ctx, a.settings.Tenant, id)
		return err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		d.pass("archive key", a.settings.ArchiveKeyFile+" can be read; tenant "+a.settings.Tenant+" has no evidence yet")
	case err != nil:
		d.fail("archive key", "use the key file that this database was used with", err.Error())
	default:
		d.pass("archive key", a.settings.ArchiveKeyFile+" opens the key of tenant "+a.settings.Tenant)
	}
}

// tryArchive uses a store of its own within the archive, and removes it. Its name is none that an object can have.
func (a *app) tryArchive(ctx context.Context) (err error) {
	location := strings.TrimSuffix(a.settings.Archive, "/") + "/.doctor-" + rand.Text()
	if !strings.HasPrefix(location, archive.S3Scheme) {
		if err := os.Mkdir(location, 0o700); err != nil { // not the folder itself: this only looks
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(location)) }()
	}
	store, err := a.openStore(location)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := store.Ready(ctx); err != nil {
		return err
	}
	const name = "doctor/topic/0/0-0/digest"
	content := rand.Text()
	put := func(text string) error { return store.Put(ctx, name, strings.NewReader(text), int64(len(text))) }
	if err := put(content); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Remove(ctx, name)) }()
	if err := put("another"); !errors.Is(err, archive.ErrExists) {
		return errors.Join(errors.New("a name that is taken is not refused"), err)
	}
	r, err := store.Get(ctx, name, 0)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(r)
	if err == nil && string(got) != content {
		err = errors.New("an object is read back with other content")
	}
	return errors.Join(err, r.Close())
}
