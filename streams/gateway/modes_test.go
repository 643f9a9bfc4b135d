package gateway_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/gateway"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

const (
	structuredType = "application/cloudevents+json; charset=utf-8"
	batchType      = "application/cloudevents-batch+json"
)

// One delivery, sent in every way there is: the first is accepted, and all others are repeats of it.
func TestEveryModeIsTheSameDelivery(t *testing.T) {
	w := newWorld(t, gateway.Config{}, pipeline.Ingest)
	const id = "EXP-1/2 ü" // percent-encoded where it is in a header
	data := row("A-1", 1)
	sdk := func(encode func(*http.Request, binding.Message) error) request {
		e := cloudevents.NewEvent()
		e.SetID("EXP-1/2 ü")
		e.SetSource("/acme")
		e.SetType(streams.DeliveryType)
		e.SetDataContentType("application/json")
		e.DataEncoded = []byte(data)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url, nil)
		if err == nil {
			err = encode(req, binding.ToMessage(&e))
		}
		if err != nil {
			t.Fatal(err)
		}
		r := request{body: req.Body}
		for name, values := range req.Header {
			if strings.EqualFold(name, "ce-id") {
				values = []string{"EXP-1/2%20%C3%BC"} // the SDK does not encode it, which the binding demands
			}
			r.headers = append(r.headers, name+": "+values[0])
		}
		return r
	}
	for i, c := range []struct {
		sentence string
		request
	}{
		{"binary", request{headers: event("/acme", "EXP-1/2%20%C3%BC"), body: text(data)}},
		{"binary, with small letters and quotes", request{headers: event("/acme", `"EXP-1\/2 %c3%bc"`), body: text(data)}},
		{"structured", request{headers: []string{"content-type: " + structuredType}, body: text(structured("/acme", id, data))}},
		{"batch", request{headers: []string{"content-type: " + batchType}, body: text("[" + structured("/acme", id, data) + "]")}},
		{"a plain file with a feed and an id", request{path: "?feed=acme", headers: []string{"ce-id: EXP-1/2%20%C3%BC"}, body: text(data)}},
		{"and with an idempotency key", request{path: "?feed=acme", headers: []string{"Idempotency-Key: \"" + id + "\"", "content-type: text/plain"}, body: text(data)}},
		{"the SDK, binary", sdk(func(r *http.Request, m binding.Message) error { return cehttp.WriteRequest(t.Context(), m, r) })},
		{"the SDK, structured", sdk(func(r *http.Request, m binding.Message) error {
			return cehttp.WriteRequest(binding.WithForceStructured(t.Context()), m, r)
		})},
	} {
		c.headers = append(c.headers, "Prefer: respond-async, wait=30")
		a := w.do(c.request)
		want := map[bool]string{true: "accepted", false: "duplicate"}[i == 0]
		if len(a.Items) == 1 {
			a.status, a.Outcome = a.Items[0].Status, a.Items[0].Receipt.Outcome
		}
		if a.status != http.StatusOK || a.Outcome != want {
			t.Errorf("%s: got %d %s, want 200 and %s", c.sentence, a.status, a.text, want)
		}
	}
	if n := len(w.Observations("t1")); n != 1 {
		t.Errorf("got %d observations, want 1", n)
	}
	for _, r := range w.Committed(streams.Deliveries) {
		h := headersOf(r)
		if h["ce_id"] != id || h["ce_source"] != "/acme" || !sameJSON(t, r.Value, []byte(data)) || string(r.Key) != id {
			t.Errorf("got key %s and %v with %s", r.Key, h, r.Value)
		}
	}
}

// A file has the name and the content that it has, however often it is dropped.
func TestS_000_17_the_same_file_is_one_delivery(t *testing.T) {
	w := newWorld(t, gateway.Config{}, pipeline.Ingest)
	file := func(name, content string) request {
		r := request{path: "?feed=acme", headers: []string{"content-type: application/json", "Prefer: wait=30"}, body: text(content)}
		if name != "" {
			r.headers = append(r.headers, "Content-Disposition: attachment; filename="+name)
		}
		return r
	}
	monday, tuesday := row("A-1", 1), row("A-1", 2)
	first, second := w.do(file("prices.json", monday)), w.do(file(`"C:\\drop\\prices.json"`, monday))
	if first.Outcome != "accepted" || second.Outcome != "duplicate" || !strings.Contains(second.text, `"attempts":2`) {
		t.Errorf("got %s and %s, want one delivery with two attempts", first.text, second.text)
	}
	for sentence, r := range map[string]request{
		"another content under the name is another delivery": file("prices.json", tuesday),
		"and so is the content under another name":           file("stock.json", monday),
		"or without one": file("", monday),
	} {
		if a := w.do(r); a.Outcome != "accepted" {
			t.Errorf("%s: got %s", sentence, a.text)
		}
	}
	if a := w.do(file("", monday)); a.Outcome != "duplicate" || !strings.Contains(a.text, `"event_id":"acme@`) {
		t.Errorf("without a name, again: got %s", a.text)
	}
}

// A connector without Kafka tells of its run by HTTP, in each mode; what it may not say is never written.
func TestS_000_05_ARunIsToldOverHTTP(t *testing.T) {
	w := newWorld(t, gateway.Config{}, pipeline.Ingest, pipeline.Relay, pipeline.Project)
	of := func(kind, id, data string) request {
		e := strings.Replace(structured("/acme", id, data), streams.DeliveryType, kind, 1)
		return request{headers: []string{"content-type: " + structuredType}, body: text(strings.Replace(e, "{", `{"runid": "EXP-7", `, 1))}
	}
	binary := func(kind, id, data string, more ...string) request {
		return request{headers: append(slices.DeleteFunc(event("/acme", id), func(h string) bool { return strings.HasPrefix(h, "ce-type") }),
			append([]string{"ce-type: " + kind, "ce-runid: EXP-7"}, more...)...), body: text(data)}
	}
	batch := func(r request) request {
		return request{headers: []string{"content-type: " + batchType}, body: io.MultiReader(text("["), r.body, text("]"))}
	}
	for range 2 { // the second time all are repeats
		for sentence, r := range map[string]request{
			"started, binary":    binary(streams.RunStarted, "EXP-7/started", `{"pages": 3, "credential": "vault:suppliers/acme#reader", "started_at": "2026-03-02T07:00:00Z"}`),
			"failed, structured": of(streams.RunFailed, "EXP-7/failed", `{"page": 3, "attempt": 2, "error": "503 Service Unavailable", "failed_at": "2026-03-02T07:01:00Z"}`),
			"completed, batch":   batch(of(streams.RunCompleted, "EXP-7/completed", `{"pages": 3, "completed_at": "2026-03-02T07:02:00Z"}`)),
			"a page":             binary(streams.DeliveryType, "EXP-7/1", row("A-1", 1), "ce-page: 1"),
		} {
			if a := w.do(r); a.status != http.StatusAccepted {
				t.Errorf("%s: got %d %s, want 202", sentence, a.status, a.text)
			}
		}
	}
	w.Settle()
	var told, outcomes string
	err := postgres.InTx(t.Context(), w.Pool, postgres.Inspect, func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), `
			SELECT (SELECT string_agg(concat_ws(' ', kind, at, credential, pages, page, attempt, error), ', ' ORDER BY at) FROM audit_v1.run_event),
			       (SELECT string_agg(outcome || ' ' || n, ', ' ORDER BY outcome) FROM (SELECT outcome, count(*) AS n FROM audit_v1.outcome GROUP BY outcome) AS o)`).Scan(&told, &outcomes)
	})
	if want := "started 2026-03-02T07:00:00Z vault:suppliers/acme#reader 3, failed 2026-03-02T07:01:00Z 3 2 503 Service Unavailable, completed 2026-03-02T07:02:00Z 3"; err != nil || told != want {
		t.Errorf("got %q, %v, want %q", told, err, want)
	}
	if outcomes != "accepted 4, duplicate 4" {
		t.Errorf("got %s, want each accepted once and repeated once", outcomes)
	}
	for sentence, c := range map[string]struct {
		request
		code, names string
	}{
		"a secret for a credential": {binary(streams.RunStarted, "S", `{"credential": "bearer:`+marker+`"}`), "schema_invalid", "credential"},
		"a member that it has not":  {binary(streams.RunFailed, "M", `{"pages": 1}`), "schema_invalid", ""},
		"no run":                    {request{headers: []string{"content-type: " + structuredType}, body: text(strings.Replace(structured("/acme", "N", "{}"), streams.DeliveryType, streams.RunStarted, 1))}, "not_a_cloudevent", "runid"},
	} {
		if a := w.do(c.request); a.status != http.StatusBadRequest || a.Code != c.code || !strings.Contains(a.Detail, c.names) || strings.Contains(a.text, marker) {
			t.Errorf("%s: got %d %s, want it refused as %s with %q", sentence, a.status, a.text, c.code, c.names)
		}
	}
	if n := len(w.written()); n != 8 {
		t.Errorf("got %d records, want those of what is taken", n)
	}
}

func TestADeliveryIsAnsweredWithAPlaceToLook(t *testing.T) {
	w := newWorld(t, gateway.Config{}, pipeline.Ingest, pipeline.Relay, pipeline.Project)
	a := w.do(request{headers: event("/acme", "EXP-1"), body: text(row("A-1", 1))})
	if a.status != http.StatusAccepted || a.Topic != streams.Deliveries || a.ID != "EXP-1" || a.ReplayKey != "t1/acme/ACC-1/%2Facme/EXP-1" ||
		a.Location != gateway.Path+"/"+a.ReplayKey || a.headers.Get("Location") != a.Location {
		t.Fatalf("got %d %s, location %s", a.status, a.text, a.headers.Get("Location"))
	}
	w.Settle()
	path := strings.TrimPrefix(a.Location, gateway.Path)
	for range 2 {
		w.do(request{headers: event("/acme", "EXP-1", "Prefer: wait=30"), body: text(row("A-1", 1))})
	}
	mismatch := w.do(request{headers: event("/acme", "EXP-1", "Prefer: wait=30"), body: text(row("A-1", 2))})
	if mismatch.status != http.StatusUnprocessableEntity || mismatch.Code != "replay_payload_mismatch" || mismatch.headers.Get("Content-Type") != "application/problem+json" ||
		mismatch.Receipt == nil || mismatch.Receipt.Outcome != "quarantined" || mismatch.Status != mismatch.status {
		t.Errorf("another payload: got %d %s", mismatch.status, mismatch.text)
	}
	for who, want := range map[string]int{"t1/publisher": 200, "t1/operator": 200, "t1/auditor": 200, "t1/reader": 403, "t1/admin": 403, "t2/publisher": 404, "-": 401} {
		got := w.do(request{method: http.MethodGet, path: path, as: who})
		if got.status != want {
			t.Errorf("%s: got %d %s, want %d", who, got.status, got.text, want)
		}
		if want != http.StatusOK {
			continue
		}
		var outcomes []string
		for _, d := range receiptOf(t, got).History {
			outcomes = append(outcomes, string(d.Outcome))
		}
		if got.Outcome != "accepted" || !slices.Equal(outcomes, []string{"accepted", "duplicate", "duplicate", "quarantined"}) {
			t.Errorf("%s: got %s and %v", who, got.Outcome, outcomes)
		}
	}
	// By its id too, which says nothing about the tenant: it is looked for among the bearer's.
	id := receiptOf(t, w.do(request{method: http.MethodGet, path: path})).Delivery
	for who, want := range map[string]int{"t1/publisher": 200, "t2/publisher": 404} {
		if got := w.do(request{method: http.MethodGet, path: "/" + id, as: who}); got.status != want {
			t.Errorf("%s by id: got %d, want %d", who, got.status, want)
		}
	}
	other, unknown := w.do(request{method: http.MethodGet, path: path, as: "t2/publisher"}), w.do(request{method: http.MethodGet, path: "/t1/x/x/x/x"})
	if other.text != unknown.text || unknown.Code != "no_delivery" {
		t.Errorf("another tenant's delivery looks otherwise than one that nobody has: %s, %s", other.text, unknown.text)
	}
	if offers := w.Offers("t1"); len(offers) != 1 || offers[0].Version != "1" {
		t.Errorf("got offers %+v, want version 1 of one", offers)
	}
}

func receiptOf(t *testing.T, a answer) (r struct {
	receipt.Document
	History []receipt.Document
}) {
	t.Helper()
	decode(t, a.text, &r)
	return r
}

// Commands have receipts as well, and they are nobody's but the operator's.
func TestAPublisherSeesNoCommand(t *testing.T) {
	w := newWorld(t, gateway.Config{}, pipeline.Ingest)
	w.ApplyFeed(spec(t, "t1", "gamma", "/gamma", streams.Deliveries))
	id := headersOf(w.Committed(streams.Commands)[0])["ce_id"]
	for who, want := range map[string]int{"t1/publisher": 404, "t1/auditor": 404, "t1/operator": 200} {
		if a := w.do(request{method: http.MethodGet, path: "/t1/commands//%2Ftest/" + id, as: who}); a.status != want {
			t.Errorf("%s: got %d %s, want %d", who, a.status, a.text, want)
		}
	}
}

// Each event of a batch has its own answer, whatever becomes of its neighbours.
func TestEachEventOfABatchIsAnswered(t *testing.T) {
	w := newWorld(t, gateway.Config{}, pipeline.Ingest)
	good := structured("/acme", "B-1", row("A-1", 1))
	a := w.do(request{headers: []string{"content-type: " + batchType, "Prefer: wait=30"}, body: text("[" + strings.Join([]string{
		good, structured("/beta", "B-2", row("A-2", 1)), `{"specversion":"1.0"}`, structured("/acme", "B-3", "7"), structured("/night", "B-4", "{}"),
		strings.Replace(good, "delivery.v1", "command.feed.apply.v1", 1), good}, ",") + "]")})
	var got []string
	for i, it := range a.Items {
		code := ""
		switch {
		case it.Problem != nil:
			code = it.Problem.Code
		case it.Receipt != nil:
			code = it.Receipt.Outcome
		}
		got = append(got, http.StatusText(it.Status)+" "+code)
		if it.Item != i {
			t.Errorf("item %d is numbered %d", i, it.Item)
		}
	}
	want := []string{"OK accepted", "Forbidden source_not_authorised", "Bad Request not_a_cloudevent", "Unprocessable Entity mapping_error", "Conflict feed_ambiguous",
		"Bad Request type_not_expected", "OK duplicate"}
	if a.status != http.StatusMultiStatus || !slices.Equal(got, want) {
		t.Errorf("got %d %q, want 207 and %q", a.status, got, want)
	}
	if n := len(w.written()); n != 3 {
		t.Errorf("got %d records, want those of the three that are taken", n)
	}
	if a := w.do(request{headers: []string{"content-type: " + batchType}, body: text("[]")}); a.status != http.StatusAccepted || a.text != "{\"items\":[]}\n" {
		t.Errorf("an empty batch: got %d %s", a.status, a.text)
	}
}

func TestAFeedIsNamedWhereASourceHasSeveral(t *testing.T) {
	w := newWorld(t, gateway.Config{})
	if a := w.do(request{path: "?feed=acme-day", headers: event("/night", "1"), body: text("{}")}); a.status != http.StatusAccepted || a.Topic != "express" {
		t.Errorf("got %d %s, want it on the feed's topic", a.status, a.text)
	}
	for sentence, c := range map[string]struct {
		request
		status int
		code   string
	}{
		"two feeds of the source":      {request{headers: event("/night", "1")}, 409, "feed_ambiguous"},
		"another source than the feed": {request{path: "?feed=acme", headers: event("/night", "1")}, 403, "source_not_authorised"},
		"another tenant's feed":        {request{path: "?feed=beta", headers: event("/beta", "1")}, 404, "no_feed"},
		"no feed of the name":          {request{path: "?feed=nobody"}, 404, "no_feed"},
		"an empty name":                {request{path: "?feed="}, 404, "no_feed"},
		"two names":                    {request{path: "?feed=acme&feed=acme-day"}, 400, "bad_request"},
	} {
		if a := w.do(c.request); a.status != c.status || a.Code != c.code {
			t.Errorf("%s: got %d %s, want %d %s", sentence, a.status, a.text, c.status, c.code)
		}
	}
}

// The request's trace is the record's; what the event says of its own stays with the event.
func TestTheTraceOfARequestPasses(t *testing.T) {
	w := newWorld(t, gateway.Config{})
	const parent, own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-11111111111111111111111111111111-2222222222222222-00"
	w.do(request{headers: event("/acme", "1", "traceparent: "+parent, "tracestate: a=1", "ce-traceparent: "+own)})
	w.do(request{headers: event("/acme", "2", "traceparent: 00-nonsense", "tracestate: a=1")})
	w.do(request{headers: event("/acme", "3", "traceparent: "+parent, "traceparent: "+parent)})
	for _, r := range w.Committed(streams.Deliveries) {
		h := headersOf(r)
		want := []string{"", "", ""}
		if h["ce_id"] == "1" {
			want = []string{parent, "a=1", own}
		}
		if got := []string{h["traceparent"], h["tracestate"], h["ce_traceparent"]}; !slices.Equal(got, want) {
			t.Errorf("event %s: got %q, want %q", h["ce_id"], got, want)
		}
	}
}

// What a publisher says of the key is taken; without it the id is the key, so that a repeat is behind the first.
func TestThePublishersKeyIsTheRecords(t *testing.T) {
	w := newWorld(t, gateway.Config{})
	w.do(request{headers: event("/acme", "1", "ce-partitionkey: acme")})
	w.do(request{headers: event("/acme", "2")})
	var keys []string
	for _, r := range w.Committed(streams.Deliveries) {
		keys = append(keys, string(r.Key))
	}
	slices.Sort(keys)
	if !slices.Equal(keys, []string{"2", "acme"}) {
		t.Errorf("got keys %q", keys)
	}
}

// Where a feed's deliveries are named by something else than the event's id, the place to look is named by that.
func TestTheReplayKeyIsTheOneOfTheFeedsIdentity(t *testing.T) {
	w := newWorld(t, gateway.Config{}, pipeline.Ingest)
	snapshots := spec(t, "t1", "snapshots", "/snapshots", streams.Deliveries)
	snapshots.Identity = delivery.Identity{Fields: []string{"snapshot"}}
	w.ApplyFeed(snapshots)
	for i, want := range []string{"accepted", "duplicate"} {
		a := w.do(request{headers: event("/snapshots", "any-"+want, "ce-snapshot: S%2F7", "Prefer: wait=30"), body: text(row("A-1", 1))})
		if a.status != http.StatusOK || a.Outcome != want {
			t.Errorf("attempt %d: got %d %s, want %s", i+1, a.status, a.text, want)
		}
		if got := w.do(request{method: http.MethodGet, path: strings.TrimPrefix(a.headers.Get("Location"), gateway.Path)}); got.status != http.StatusOK || got.Outcome != "accepted" {
			t.Errorf("at %s: got %d %s", a.headers.Get("Location"), got.status, got.text)
		}
	}
	if a := w.do(request{headers: event("/snapshots", "1"), body: text(row("A-1", 1))}); a.status != http.StatusBadRequest || !strings.Contains(a.Detail, "snapshot") {
		t.Errorf("without it: got %d %s", a.status, a.text)
	}
}
