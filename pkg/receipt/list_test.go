package receipt_test

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams/rig"
)

// A stage stores attempts as ingest does, in two lanes of one topic.
type stage struct {
	t     *testing.T
	dsn   string
	pool  *pgxpool.Pool
	topic uuid.UUID
	lanes []lane.Lane
}

func newStage(t *testing.T) *stage {
	t.Helper()
	dsn := rig.Database(t)
	pool, err := postgres.Open(t.Context(), dsn, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := &stage{t: t, dsn: dsn, pool: pool, topic: uuid.New()}
	s.write(func(ctx context.Context, tx pgx.Tx) (err error) {
		s.lanes, err = lane.Register(ctx, tx, lane.Input, "deliveries", s.topic, []int64{0, 0})
		return err
	})
	return s
}

func (s *stage) write(f func(ctx context.Context, tx pgx.Tx) error) {
	s.t.Helper()
	err := postgres.InTx(s.t.Context(), s.pool, postgres.Ingest, func(tx pgx.Tx) error { return f(s.t.Context(), tx) })
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) read(tenant string, f func(ctx context.Context, tx pgx.Tx) ([]receipt.Document, error)) (list []receipt.Document) {
	s.t.Helper()
	err := postgres.AsTenant(s.t.Context(), s.pool, postgres.Audit, tenant, func(tx pgx.Tx) (err error) {
		list, err = f(s.t.Context(), tx)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

func (s *stage) of(tenant string, id offer.DeliveryID) []receipt.Document {
	s.t.Helper()
	return s.read(tenant, func(ctx context.Context, tx pgx.Tx) ([]receipt.Document, error) { return receipt.Of(ctx, tx, id) })
}

func (s *stage) list(tenant string, f receipt.Filter) []receipt.Document {
	s.t.Helper()
	return s.read(tenant, func(ctx context.Context, tx pgx.Tx) ([]receipt.Document, error) { return receipt.List(ctx, tx, f) })
}

const spec = `feed: acme-eu
tenant: t1
connector: acme
account: ACC 1
accepts: {topics: [deliveries], source: /acme/export}
order: observed_at
mapping:
  version: 1
  fields: {source_record: .sku, item: {mpn: .sku}}
`

var start = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// at returns an attempt that was recorded some minutes after the start.
func (s *stage) at(partition int, offset int64, minute int, tenant string, key offer.ReplayKey, outcome offer.Outcome) *receipt.Attempt {
	id := key.ID()
	return &receipt.Attempt{Place: receipt.Place{Lane: s.lanes[partition].ID, Offset: offset}, Tenant: tenant, Delivery: &id, EventSource: key.EventSource,
		EventID: key.EventID, Declared: key.Declared, EventType: "offerlog.delivery.v1", Outcome: outcome, RetrievedAt: start, RecordedAt: start.Add(time.Duration(minute) * time.Minute)}
}

// story stores one delivery of t1 four times (refused, accepted with two rows, repeated, contradicted), one that no feed
// expects, a command, and a record without a key.
func (s *stage) story() (key offer.ReplayKey, observations []string, payload []byte) {
	key = offer.ReplayKey{Source: offer.Source{Tenant: "t1", Connector: "acme", Account: "ACC 1"}, EventSource: "/acme/export", EventID: "EXP-1/2"}
	unknown := offer.ReplayKey{Source: offer.Source{Tenant: offer.SystemTenant}, EventSource: "/who", EventID: "1"}
	command := offer.ReplayKey{Source: offer.Source{Tenant: "t1", Connector: "deliveries"}, EventSource: "/offerlog/cli", EventID: "c"}
	payload = []byte(`[{"sku":"A"},{"sku":"B"}]`)
	sum := offer.Fingerprint{Canonicalization: offer.CanonicalJSON, Digest: offer.Sum(payload)}
	other := offer.Fingerprint{Canonicalization: offer.CanonicalJSON, Digest: offer.Sum([]byte("other"))}

	refused := s.at(0, 3, 1, "t1", key, offer.Quarantined)
	refused.Feed, refused.Fault = "acme-eu", &offer.Fault{Reason: offer.ReasonMappingError, Message: "no such field"}
	accepted := s.at(0, 4, 2, "t1", key, offer.Accepted)
	accepted.Feed, accepted.Fingerprint, accepted.Archived, accepted.MappingVersion, accepted.Rows = "acme-eu", sum, true, 1, 3
	accepted.Results = offer.Results{Saved: 1, Duplicate: 1, Rejected: 1}
	accepted.Rejections = []offer.Fault{{Reason: offer.ReasonSchemaInvalid, Detail: "price_negative", Row: 3, Path: "price"}}
	accepted.Warnings = []receipt.Warning{{Row: 1, Warning: "gtin_invalid"}}
	accepted.Run, accepted.Page, accepted.FirstSeq, accepted.LastSeq = "EXP-1", 2, 7, 8
	repeated := s.at(1, 0, 3, "t1", key, offer.Duplicate)
	repeated.Feed, repeated.Fingerprint, repeated.Accepted = "acme-eu", sum, &accepted.Place
	contradicted := s.at(1, 1, 4, "t1", key, offer.Quarantined)
	contradicted.Feed, contradicted.Fingerprint, contradicted.Accepted = "acme-eu", other, &accepted.Place
	contradicted.Fault = &offer.Fault{Reason: offer.ReasonReplayPayloadMismatch}
	unexpected := s.at(1, 2, 5, offer.SystemTenant, unknown, offer.Quarantined)
	unexpected.Fault = &offer.Fault{Reason: offer.ReasonUnknownFeed}
	commanded := s.at(1, 3, 6, "t1", command, offer.Accepted)
	keyless := s.at(1, 4, 7, "t1", key, offer.Quarantined)
	keyless.Delivery, keyless.Fault, keyless.Item = nil, &offer.Fault{Reason: offer.ReasonNotACloudEvent}, 1

	rows := make([]history.Observation, 2)
	for i, sku := range []string{"A", "B"} {
		rows[i] = history.New("acme-eu", offer.Key{Tenant: "t1", Account: "ACC 1", Record: sku}, 1, key.ID(), false,
			&offer.Row{Number: i + 1, Record: sku, ObservedAt: offer.TimeOf(start)})
		rows[i].Lane, rows[i].Seq, rows[i].RetrievedAt, rows[i].RecordedAt = s.lanes[0].ID, int64(7+i), start, start
		observations = append(observations, rows[i].ID().String())
	}
	// An older object of the partition, which holds neither of the offsets, and the one that does.
	older := &archive.Pack{Tenant: "t1", TopicID: s.topic, Partition: 0, First: 0, Last: 1, Entries: []archive.Entry{{Offset: 0, Payload: payload, Sum: offer.Sum(payload)}}}
	pack := &archive.Pack{Tenant: "t1", TopicID: s.topic, Partition: 0, First: 2, Last: 6, Entries: []archive.Entry{
		{Offset: 3, Payload: []byte("{}"), Sum: offer.Sum([]byte("{}"))}, {Offset: 4, Payload: payload, Sum: offer.Sum(payload)}}}
	s.write(func(ctx context.Context, tx pgx.Tx) error {
		f, err := feed.ParseYAML("feed.yaml", []byte(spec))
		if err != nil {
			return err
		}
		if _, fault, err := feed.Apply(ctx, tx, f, command.ID(), start); err != nil || fault != nil {
			s.t.Fatal(fault, err)
		}
		_, err = receipt.Claim(ctx, tx, []receipt.Receipt{
			{Key: receipt.Key{Tenant: "t1", Delivery: key.ID()}, Fingerprint: sum, Place: accepted.Place},
			{Key: receipt.Key{Tenant: "t1", Delivery: command.ID()}, Fingerprint: sum, Place: commanded.Place}})
		if err != nil {
			return err
		}
		// The second row restates what an earlier delivery had stated: a sighting.
		before := rows[1]
		before.Seq, before.Delivery = 6, command.ID()
		if err := history.Append(ctx, tx, []*history.Observation{&rows[0], &before}); err != nil {
			return err
		}
		if err := history.Sight(ctx, tx, []history.Sighting{{Claim: rows[1].Claim, Of: &before}}); err != nil {
			return err
		}
		stored := []archive.Stored{{Pack: older, Ref: archive.Ref{Name: older.Name(), KeyID: "k1"}}, {Pack: pack, Ref: archive.Ref{Name: pack.Name(), KeyID: "k1"}}}
		if err := archive.Record(ctx, tx, stored); err != nil {
			return err
		}
		return receipt.Record(ctx, tx, []*receipt.Attempt{refused, accepted, repeated, contradicted, unexpected, commanded, keyless})
	})
	return key, observations, payload
}

func TestADeliveryShowsItsRefusalsItsReceiptAndItsRepeats(t *testing.T) {
	s := newStage(t)
	key, observations, payload := s.story()
	got := s.of("t1", key.ID())
	var outcomes []string
	for _, d := range got {
		outcomes = append(outcomes, d.Where()+" "+string(d.Outcome))
		if d.Attempts != 4 || d.ReplayKey != key.String() || d.Delivery != key.ID().String() {
			t.Errorf("%s: got %d attempts of %s (%s), want 4 of %s", d.Where(), d.Attempts, d.ReplayKey, d.Delivery, key)
		}
	}
	if want := []string{"deliveries/0/3 quarantined", "deliveries/0/4 accepted", "deliveries/1/0 duplicate", "deliveries/1/1 quarantined"}; !slices.Equal(outcomes, want) {
		t.Fatalf("got %q, want %q", outcomes, want)
	}
	refused, accepted, repeated, contradicted := got[0], got[1], got[2], got[3]
	if refused.Reason != offer.ReasonMappingError || len(refused.Observations) > 0 || refused.Artifact != nil || refused.First != nil {
		t.Errorf("the refusal: got %+v", refused)
	}
	if want := (offer.Results{Saved: 1, Duplicate: 1, Rejected: 1}); accepted.Results != want || accepted.Rows != 3 || accepted.Run != "EXP-1" || accepted.Page != 2 {
		t.Errorf("the accepted one: got %+v", accepted)
	}
	if want := []offer.Fault{{Reason: offer.ReasonSchemaInvalid, Detail: "price_negative", Row: 3, Path: "price"}}; !reflect.DeepEqual(accepted.Rejected, want) {
		t.Errorf("rejected rows: got %+v, want %+v", accepted.Rejected, want)
	}
	if want := []receipt.Warning{{Row: 1, Warning: "gtin_invalid"}}; !slices.Equal(accepted.Warnings, want) {
		t.Errorf("warnings: got %+v, want %+v", accepted.Warnings, want)
	}
	for what, d := range map[string]receipt.Document{"the accepted one": accepted, "its repeat": repeated} {
		if !slices.Equal(d.Observations, observations) {
			t.Errorf("%s: got observations %q, want %q", what, d.Observations, observations)
		}
		if e := d.Artifact; e == nil || e.Offset != 4 || e.SHA256 != offer.Sum(payload).String() || e.Length != int64(len(payload)) || e.State != "stored" {
			t.Errorf("%s: got artifact %+v", what, e)
		}
	}
	first := receipt.Standpoint{Topic: "deliveries", Partition: 0, Offset: 4}
	for what, d := range map[string]receipt.Document{"the repeat": repeated, "the contradiction": contradicted} {
		if d.First == nil || *d.First != first {
			t.Errorf("%s: got first %v, want %v", what, d.First, first)
		}
	}
	if contradicted.Fingerprint == accepted.Fingerprint || len(contradicted.Observations) > 0 || contradicted.Reason != offer.ReasonReplayPayloadMismatch {
		t.Errorf("the contradiction: got %+v", contradicted)
	}
}

func TestEveryAttemptHasTheReplayKeyThatItsIdIsDerivedFrom(t *testing.T) {
	s := newStage(t)
	s.story()
	for _, tenant := range []string{"t1", offer.SystemTenant} {
		for _, d := range s.list(tenant, receipt.Filter{Limit: 100}) {
			want := ""
			if d.EventID != "EXP-1/2" || d.Feed != "" {
				who := offer.Source{Tenant: d.Tenant}
				switch {
				case d.Feed != "":
					who.Connector, who.Account = "acme", "ACC 1"
				case d.EventID == "c":
					who.Connector = "deliveries"
				}
				key := offer.ReplayKey{Source: who, EventSource: d.EventSource, EventID: d.EventID}
				if want = key.String(); d.Delivery != key.ID().String() {
					t.Errorf("%s: got delivery %s, want %s", d.Where(), d.Delivery, key.ID())
				}
			}
			if d.ReplayKey != want {
				t.Errorf("%s: got replay key %q, want %q", d.Where(), d.ReplayKey, want)
			}
		}
	}
}

func TestListGoesBackFromTheNewest(t *testing.T) {
	s := newStage(t)
	s.story()
	for what, c := range map[string]struct {
		tenant string
		filter receipt.Filter
		want   []string
	}{
		"all of a tenant":          {"t1", receipt.Filter{Limit: 100}, []string{"deliveries/1/4/1", "deliveries/1/3", "deliveries/1/1", "deliveries/1/0", "deliveries/0/4", "deliveries/0/3"}},
		"the newest two":           {"t1", receipt.Filter{Limit: 2}, []string{"deliveries/1/4/1", "deliveries/1/3"}},
		"of a feed":                {"t1", receipt.Filter{Feed: "acme-eu", Limit: 1}, []string{"deliveries/1/1"}},
		"with an outcome":          {"t1", receipt.Filter{Outcome: offer.Duplicate, Limit: 100}, []string{"deliveries/1/0"}},
		"what no feed expects":     {offer.SystemTenant, receipt.Filter{Limit: 100}, []string{"deliveries/1/2"}},
		"of a tenant without any":  {"t2", receipt.Filter{Limit: 100}, nil},
		"of an empty tenant: none": {"", receipt.Filter{Limit: 100}, nil},
	} {
		var got []string
		for _, d := range s.list(c.tenant, c.filter) {
			got = append(got, d.Where())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", what, got, c.want)
		}
	}
}

func TestListGoesBackNoFurtherThanItsReach(t *testing.T) {
	s := newStage(t)
	s.story()
	s.write(func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE lane SET next = $1 WHERE id = $2", int64(receipt.Reach+4), s.lanes[1].ID)
		return err
	})
	var got []string
	for _, d := range s.list("t1", receipt.Filter{Limit: 100}) {
		got = append(got, d.Where())
	}
	if want := []string{"deliveries/1/4/1", "deliveries/0/4", "deliveries/0/3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestADocumentHasItsCountsAndListsAlsoWhereTheyAreEmpty(t *testing.T) {
	s := newStage(t)
	key, _, _ := s.story()
	b, err := json.Marshal(s.of("t1", key.ID())[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{`"rows_rejected":[]`, `"warnings":[]`, `"flags":[]`, `"observations":[]`,
		`"results":{"saved":0,"duplicate":0,"old":0,"ambiguous_order":0,"rejected":0}`} {
		if !strings.Contains(string(b), member) {
			t.Errorf("%s is not in %s", member, b)
		}
	}
}

func TestTheFirstThousandWarningsAreKept(t *testing.T) {
	s := newStage(t)
	key := offer.ReplayKey{Source: offer.Source{Tenant: "t1"}, EventSource: "s", EventID: "1"}
	a := s.at(0, 0, 0, "t1", key, offer.Duplicate)
	for row := range 1001 {
		a.Warn(receipt.Warning{Row: row + 1, Warning: "gtin_invalid"})
	}
	s.write(func(ctx context.Context, tx pgx.Tx) error { return receipt.Record(ctx, tx, []*receipt.Attempt{a}) })
	got := s.of("t1", key.ID())[0].Warnings
	if len(got) != 1000 || got[0].Row != 1 || got[999].Row != 1000 {
		t.Errorf("got %d warnings, from row %d to %d, want rows 1 to 1000", len(got), got[0].Row, got[len(got)-1].Row)
	}
}

func TestAtFindsWhatIsDecidedAtPositionsOfTheTenant(t *testing.T) {
	s := newStage(t)
	key, _, _ := s.story()
	at := func(tenant string, positions ...receipt.Position) (got []string) {
		t.Helper()
		list := s.read(tenant, func(ctx context.Context, tx pgx.Tx) ([]receipt.Document, error) {
			return receipt.At(ctx, tx, positions)
		})
		for _, d := range list {
			got = append(got, d.Where())
		}
		return got
	}
	first, foreign, later := receipt.Position{TopicID: s.topic, Partition: 0, Offset: 4}, receipt.Position{TopicID: s.topic, Partition: 1, Offset: 2}, receipt.Position{TopicID: s.topic, Partition: 1, Offset: 99}
	if got, want := at("t1", later, first, foreign), []string{"deliveries/0/4"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := at("t1", receipt.Position{TopicID: uuid.New(), Partition: 0, Offset: 4}); got != nil {
		t.Errorf("another topic of the name: got %q", got)
	}
	if got := at("t2", first); got != nil {
		t.Errorf("another tenant: got %q", got)
	}
	if got := s.of("t2", key.ID()); got != nil {
		t.Errorf("another tenant's delivery: got %+v", got)
	}
	err := postgres.AsTenant(t.Context(), s.pool, postgres.Audit, "t2", func(tx pgx.Tx) error {
		_, err := receipt.In(t.Context(), tx, receipt.Place{Lane: s.lanes[0].ID, Offset: 4})
		return err
	})
	if err == nil {
		t.Error("another tenant's place: got no error")
	}
}
