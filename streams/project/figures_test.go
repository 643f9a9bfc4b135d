package project_test

import (
	"context"
	"crypto/md5" //nolint:gosec // for ids that SQL makes quickly
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/decision"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/tick"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/project"
	"github.com/offerlog/offerlog/streams/rig"
)

// Each benchmark here takes what offerlog does and its yardstick in turn, in one run, and reports the ratio of the medians.

// median is the middle one of some durations.
func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// superuser opens a database for what no role of offerlog may do.
func superuser(b *testing.B, dsn string) *pgxpool.Pool {
	b.Helper()
	pool, err := pgxpool.New(b.Context(), rig.DatabaseAsSuperuser(b, dsn))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return pool
}

func exec(b *testing.B, pool *pgxpool.Pool, statement string, args ...any) {
	b.Helper()
	if _, err := pool.Exec(b.Context(), statement, args...); err != nil {
		b.Fatalf("%s: %v", statement, err)
	}
}

// A supply is what one feed has said: so many versions of each of the records numbered [From, To), one delivery after the other,
// in a lane of its own. The price is the version.
type supply struct {
	feed               string
	lane               int
	from, to, versions int
	first              int // version
}

// supplied is the key of a record of a supply.
func supplied(record int) offer.Key { return claim{record: fmt.Sprint("R", record)}.key() }

func (s supply) observations() int { return (s.to - s.from) * s.versions }

// seedSQL stores a supply, with the ids of its offers. Its observations have quicker ones: nothing looks into them.
const seedSQL = `
INSERT INTO observation (tenant, offer, strong, ord, id, lane, seq, delivery, row, feed, account, record, revision_key, mapping_version,
                         observed_ns, observed_at, retrieved_ns, recorded_at, content, mpn, price, currency)
SELECT 't1', r.offer, true, v.v, md5(r.n || '/' || v.v)::uuid, $2, (v.v - $6) * ($4 - $3) + r.n - $3 + 1, v.delivery, r.n - $3 + 1, $1, 'ACC-1',
       'R' || r.n, 'v' || v.v, 1, 1740823200000000000, '2025-03-01T10:00:00Z', 1740823200000000000, '2025-03-01T10:00:00Z',
       sha256(int8send(r.n) || int8send(v.v)), 'MPN-R' || r.n, v.v, 'EUR'
  FROM (SELECT n, pg_temp.derive('offer', 't1', 'ACC-1', 'R' || n) AS offer FROM generate_series($3::bigint, $4 - 1) AS n OFFSET 0) AS r
 CROSS JOIN (SELECT v, md5($1 || v)::uuid AS delivery FROM generate_series($6::bigint, $6 + $5 - 1) AS v OFFSET 0) AS v
 ORDER BY v.v, r.offer`

// deriveSQL is offer.Derive.
const deriveSQL = `
CREATE OR REPLACE FUNCTION pg_temp.derive(kind text, VARIADIC parts text[]) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
SELECT encode(set_byte(set_byte(h, 6, get_byte(h, 6) & 15 | 128), 8, get_byte(h, 8) & 63 | 128), 'hex')::uuid
  FROM (SELECT substr(sha256(string_agg(int4send(octet_length(p)) || convert_to(p, 'UTF8'), '' ORDER BY i)), 1, 16) AS h
          FROM unnest(ARRAY['offerlog', kind] || parts) WITH ORDINALITY AS u (p, i)) AS x
$$`

func (s supply) seed(b *testing.B, super *pgxpool.Pool) {
	b.Helper()
	err := pgx.BeginFunc(b.Context(), super, func(tx pgx.Tx) error {
		if _, err := tx.Exec(b.Context(), deriveSQL); err != nil {
			return err
		}
		_, err := tx.Exec(b.Context(), seedSQL, s.feed, s.lane, s.from, s.to, s.versions, max(s.first, 1))
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	exec(b, super, "VACUUM ANALYZE observation")
}

// BenchmarkKnownAt reads what was known of one offer at a tick in the middle of its hundred versions, and beside it one row by its
// primary key on the same connection: the ratio is what a read of the past costs. History grows from one size to the next.
func BenchmarkKnownAt(b *testing.B) {
	const versions = 100
	dsn := rig.Database(b)
	pool, super := open(b, dsn), superuser(b, dsn)
	var at tick.Tick
	grown := 0
	for i, observations := range []int{200_000, 1_000_000, 5_000_000} {
		b.Run(fmt.Sprint(observations), func(b *testing.B) {
			if s := (supply{feed: "acme-eu", lane: i + 1, from: grown, to: observations / versions, versions: versions}); len(at.Lanes) == i {
				s.seed(b, super)
				grown = s.to
				at.Lanes, at.UpTo = append(at.Lanes, s.lane), append(at.UpTo, int64(s.observations()/2))
			}
			err := postgres.AsTenant(b.Context(), pool, postgres.Read, "t1", func(tx pgx.Tx) error {
				var known, keys []time.Duration
				timed := func(list *[]time.Duration, f func(record int) error) error {
					record := rand.IntN(grown)
					began := time.Now()
					err := f(record)
					*list = append(*list, time.Since(began))
					return err
				}
				for b.Loop() {
					if err := timed(&keys, func(record int) error { return byKey(b.Context(), tx, record, versions/2) }); err != nil {
						return err
					}
					if err := timed(&known, func(record int) error {
						list, err := view.KnownOf(b.Context(), tx, []offer.OfferID{supplied(record).ID()}, at, nil)
						if err != nil || len(list) != 1 || list[0].Price.String() != fmt.Sprint(versions/2) {
							return fmt.Errorf("got %d offers and error %w, want the price of the middle", len(list), err)
						}
						return nil
					}); err != nil {
						return err
					}
				}
				b.ReportMetric(float64(median(known))/float64(median(keys)), "times-a-key")
				b.ReportMetric(float64(median(known).Microseconds()), "known-µs")
				b.ReportMetric(float64(median(keys).Microseconds()), "key-µs")
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

// byKey reads one observation by its primary key.
func byKey(ctx context.Context, tx pgx.Tx, record, version int) error {
	rows, err := tx.Query(ctx, "SELECT o.* FROM observation_row AS o WHERE (o.tenant, o.offer, o.strong, o.ord, o.id) = ('t1', $1, true, $2, $3)",
		uuid.UUID(supplied(record).ID()), version, uuid.UUID(md5.Sum(fmt.Appendf(nil, "%d/%d", record, version)))) //nolint:gosec // an id, no secret
	if err != nil {
		return err
	}
	_, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (history.Observation, error) {
		var r history.Row
		if err := row.Scan(r.Into()...); err != nil {
			return history.Observation{}, err
		}
		return r.Observation()
	})
	return err
}

// distinctSQL is the yardstick of a rebuild: the newest observation of each offer, into the same table.
const distinctSQL = `
INSERT INTO current_offer (tenant, generation, offer, partition, account, record, strong, ord, mapping_version, content, observation,
                           deleted, flags)
SELECT DISTINCT ON (o.tenant, o.offer) o.tenant, $1, o.offer, 0, o.account, o.record, o.strong, o.ord, o.mapping_version, o.content, o.id,
       o.deleted, '{}'
  FROM observation AS o
 ORDER BY o.tenant, o.offer, o.strong DESC, o.ord DESC, o.mapping_version DESC, o.content DESC, o.id DESC`

// BenchmarkRebuild fills a generation from history, and beside it inserts the newest observations by one statement.
func BenchmarkRebuild(b *testing.B) {
	const offers = 200_000
	for _, versions := range []int{3, 10} {
		b.Run(fmt.Sprint(versions, "-versions"), func(b *testing.B) {
			dsn := rig.Database(b)
			pool, super := open(b, dsn), superuser(b, dsn)
			s := supply{feed: "acme-eu", lane: 1, to: offers, versions: versions}
			s.seed(b, super)
			err := postgres.InTx(b.Context(), pool, postgres.Project, func(tx pgx.Tx) error {
				var list []view.Checkpoint
				for p := range int32(6) {
					list = append(list, view.Checkpoint{Generation: 1, Partition: p, Lane: 100 + int(p), Applied: view.Vector{s.lane: int64(s.observations())}})
				}
				err := view.Start(b.Context(), tx, list)
				for _, c := range list {
					if err == nil {
						err = view.Advance(b.Context(), tx, c)
					}
				}
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
			var filled, distinct []time.Duration
			timed := func(list *[]time.Duration, f func(generation int) error) {
				id, err := project.Make(b.Context(), pool, operator)
				exec(b, super, "CHECKPOINT")
				began := time.Now()
				if err == nil {
					err = f(id)
				}
				*list = append(*list, time.Since(began))
				if err != nil {
					b.Fatal(err)
				}
				var rows int
				if err := super.QueryRow(b.Context(), "WITH gone AS (DELETE FROM current_offer RETURNING true) SELECT count(*) FROM gone").Scan(&rows); err != nil || rows != offers {
					b.Fatalf("got %d rows and error %v, want %d", rows, err, offers)
				}
				exec(b, super, "DELETE FROM projection WHERE generation > 1")
				exec(b, super, "VACUUM current_offer")
			}
			for b.Loop() {
				timed(&distinct, func(id int) error {
					return postgres.InTx(b.Context(), pool, postgres.Project, func(tx pgx.Tx) error {
						_, err := tx.Exec(b.Context(), distinctSQL, id)
						return err
					})
				})
				timed(&filled, func(id int) error { return project.Fill(b.Context(), pool, id, func(int) {}) })
			}
			b.ReportMetric(float64(median(distinct))/float64(median(filled)), "of-the-rate")
			b.ReportMetric(offers/median(filled).Seconds(), "filled/s")
			b.ReportMetric(offers/median(distinct).Seconds(), "distinct/s")
		})
	}
}

// recomputeSQL is the yardstick of a suspended feed ($1): the offers of its account by what the other feeds say, and of what changed
// what is published, in one statement that leaves in the same tables what the projector leaves there.
const recomputeSQL = `
WITH newest AS (
    SELECT DISTINCT ON (o.tenant, o.offer) o.*
      FROM observation AS o
     WHERE (o.tenant, o.account) = ('t1', 'ACC-1')
       AND o.feed <> $1
     ORDER BY o.tenant, o.offer, o.strong DESC, o.ord DESC, o.mapping_version DESC, o.content DESC, o.id DESC),
changed AS (
    UPDATE current_offer AS c
       SET strong = n.strong, ord = n.ord, mapping_version = n.mapping_version, content = n.content, observation = n.id,
           deleted = coalesce(n.deleted, true)
      FROM current_offer AS x
      LEFT JOIN newest AS n ON (n.tenant, n.offer) = (x.tenant, x.offer)
     WHERE (x.tenant, x.account, x.generation) = ('t1', 'ACC-1', 1)
       AND (c.tenant, c.generation, c.offer) = (x.tenant, x.generation, x.offer)
       AND n.id IS DISTINCT FROM c.observation
    RETURNING c.*),
numbered AS (
    SELECT c.*, 1000000000 + row_number() OVER (ORDER BY c.tenant, c.offer) AS revision,
           shown_digest(c.content, c.deleted, c.flags, c.item) AS digest
      FROM changed AS c),
told AS (
    INSERT INTO publication AS p (tenant, offer, revision, digest)
    SELECT c.tenant, c.offer, c.revision, c.digest FROM numbered AS c
        ON CONFLICT (tenant, offer) DO UPDATE SET revision = excluded.revision, digest = excluded.digest),
kept AS (
    INSERT INTO offer_change (tenant, offer, revision, strong, ord, observation, flags, item, recorded_at)
    SELECT c.tenant, c.offer, c.revision, c.strong, c.ord, c.observation, c.flags, c.item, now() FROM numbered AS c)
INSERT INTO outbox (slot, lane, first, last, kind, topic, key, event_id, event_type, body, recorded_at)
SELECT r.slot, 0, c.revision, c.revision, 'event', 'current-offers', c.tenant || '/' || c.account || '/' || c.record, gen_random_uuid(),
       'offerlog.offer-changed.v1', convert_to(coalesce(to_jsonb(n) || jsonb_build_object('revision', c.revision),
           jsonb_build_object('tenant', c.tenant, 'record', c.record, 'revision', c.revision, 'state', 'none'))::text, 'UTF8'), now()
  FROM numbered AS c
 CROSS JOIN outbox_ring AS r
  LEFT JOIN newest AS n ON (n.tenant, n.offer) = (c.tenant, c.offer)`

// BenchmarkSuspend has the projector decide 50,000 offers again after their feed was suspended, and resumed; for every other offer
// another feed has said something before. Beside it one statement does the same, and is rolled back.
func BenchmarkSuspend(b *testing.B) {
	const offers = 50_000
	in := install(b, fake(b), 1)
	super := superuser(b, in.dsn)
	other, acme := supply{feed: "other", lane: 1, to: offers / 2, versions: 5}, supply{feed: "acme-eu", lane: 2, to: offers, versions: 5, first: 6}
	other.seed(b, super)
	acme.seed(b, super)
	in.start()
	// The stage has no event of what was seeded: the last claims say how far its partition is.
	in.until("the checkpoint is there", func() bool { return len(in.positions()) > 0 })
	c := in.positions()[0]
	c.Applied = view.Vector{other.lane: int64(other.observations()), acme.lane: int64(acme.observations())}
	in.query(func(tx pgx.Tx) error { return view.Advance(b.Context(), tx, c) })
	exec(b, super, `INSERT INTO current_offer (tenant, generation, offer, partition, account, record, strong, ord, mapping_version, content, observation, deleted, flags)
		SELECT o.tenant, 1, o.offer, 0, o.account, o.record, o.strong, o.ord, o.mapping_version, o.content, o.id, false, '{}' FROM observation AS o WHERE o.ord = 10`)
	exec(b, super, `INSERT INTO publication (tenant, offer, revision, digest)
		SELECT c.tenant, c.offer, 0, shown_digest(c.content, c.deleted, c.flags, c.item) FROM current_offer AS c`)
	var projected, statement []time.Duration
	decide := func(standing decision.Standing) {
		b.Helper()
		c.Applied[acme.lane]++
		d := decision.Decision{Subject: decision.OfFeed("t1", acme.feed), Feed: acme.feed, Account: "ACC-1", Verdict: decision.Suspended, Standing: standing,
			Lane: acme.lane, Seq: c.Applied[acme.lane], RecordedAt: time.Now()}
		err := postgres.InTx(b.Context(), in.pool, postgres.Ingest, func(tx pgx.Tx) error { return decision.Record(b.Context(), tx, []*decision.Decision{&d}) })
		if err != nil {
			b.Fatal(err)
		}
		exec(b, super, "VACUUM ANALYZE current_offer, publication, offer_change, outbox, decision")
		exec(b, super, "CHECKPOINT")
		began := time.Now()
		in.write(kgo.TryCommit, &kgo.Record{Topic: in.topic(), Key: []byte(d.Key()), Headers: []kgo.RecordHeader{
			{Key: "ce_type", Value: []byte(streams.DecisionMade)}, {Key: "ce_" + streams.ExtLane, Value: fmt.Append(nil, d.Lane)}, {Key: "ce_" + streams.ExtLaneSeq, Value: fmt.Append(nil, d.Seq)}}})
		in.settle()
		projected = append(projected, time.Since(began))
	}
	set := func() {
		b.Helper()
		exec(b, super, "VACUUM ANALYZE current_offer, publication, offer_change, outbox")
		exec(b, super, "CHECKPOINT")
		began := time.Now()
		err := pgx.BeginFunc(b.Context(), super, func(tx pgx.Tx) error {
			tag, err := tx.Exec(b.Context(), recomputeSQL, acme.feed)
			statement = append(statement, time.Since(began))
			if err == nil && tag.RowsAffected() != offers {
				err = fmt.Errorf("got %d rows, want %d", tag.RowsAffected(), offers)
			}
			return errors.Join(err, errRollback)
		})
		if err == nil || err.Error() != errRollback.Error() {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		set()
		decide(decision.NotCounting)
		before := len(projected)
		decide(decision.Counting) // back again, which is not compared
		projected = projected[:before]
	}
	b.ReportMetric(float64(median(projected))/float64(median(statement)), "times-one-statement")
	b.ReportMetric(offers/median(projected).Seconds(), "projected/s")
	b.ReportMetric(offers/median(statement).Seconds(), "statement/s")
}

// BenchmarkLag takes the time from when claims are published until the view shows them, alone and beside the rebuild of a
// generation of 100,000 offers, in turn.
func BenchmarkLag(b *testing.B) {
	const (
		offers  = 100_000
		samples = 50 // of a turn
		claims  = 20 // of a sample
	)
	in := install(b, fake(b), 6)
	super := superuser(b, in.dsn)
	s := supply{feed: "acme-eu", lane: 1, to: offers, versions: 10}
	s.seed(b, super)
	in.start()
	in.until("the checkpoints are there", func() bool { return len(in.positions()) == 6 })
	in.query(func(tx pgx.Tx) (err error) {
		for _, c := range in.positions() {
			c.Applied = view.Vector{s.lane: int64(s.observations())}
			if err == nil {
				err = view.Advance(b.Context(), tx, c)
			}
		}
		return err
	})
	version := s.versions
	turn := func(list *[]time.Duration) {
		for range samples {
			version++
			batch := make([]history.Observation, claims)
			for i := range batch {
				batch[i] = claim{record: fmt.Sprint("R", rand.IntN(offers/claims)*claims+i), version: int64(version), price: "7"}.observation(b, fmt.Sprint("delivery ", version))
			}
			before := len(in.feeder.events[2])
			in.claim(2, batch...)
			began := time.Now()
			in.relay(kgo.TryCommit, in.feeder.events[2][before:]...)
			in.settle()
			*list = append(*list, time.Since(began))
		}
	}
	var alone, beside []time.Duration
	for b.Loop() {
		turn(&alone)
		ctx, stop := context.WithCancel(b.Context())
		id, err := project.Make(ctx, in.pool, operator)
		if err != nil {
			b.Fatal(err)
		}
		filled := make(chan error)
		go func() {
			var err error
			for err == nil && ctx.Err() == nil {
				if err = project.Fill(ctx, in.pool, id, func(int) {}); err == nil {
					_, err = super.Exec(ctx, "DELETE FROM current_offer WHERE generation = $1", id)
				}
			}
			filled <- err
		}()
		turn(&beside)
		stop()
		if err := <-filled; !errors.Is(err, context.Canceled) {
			b.Fatal(err)
		}
		if _, err := project.Retire(b.Context(), in.pool, id, operator); err != nil {
			b.Fatal(err)
		}
		exec(b, super, "VACUUM current_offer")
	}
	b.ReportMetric(float64(median(beside))/float64(median(alone)), "times-the-lag")
	b.ReportMetric(float64(beside[len(beside)*95/100])/float64(alone[len(alone)*95/100]), "times-the-95th")
	b.ReportMetric(float64(median(alone).Milliseconds()), "alone-ms")
	b.ReportMetric(float64(median(beside).Milliseconds()), "beside-ms")
}
