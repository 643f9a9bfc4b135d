package ingest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/schemas"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// results are the events on delivery-results, by where their attempts stand; each fits the schema of its type.
func (s *scene) results() map[string]receipt.Result {
	s.t.Helper()
	s.ingested()
	s.Until("all numbers to be published", func(ctx context.Context) (done bool, err error) {
		err = s.inspect(ctx, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, `SELECT count(*) = 0
			                           FROM audit_v1.position AS p LEFT JOIN audit_v1.relay AS r ON r.lane = p.lane
			                          WHERE p.kind = 'input' AND p.sequence > coalesce(r.published_seq, 0)`).Scan(&done)
		})
		return done, err
	})
	b, err := schemas.Events.ReadFile("events/" + streams.DeliveryResult + ".json")
	if err != nil {
		s.t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		s.t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("result", doc); err != nil {
		s.t.Fatal(err)
	}
	contract := c.MustCompile("result")
	found := map[string]receipt.Result{}
	for _, rec := range s.Committed(streams.DeliveryResults) {
		data, err := jsonschema.UnmarshalJSON(bytes.NewReader(rec.Value))
		if err == nil {
			err = contract.Validate(data)
		}
		var r receipt.Result
		if err == nil {
			err = json.Unmarshal(rec.Value, &r)
		}
		if err != nil {
			s.t.Fatalf("%s: %v", rec.Value, err)
		}
		key := r.ReplayKey
		if key == "" {
			key = offer.JoinKey(r.Tenant, r.Where())
		}
		if string(rec.Key) != key {
			s.t.Errorf("%s: got key %s, want %s", r.Where(), rec.Key, key)
		}
		for _, h := range rec.Headers {
			if h.Key == "ce_type" && string(h.Value) != streams.DeliveryResult || h.Key == "ce_tenant" && string(h.Value) != r.Tenant {
				s.t.Errorf("%s: got header %s %s", r.Where(), h.Key, h.Value)
			}
		}
		if _, twice := found[r.Where()]; twice {
			s.t.Errorf("%s is told twice", r.Where())
		}
		found[r.Where()] = r
	}
	return found
}

func TestResultsAreToldAsTheFeedWants(t *testing.T) {
	for policy, accepted := range map[string]bool{"exceptions": false, "all": true} {
		t.Run(policy, func(t *testing.T) {
			s := newScene(t, pipeline.Options{})
			s.StartAll()
			s.ApplyFeed(specOf(t, "policy: {results: "+policy+"}\n"))
			s.Publish(delivery("D", row("A", 1, "1")))
			s.ingested()
			s.Feed(s.rng, delivery("D", row("A", 1, "1")), delivery("D", row("A", 1, "2")), delivery("partly", `[{"sku": "B", "rev": 1, "qty": 1}, {"rev": 1}]`),
				delivery("bad", "{"), delivery("unknown", "{}", "source", "/nobody"), delivery("", "{}"))
			s.Publish(batchOf(structured("inside", row("C", 1, "1"), ""), structured("inside", row("C", 1, "1"), "")))
			told := s.results()
			for _, o := range s.outcomes(streams.Deliveries, "") {
				at := receipt.Standpoint{Topic: streams.Deliveries, Partition: o.Partition, Offset: o.Offset, Item: o.Item}
				r, is := told[at.Where()]
				if want := accepted || o.Outcome != "accepted"; is != want {
					t.Errorf("%s, %v: told %t, want %t", at.Where(), o, is, want)
				}
				if is && (string(r.Outcome) != o.Outcome || r.Reason != o.Reason || r.Detail != o.Detail || r.EventID != o.EventID || r.Tenant != o.Tenant || r.Rows != o.Rows || r.Results != o.Results) {
					t.Errorf("%s: got %+v, want %+v", at.Where(), r, o)
				}
				delete(told, at.Where())
			}
			if len(told) > 0 {
				t.Errorf("got %v, which is nothing that became of a delivery", told)
			}
			// What is told is what a receipt says, as far as that never changes.
			for _, d := range s.attempts("D") {
				if r := s.results()[d.Where()]; (accepted || d.Outcome != offer.Accepted) && fmt.Sprintf("%+v", r) != fmt.Sprintf("%+v", d.Result) {
					t.Errorf("told\n%+v, the receipt says\n%+v", r, d.Result)
				}
			}
			s.verify()
		})
	}
}
