package gateway_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/token"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/gateway"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// Each role does what its rights say at each end of the gateway, and gets 403 for everything else.
func TestS_000_11_each_role_does_at_the_gateway_what_it_may(t *testing.T) {
	w := newWorld(t, gateway.Config{})
	for _, role := range token.Roles() {
		for access, r := range map[token.Access]request{
			token.Deliver:      {headers: event("/acme", "1"), body: text(row("A-1", 1))},
			token.ReadReceipts: {method: http.MethodGet, path: "/t1/acme/ACC-1/%2Facme/1"},
		} {
			r.as = "t1/" + string(role)
			a := w.do(r)
			want := map[token.Access]int{token.Deliver: http.StatusAccepted, token.ReadReceipts: http.StatusNotFound}[access] // nothing is decided here
			if !role.May(access) {
				want = http.StatusForbidden
			}
			if a.status != want || (want == http.StatusForbidden) != (a.Code == "role_not_allowed") {
				t.Errorf("%s, %s: got %d %s, want %d", role, access, a.status, a.text, want)
			}
		}
	}
	if n := len(w.written()); n != 1 {
		t.Errorf("got %d records, want the publisher's", n)
	}
}

// Whatever is wrong with a token, the answer is the same to the byte, and nothing is written.
func TestWhoHasNoValidTokenLearnsNothing(t *testing.T) {
	w := newWorld(t, gateway.Config{})
	good := w.tokens["t1/publisher"].Reveal()
	w.revoke("t2/publisher")
	var fixed string
	for _, c := range []struct{ sentence, header string }{
		{"no token", ""},
		{"one that nobody has", "Authorization: Bearer " + token.New().Reveal()},
		{"one that was revoked", "Authorization: Bearer " + w.tokens["t2/publisher"].Reveal()},
		{"mistyped", "Authorization: Bearer " + good[:20] + string('a'+('b'-good[20])&1) + good[21:]},
		{"cut off", "Authorization: Bearer " + good[:30]},
		{"without a scheme", "Authorization: " + good},
		{"another scheme", "Authorization: Basic " + good},
		{"two in one header", "Authorization: Bearer " + good + ", Bearer " + good},
		{"two headers", "Authorization: Bearer " + good + "\nAuthorization: Bearer " + w.tokens["t1/admin"].Reveal()},
		{"the same one twice", "Authorization: Bearer " + good + "\nAuthorization: Bearer " + good},
		{"its digest", "Authorization: Bearer " + w.tokens["t1/publisher"].Digest().String()},
		{"a very long one", "Authorization: Bearer " + token.Prefix + strings.Repeat("a", 4000)},
	} {
		headers := event("/acme", "1")
		if c.header != "" {
			headers = append(headers, strings.Split(c.header, "\n")...)
		}
		a := w.do(request{as: "-", headers: headers, body: text(row("A-1", 1))})
		if fixed == "" {
			fixed = a.text
		}
		if a.status != http.StatusUnauthorized || a.text != fixed || a.headers.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: got %d %s, want 401 %s", c.sentence, a.status, a.text, fixed)
		}
	}
	if a := w.do(request{as: "-", path: "?access_token=" + good, headers: event("/acme", "1")}); a.status != http.StatusUnauthorized {
		t.Errorf("a token in the address: got %d", a.status)
	}
	if n := len(w.written()); n != 0 {
		t.Errorf("got %d records, want none", n)
	}
}

// What an event says about itself cannot make it somebody else's, and cannot make it a command.
func TestAnEventCannotSayWhoseItIs(t *testing.T) {
	w := newWorld(t, gateway.Config{}, pipeline.Ingest)
	smuggled := []string{"ce-tenant: t2", "ce-account: ACC-9", "ce-connector: beta", "ce-feed: beta", "ce-actor: root", "ce-lane: 1", "ce-laneseq: 1", "Prefer: wait=30"}
	if a := w.do(request{headers: event("/acme", "1", smuggled...), body: text(row("A-1", 1))}); a.Outcome != "accepted" || !strings.Contains(a.text, `"replay_key":"t1/acme/ACC-1/%2Facme/1"`) {
		t.Errorf("got %s, want the token's tenant", a.text)
	}
	if a := w.do(request{headers: []string{"content-type: " + structuredType, "Prefer: wait=30", "ce-source: /beta", "ce-tenant: t2"},
		body: text(strings.Replace(structured("/acme", "2", row("A-1", 2)), "{", `{"tenant":"t2","account":"ACC-9",`, 1))}); a.Outcome != "accepted" || !strings.Contains(a.text, `"tenant":"t1"`) {
		t.Errorf("structured: got %s", a.text)
	}
	if n := len(w.Observations("t2")); n != 0 {
		t.Errorf("got %d observations of the other tenant", n)
	}
	before := len(w.written())
	for sentence, c := range map[string]struct {
		headers []string
		status  int
		code    string
	}{
		"another tenant's source":     {event("/beta", "1"), 403, "source_not_authorised"},
		"a source that nobody has":    {event("/nobody", "1"), 403, "source_not_authorised"},
		"almost the source":           {event("/acme/", "1"), 403, "source_not_authorised"},
		"the source, encoded twice":   {event("%252Facme", "1"), 403, "source_not_authorised"},
		"offerlog's own source":       {event(streams.EventSource, "1"), 403, "source_not_authorised"},
		"a command":                   {append(event("/acme", "1")[:1:1], "ce-type: "+streams.FeedApplyType, "ce-source: /acme", "ce-id: 1"), 400, "type_not_expected"},
		"a command that gives tokens": {append(event("/acme", "1")[:1:1], "ce-type: "+streams.TokenCreateType, "ce-source: /acme", "ce-id: 1"), 400, "type_not_expected"},
		"an observation":              {append(event("/acme", "1")[:1:1], "ce-type: "+streams.ObservationRecorded, "ce-source: /acme", "ce-id: 1"), 400, "type_not_expected"},
	} {
		if a := w.do(request{headers: c.headers, body: text(row("A-1", 3))}); a.status != c.status || a.Code != c.code {
			t.Errorf("%s: got %d %s, want %d %s", sentence, a.status, a.text, c.status, c.code)
		}
	}
	other, nobody := w.do(request{headers: event("/beta", "1")}), w.do(request{headers: event("/nobdy", "1")})
	if strings.ReplaceAll(other.text, "/beta", "") != strings.ReplaceAll(nobody.text, "/nobdy", "") {
		t.Errorf("another tenant's source looks otherwise than one that nobody has: %s, %s", other.text, nobody.text)
	}
	if n := len(w.written()); n != before {
		t.Errorf("got %d records, want %d: what is refused is not written", n, before)
	}
}

// Requests that are no events: each ends in its code, nothing is written, and the gateway goes on.
func TestWhatIsNoEventIsRefused(t *testing.T) {
	w := newWorld(t, gateway.Config{})
	many := "[" + strings.Repeat("{},", delivery.MaxBatch) + "{}]"
	for sentence, c := range map[string]struct {
		request
		status int
		code   string
	}{
		"neither an event nor a feed":        {request{body: text("x")}, 400, "not_a_cloudevent"},
		"an unknown content type":            {request{headers: []string{"content-type: application/weird"}, body: text("x")}, 400, "not_a_cloudevent"},
		"no id":                              {request{headers: []string{"ce-specversion: 1.0", "ce-type: " + streams.DeliveryType, "ce-source: /acme"}}, 400, "not_a_cloudevent"},
		"an older version":                   {request{headers: []string{"ce-specversion: 0.3", "ce-id: 1", "ce-type: " + streams.DeliveryType, "ce-source: /acme"}}, 400, "not_a_cloudevent"},
		"a header twice":                     {request{headers: event("/acme", "1", "ce-id: 2")}, 400, "not_a_cloudevent"},
		"a header twice, in other letters":   {request{headers: event("/acme", "1", "Ce-ID: 1")}, 400, "not_a_cloudevent"},
		"content-type twice":                 {request{headers: event("/acme", "1", "content-type: "+structuredType)}, 400, "not_a_cloudevent"},
		"and once as an attribute":           {request{headers: event("/acme", "1", "ce-datacontenttype: text/csv")}, 400, "not_a_cloudevent"},
		"a name that no attribute has":       {request{headers: event("/acme", "1", "ce-a_b: 1")}, 400, "not_a_cloudevent"},
		"an attribute named data":            {request{headers: event("/acme", "1", "ce-data: 1")}, 400, "not_a_cloudevent"},
		"a line break, encoded":              {request{headers: event("/acme", "1%0D%0Aset-cookie: x")}, 400, "not_a_cloudevent"},
		"a NUL, encoded":                     {request{headers: event("/acme", "1%00")}, 400, "not_a_cloudevent"},
		"bytes that are no text, encoded":    {request{headers: event("/acme", "%FF")}, 400, "not_a_cloudevent"},
		"a percent sign for itself":          {request{headers: event("/acme", "100%")}, 400, "not_a_cloudevent"},
		"quotes that are not closed":         {request{headers: event("/acme", `"1`)}, 400, "not_a_cloudevent"},
		"quotes in the middle":               {request{headers: event("/acme", `"1"2"`)}, 400, "not_a_cloudevent"},
		"an id as long as a header may be":   {request{headers: event("/acme", strings.Repeat("x", 2000))}, 400, "not_a_cloudevent"},
		"a source that is no URI":            {request{headers: event("%25zz%20%0", "1")}, 400, "not_a_cloudevent"},
		"an event in another format":         {request{headers: []string{"content-type: application/cloudevents+avro"}}, 415, "unsupported_format"},
		"the same, with a feed":              {request{path: "?feed=acme", headers: []string{"content-type: application/cloudevents+avro"}}, 415, "unsupported_format"},
		"an event as the payload of one":     {request{headers: []string{"content-type: " + structuredType}, body: text(strings.Replace(structured("/acme", "1", "{}"), "{", `{"datacontenttype":"application/cloudevents+json",`, 1))}, 415, "unsupported_format"},
		"structured, and no JSON":            {request{headers: []string{"content-type: " + structuredType}, body: text("{")}, 400, "not_a_cloudevent"},
		"structured, an id twice":            {request{headers: []string{"content-type: " + structuredType}, body: text(strings.Replace(structured("/acme", "1", "{}"), "{", `{"id":"2",`, 1))}, 400, "not_a_cloudevent"},
		"structured, data in two forms":      {request{headers: []string{"content-type: " + structuredType}, body: text(strings.Replace(structured("/acme", "1", "{}"), "{", `{"data_base64":"MQ==",`, 1))}, 400, "not_a_cloudevent"},
		"structured as a batch":              {request{headers: []string{"content-type: " + batchType}, body: text(structured("/acme", "1", "{}"))}, 400, "not_a_cloudevent"},
		"a batch that was cut off":           {request{headers: []string{"content-type: " + batchType}, body: text("[" + structured("/acme", "1", "{}"))}, 400, "not_a_cloudevent"},
		"a batch of 10,001 events":           {request{headers: []string{"content-type: " + batchType}, body: text(many)}, 400, "not_a_cloudevent"},
		"deep nesting":                       {request{headers: []string{"content-type: " + batchType}, body: text(strings.Repeat("[", 1<<20))}, 400, "not_a_cloudevent"},
		"a form":                             {request{path: "?feed=acme", headers: []string{"content-type: application/x-www-form-urlencoded"}, body: text("a=b")}, 415, "form_not_taken"},
		"an upload of a browser":             {request{path: "?feed=acme", headers: []string{"content-type: multipart/form-data; boundary=x"}, body: text("--x--")}, 415, "form_not_taken"},
		"an idempotency key twice":           {request{path: "?feed=acme", headers: []string{"Idempotency-Key: 1", "Idempotency-Key: 2"}}, 400, "bad_request"},
		"an empty idempotency key":           {request{path: "?feed=acme", headers: []string{`Idempotency-Key: ""`}}, 400, "bad_request"},
		"reading where deliveries are sent":  {request{method: http.MethodGet}, 405, "method_not_allowed"},
		"sending where a delivery is read":   {request{path: "/t1/a/b/c/d"}, 405, "method_not_allowed"},
		"a delivery that is no key":          {request{method: http.MethodGet, path: "/nonsense"}, 404, "no_delivery"},
		"a key with a broken percent sign":   {request{method: http.MethodGet, path: "/t1/a/b/c/%25zz"}, 404, "no_delivery"},
		"a path that climbs":                 {request{method: http.MethodGet, path: "/../../metrics"}, 404, "no_delivery"},
		"another path":                       {request{method: http.MethodGet, path: "s"}, 404, "not_found"},
		"nothing at all, without a feed":     {request{}, 400, "not_a_cloudevent"},
		"a command, named by its feed alone": {request{path: "?feed=acme", headers: []string{"ce-type: " + streams.FeedApplyType}}, 400, "type_not_expected"},
	} {
		if a := w.do(c.request); a.status != c.status || a.Code != c.code || a.headers.Get("Content-Type") != "application/problem+json" || a.headers.Get("Set-Cookie") != "" {
			t.Errorf("%s: got %d %s, want %d %s", sentence, a.status, a.text, c.status, c.code)
		}
	}
	if n := len(w.written()); n != 0 {
		t.Errorf("got %d records, want none", n)
	}
	if a := w.do(request{headers: event("/acme", "1")}); a.status != http.StatusAccepted {
		t.Errorf("afterwards: got %d %s", a.status, a.text)
	}
}

// What no client library would send.
func TestRawRequests(t *testing.T) {
	w := newWorld(t, gateway.Config{})
	bearer := "Authorization: Bearer " + w.tokens["t1/publisher"].Reveal() + "\r\n"
	start := "POST " + gateway.Path + " HTTP/1.1\r\nHost: x\r\n"
	for sentence, c := range map[string]struct {
		text   string
		status int
	}{
		"headers of more than 16 KiB":          {start + bearer + "ce-subject: " + strings.Repeat("x", 24<<10) + "\r\n\r\n", 431},
		"thousands of headers":                 {start + bearer + strings.Repeat("ce-a: 1\r\n", 3000) + "\r\n", 431},
		"two lengths":                          {start + bearer + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400},
		"a length and chunks":                  {start + bearer + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		"a negative length":                    {start + bearer + "Content-Length: -1\r\n\r\n", 400},
		"a header without a name":              {start + bearer + ": x\r\n\r\n", 400},
		"a line break in a header":             {start + bearer + "ce-id: 1\rce-source: /beta\r\n\r\n", 400},
		"a length that is far too large":       {start + bearer + "Content-Length: 99999999999\r\n\r\n", 413},
		"a length that needs more than 64 bit": {start + bearer + "Content-Length: 99999999999999999999999\r\n\r\n", 400},
	} {
		a, err := w.raw(c.text)
		if err != nil || a.status != c.status {
			t.Errorf("%s: got %d %s, %v, want %d", sentence, a.status, a.text, err, c.status)
		}
	}
	if n := len(w.written()); n != 0 {
		t.Errorf("got %d records, want none", n)
	}
}

// endless gives the same byte for ever. A client may go on reading while its answer is already here.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.read.Add(int64(len(p)))
	return len(p), nil
}

func TestNoBodyIsReadBeyondItsLimit(t *testing.T) {
	w := newWorld(t, gateway.Config{})
	const over = 16 << 20 // what may wait in buffers of the connection
	body := &endless{}
	req := request{headers: event("/acme", "1"), body: body}
	if a, err := w.try(req); err == nil && (a.status != http.StatusRequestEntityTooLarge || a.Code != "payload_too_large") {
		t.Errorf("a body without end: got %d %s", a.status, a.text)
	}
	if n := body.read.Load(); n > delivery.MaxInline+over {
		t.Errorf("%d bytes were taken of a body without end", n)
	}
	declared := w.do(request{headers: event("/acme", "1"), body: bytes.NewReader(make([]byte, delivery.MaxInline+1))})
	if declared.status != http.StatusRequestEntityTooLarge || !strings.Contains(declared.Detail, "dataref") {
		t.Errorf("one byte more: got %d %s, want 413 and what to do", declared.status, declared.text)
	}
	for sentence, r := range map[string]request{
		"the largest payload":              {headers: event("/acme", "1"), body: bytes.NewReader(bytes.Repeat([]byte("x"), delivery.MaxInline))},
		"and in chunks, whose end is open": {headers: event("/acme", "2"), body: io.LimitReader(&endless{}, delivery.MaxInline)},
	} {
		if a := w.do(r); a.status != http.StatusAccepted {
			t.Errorf("%s: got %d %s", sentence, a.status, a.text)
		}
	}
}

// Compressed bytes are bytes: nothing here looks inside.
func TestCompressedBytesAreKeptAsTheyAre(t *testing.T) {
	w := newWorld(t, gateway.Config{})
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	_, err := io.CopyN(zip, &endless{}, 64<<20)
	if err == nil {
		err = zip.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	a := w.do(request{path: "?feed=acme", headers: []string{"Content-Encoding: gzip", "content-type: application/json"}, body: bytes.NewReader(bomb.Bytes())})
	if a.status != http.StatusAccepted {
		t.Fatalf("got %d %s", a.status, a.text)
	}
	if got := w.Committed(streams.Deliveries)[0].Value; !bytes.Equal(got, bomb.Bytes()) {
		t.Errorf("got %d bytes, want the %d that were sent", len(got), bomb.Len())
	}
}

// Data of zero bytes and no data are two things.
func TestAnEmptyFileIsAFileAndAnEventWithoutDataHasNone(t *testing.T) {
	w := newWorld(t, gateway.Config{})
	for sentence, r := range map[string]request{
		"0 bytes":  {path: "?feed=acme", headers: []string{"Idempotency-Key: 0 bytes"}},
		"0 bytes ": {headers: []string{"content-type: text/csv", "ce-specversion: 1.0", "ce-type: " + streams.DeliveryType, "ce-source: /acme", "ce-id: 0 bytes%20"}},
		"no data":  {headers: []string{"ce-specversion: 1.0", "ce-type: " + streams.DeliveryType, "ce-source: /acme", "ce-id: no data"}},
	} {
		if a := w.do(r); a.status != http.StatusAccepted {
			t.Errorf("%s: got %d %s", sentence, a.status, a.text)
		}
	}
	records := w.Committed(streams.Deliveries)
	for _, r := range records {
		if id := headersOf(r)["ce_id"]; (r.Value == nil) != (id == "no data") {
			t.Errorf("%q: got value %v", id, r.Value)
		}
	}
	if len(records) != 3 {
		t.Errorf("got %d records, want 3", len(records))
	}
}
