package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// measures are what a case's final part can speak of: each gives what is there, to be compared with what is expected.
type measures struct {
	scene *scene
	next  map[string]int64 // by step: the stored next offset of partition 0 right after it
	step  map[string]any   // what steps returned: step_2_rows
}

// measure finds what is there under a name; the expectation may say where to look.
func (m *measures) measure(name string, want json.RawMessage) (got any, err error) {
	s := m.scene
	if v, ok := m.step[name]; ok {
		return v, nil
	}
	switch name {
	case "observations":
		return len(s.state().observations), nil
	case "attempts":
		var ids map[string]int
		if err := json.Unmarshal(want, &ids); err != nil {
			return nil, err
		}
		return attempts(s.p, ids)
	case "failed_batches":
		return s.failedBatches()
	case "rounds_with_wrong_current":
		return s.wrongRounds()
	case "stored_next_offset":
		return s.next(s.t.Context(), streams.Deliveries, 0)
	case "stored_next_offset_after_step":
		return m.next, nil
	case "quarantined":
		list, err := s.quarantined()
		return len(list), err
	case "quarantined_bytes_equal_input":
		return s.quarantinedBytesEqual()
	case "current_offers_topic_last":
		last := map[string]any{}
		for record, changes := range s.changes() {
			last[record] = changes[len(changes)-1]
		}
		return last, nil
	case "current_offers_topic":
		return s.changes(), nil
	case "copies":
		return s.copies()
	case "observations_topic_committed":
		return s.rows()
	case "observations_topic_committed_as_set":
		rows, err := s.rows()
		set := map[string]any{}
		for _, r := range rows {
			set[text(r)] = r
		}
		list := []any{}
		for _, k := range slices.Sorted(maps.Keys(set)) {
			list = append(list, set[k])
		}
		return list, err
	case "copies_each":
		rows, err := s.rows()
		return repeats(rows), err
	case "halted":
		return s.halted(), nil
	case "health":
		halts, err := s.halts("halt")
		if len(halts) > 0 {
			return "not ok", err
		}
		return "ok", err
	case "recorded_gaps":
		return s.halts("gap")
	case "relay_position":
		return s.relayPosition()
	case "third_delivery":
		return s.repeated()
	case "current":
		current := map[string]any{}
		for _, d := range s.state().current {
			current[fmt.Sprint(d["source_record"])] = d
		}
		return current, nil
	}
	return nil, fmt.Errorf("nobody knows how %q is measured", name)
}

// checkFinal compares every member of a final part.
func (s *scene) checkFinal(want map[string]json.RawMessage) {
	s.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		got, err := s.final.measure(name, want[name])
		if err != nil {
			s.t.Fatalf("final %s: %v", name, err)
		}
		var is, should any
		if err := decode([]byte(text(got)), false, &is); err != nil {
			s.t.Fatalf("final %s: %v", name, err)
		}
		if err := decode(want[name], false, &should); err != nil {
			s.t.Fatalf("final %s: %v", name, err)
		}
		if !holds(is, should) {
			s.t.Fatalf("final %s: got %s, want %s", name, text(is), text(should))
		}
	}
}

// note remembers the stored next offset after a step.
func (m *measures) note(step int) {
	next, err := m.scene.next(m.scene.t.Context(), streams.Deliveries, 0)
	if err != nil {
		m.scene.t.Fatal(err)
	}
	m.next[strconv.Itoa(step)] = next
}

// repeated is what became of the event that was handled again.
func (s *scene) repeated() (any, error) {
	found, err := outcomes(s.p)
	if err != nil || s.again == nil {
		return nil, err
	}
	o := found[place{s.p.Cluster.Name(s.again.Topic), s.again.Partition, s.again.Offset, 0}]
	return map[string]any{"outcome": o.outcome, "flag": strings.Join(o.flags, " "), "results": o.results}, nil
}

// attempts counts the outcomes of each of the ids.
func attempts(p *pipeline.Pipeline, ids map[string]int) (map[string]int, error) {
	found, err := outcomes(p)
	n := map[string]int{}
	for id := range ids {
		n[id] = 0
	}
	for _, o := range found {
		if _, asked := ids[o.id]; asked {
			n[o.id]++
		}
	}
	return n, err
}

func checkAttempts(p *pipeline.Pipeline, want map[string]int) error {
	got, err := attempts(p, want)
	if err == nil && len(want) > 0 && !maps.Equal(got, want) {
		err = fmt.Errorf("got attempts %v, want %v", got, want)
	}
	return err
}

// failedBatches are what the workers complained of and the deadlocks that PostgreSQL resolved: their number where it is 0,
// else what they were. The workers end before: what a connection has counted is known when it is closed.
func (s *scene) failedBatches() (any, error) {
	var complaints []string
	for name, w := range s.workers {
		if strings.HasPrefix(name, "worker") {
			w.Stop()
			complaints = append(complaints, w.Warnings()[s.joining[name]:]...)
		}
	}
	var deadlocks int
	err := s.p.Pool.QueryRow(s.t.Context(), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks)
	if deadlocks > 0 {
		complaints = append(complaints, fmt.Sprint(deadlocks, " deadlocks"))
	}
	if err != nil || len(complaints) == 0 {
		return 0, err
	}
	return complaints, nil
}

// wrongRounds counts the repeated rounds whose offers do not stand as those of the first.
func (s *scene) wrongRounds() (n int, err error) {
	current := map[string]document{}
	for _, tenant := range s.c.tenants() {
		for _, d := range documents(s.p.Offers(tenant)) {
			current[fmt.Sprint(d["source_record"])] = d
		}
	}
	repeat, rounds := s.c.Steps[len(s.c.Steps)-1], 0
	for r := 1; r < repeat.int("rounds"); r++ {
		rounds++
		for _, want := range *s.c.want.Current {
			name, _ := want["source_record"].(string)
			fresh := strings.ReplaceAll(text(whole(want)), strconv.Quote(name), strconv.Quote(freshRecord(name, r)))
			var d document
			if err := decode([]byte(fresh), false, &d); err != nil {
				return 0, err
			}
			if !holds(current[freshRecord(name, r)], d) {
				n++
				break
			}
		}
	}
	if rounds == 0 {
		err = fmt.Errorf("no round was repeated")
	}
	return n, err
}

// An entry is a delivery in quarantine, with where its payload lies.
type entry struct {
	tenant, object string
	offset         int64
	item           int
}

func (s *scene) quarantined() (list []entry, err error) {
	ctx := s.t.Context()
	err = postgres.InTx(ctx, s.p.Pool, postgres.Inspect, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT o.tenant, o.artifact_id, o."offset", o.item
			  FROM audit_v1.outcome AS o
			 WHERE o.outcome = $1`, offer.Quarantined)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e entry, err error) {
			return e, row.Scan(&e.tenant, &e.object, &e.offset, &e.item)
		})
		return err
	})
	return list, err
}

// quarantinedBytesEqual reports whether the evidence of each quarantined delivery is what was published.
func (s *scene) quarantinedBytesEqual() (bool, error) {
	list, err := s.quarantined()
	if err != nil {
		return false, err
	}
	for _, e := range list {
		kept, err := s.p.Archive.Read(s.t.Context(), e.tenant, archive.Ref{Name: e.object}, e.offset, e.item)
		if err != nil {
			return false, err
		}
		published := false
		for _, r := range s.published {
			published = published || r.Offset == e.offset && bytes.Equal(r.Value, kept.Payload)
		}
		if !published {
			return false, nil
		}
	}
	return len(list) > 0, nil
}

// changes are the values on current-offers by record, in their order; null where a value is null.
func (s *scene) changes() map[string][]any {
	found := map[string][]any{}
	for _, r := range s.p.Committed(streams.CurrentOffers) {
		key, err := offer.ParseKey(string(r.Key))
		var v any
		if err == nil && r.Value != nil {
			err = decode(r.Value, false, &v)
		}
		if err != nil {
			s.t.Fatalf("read current-offers at %d/%d: %v", r.Partition, r.Offset, err)
		}
		found[key.Record] = append(found[key.Record], v)
	}
	return found
}

// copies is how often the changes of offers are on their topic: one number, since each is there equally often.
func (s *scene) copies() (int, error) {
	var all []any
	for _, changes := range s.changes() {
		all = append(all, changes...)
	}
	return repeats(all), nil
}

// rows are the rows of the outbox that committed readers of observations find, in their order.
func (s *scene) rows() ([]any, error) {
	rows := []any{}
	for _, r := range s.p.Committed(streams.Observations) {
		var v any
		if err := decode(r.Value, false, &v); err != nil {
			return nil, err
		}
		rows = append(rows, v)
	}
	return rows, nil
}

// repeats is how often each of the values is there: 0 where they differ in that.
func repeats(values []any) int {
	n := map[string]int{}
	for _, v := range values {
		n[text(v)]++
	}
	counts := slices.Compact(slices.Sorted(maps.Values(n)))
	if len(counts) != 1 {
		return 0
	}
	return counts[0]
}

func (s *scene) relayPosition() (published int64, err error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), pipeline.Patience)
	defer cancel()
	err = postgres.InTx(ctx, s.p.Pool, postgres.Inspect, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT r.published_seq
			  FROM audit_v1.relay AS r
			  JOIN audit_v1.position AS p ON p.lane = r.lane
			 WHERE (p.kind, p.topic, p.partition) = ('input', $1, 0)`, streams.Deliveries).Scan(&published)
	})
	return published, err
}
