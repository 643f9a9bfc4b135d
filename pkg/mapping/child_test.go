package mapping

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/offerlog/offerlog/pkg/offer"
	"pgregory.net/rapid"
)

// endless never ends on a row that says so; hungry takes memory without end.
var (
	endless = Spec{Order: OrderObservedAt, Program: `if .endless then last(repeat(1)) else {source_record: .sku, item: {mpn: .sku}} end`}
	hungry  = Spec{Order: OrderObservedAt, Program: `if .hungry then reduce range(40) as $i ("hungry"; . + .) else {source_record: .sku, item: {mpn: .sku}} end`}
)

func newChild(t testing.TB, cfg Config) *Child {
	t.Helper()
	c := NewChild(cfg)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// deliveries has n good ones, numbered by their record, and bad at some places.
func deliveries(spec Spec, n int, bad string, at ...int) (map[offer.Digest]Spec, []Request) {
	reqs := make([]Request, n)
	for i := range reqs {
		reqs[i] = Request{Spec: spec.Digest(), HasData: true, EventTime: noon, Payload: fmt.Appendf(nil, `{"sku":"A-%d"}`, i)}
		if slices.Contains(at, i) {
			reqs[i].Payload = []byte(bad)
		}
	}
	return map[offer.Digest]Spec{spec.Digest(): spec}, reqs
}

// check wants every delivery read but those at bad, which have hit a limit.
func check(t *testing.T, results []Result, bad ...int) {
	t.Helper()
	for i, res := range results {
		if slices.Contains(bad, i) {
			if res.Fault == nil || res.Fault.Reason != offer.ReasonMappingLimit || res.Fingerprint.Canonicalization != offer.CanonicalBytes || len(res.Rows) > 0 {
				t.Errorf("delivery %d: got %+v, want %s", i, res, offer.ReasonMappingLimit)
			}
			continue
		}
		if res.Fault != nil || len(res.Rows) != 1 || res.Rows[0].Record != fmt.Sprintf("A-%d", i) {
			t.Errorf("delivery %d: got %+v (%v)", i, res.Rows, res.Fault)
		}
	}
}

func TestChildReadsAsTheProgramDoes(t *testing.T) {
	c := newChild(t, Config{Processes: 3})
	specs := map[offer.Digest]Spec{acme.Digest(): acme, plain.Digest(): plain, withVersion.Digest(): withVersion}
	var reqs []Request
	for i := range 50 {
		reqs = append(reqs,
			Request{Spec: acme.Digest(), HasData: true, Payload: acmePage(i), Attributes: map[string]string{"id": "E-1"}},
			Request{Spec: plain.Digest(), HasData: true, Payload: []byte(`[{},{"source_record":"A","item":{"mpn":"M","gtin":"1"},"currency":"EUR","price_breaks":[{"min_qty":1,"price":0.1}]},{"price":1e99}]`), EventTime: noon},
			Request{Spec: withVersion.Digest(), HasData: true, Payload: []byte(`{"a":1,"a":2}`), ContentType: "application/json"},
			Request{Spec: plain.Digest(), Canonicalization: "json/1+id", Attributes: map[string]string{"id": "E-2"}})
	}
	got, err := c.Map(t.Context(), specs, reqs)
	if err != nil {
		t.Fatal(err)
	}
	for i := range reqs {
		want, err := mustCompile(t, specs[reqs[i].Spec]).Map(t.Context(), &reqs[i])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(packResult(nil, &got[i]), packResult(nil, &want)) {
			t.Fatalf("delivery %d: got %+v, want %+v", i, got[i], want)
		}
	}
	if results, err := c.Map(t.Context(), specs, nil); err != nil || len(results) != 0 {
		t.Errorf("no delivery: got %v, %v", results, err)
	}
}

func TestChildOutlivesAMappingThatNeverEnds(t *testing.T) {
	c := newChild(t, Config{Processes: 2, Timeout: time.Second})
	specs, reqs := deliveries(endless, 12, `{"endless":true}`, 3, 4)
	results, err := c.Map(t.Context(), specs, reqs)
	if err != nil {
		t.Fatal(err)
	}
	check(t, results, 3, 4)
}

func TestChildOutlivesAMappingThatTakesAllMemory(t *testing.T) {
	if err := canLimitMemory(); err != nil {
		t.Skip(err)
	}
	c := newChild(t, Config{Processes: 1})
	specs, reqs := deliveries(hungry, 5, `{"hungry":true}`, 2)
	results, err := c.Map(t.Context(), specs, reqs)
	if err != nil {
		t.Fatal(err)
	}
	check(t, results, 2)
	if fault := results[2].Fault; !strings.Contains(fault.Message, "memory") {
		t.Errorf("got %v, want it to say that memory ran out", fault)
	}
}

func TestChildReadsTheLargestPayload(t *testing.T) {
	c := newChild(t, Config{Processes: 1, Timeout: 10 * time.Minute}) // a race build on a busy machine is slow
	payload := acmePage(70_000)
	if len(payload) < defaultMaxBytes*9/10 || len(payload) > defaultMaxBytes {
		t.Fatalf("%d bytes", len(payload))
	}
	results, err := c.Map(t.Context(), map[offer.Digest]Spec{acme.Digest(): acme}, []Request{{Spec: acme.Digest(), HasData: true, Payload: payload}})
	if err != nil || results[0].Fault != nil || len(results[0].Rows) != 70_000 {
		t.Errorf("got %v, %v, %d rows", err, results[0].Fault, len(results[0].Rows))
	}
}

func TestChildOutlivesItsProcesses(t *testing.T) {
	c := newChild(t, Config{Processes: 1})
	specs, reqs := deliveries(plain, 3, "")
	for i := range reqs {
		reqs[i].Payload = fmt.Appendf(nil, `{"source_record":"A-%d","item":{"mpn":"M"}}`, i)
	}
	for range 3 {
		results, err := c.Map(t.Context(), specs, reqs)
		if err != nil {
			t.Fatal(err)
		}
		check(t, results)
		p := <-c.idle // as a signal from outside would, between two batches
		p.signal()
		c.idle <- p
	}
}

func TestChildIsKilledInTheMiddleOfABatch(t *testing.T) {
	c := newChild(t, Config{Processes: 1})
	specs, reqs := deliveries(acme, 400, "")
	for i := range reqs {
		reqs[i].Payload = acmePage(20)
	}
	results := make([]Result, len(reqs))
	p, err := start(t.Context(), c.cfg)
	if err != nil {
		t.Fatal(err)
	}
	watched := &killer{r: p.out, after: 100 << 10, kill: p.signal}
	p.out = bufio.NewReader(watched)
	q, err := c.part(t.Context(), p, specs, reqs, results)
	if err != nil {
		t.Fatal(err)
	}
	defer q.stop()
	if q == p || watched.after > 0 {
		t.Fatal("the process was not killed")
	}
	for i, res := range results {
		if res.Fault != nil || len(res.Rows) != 20 {
			t.Fatalf("delivery %d: got %v, %d rows", i, res.Fault, len(res.Rows))
		}
	}
}

// A killer kills once so many bytes were read.
type killer struct {
	r     io.Reader
	after int
	kill  func()
}

func (k *killer) Read(b []byte) (int, error) {
	if k.after <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := k.r.Read(b)
	if k.after -= n; k.after <= 0 {
		k.kill()
	}
	return n, err
}

func TestChildIsUsedByManyAtOnce(t *testing.T) {
	c := newChild(t, Config{Processes: 2})
	specs, reqs := deliveries(endless, 30, "")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			results, err := c.Map(t.Context(), specs, reqs)
			if err != nil {
				t.Error(err)
				return
			}
			check(t, results)
		})
	}
	wg.Wait()
}

func TestChildEndsWithItsContext(t *testing.T) {
	c := newChild(t, Config{Processes: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	specs, reqs := deliveries(endless, 2, `{"endless":true}`, 0)
	if _, err := c.Map(ctx, specs, reqs); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want the context's error", err)
	}
	results, err := c.Map(t.Context(), specs, reqs[1:])
	if err != nil || results[0].Fault != nil {
		t.Errorf("afterwards: got %v, %v", results, err)
	}
}

func TestChildSaysWhatIsNotADeliverysFault(t *testing.T) {
	c := newChild(t, Config{Processes: 1})
	specs, reqs := deliveries(plain, 1, "")
	if _, err := c.Map(t.Context(), nil, reqs); err == nil || !strings.Contains(err.Error(), "no spec has the digest") {
		t.Errorf("an unknown spec: got %v", err)
	}
	broken := Spec{Order: OrderVersion, Program: "now"}
	if _, err := c.Map(t.Context(), map[offer.Digest]Spec{broken.Digest(): broken}, []Request{{Spec: broken.Digest()}}); err == nil || !strings.Contains(err.Error(), "now") {
		t.Errorf("a spec that does not compile: got %v", err)
	}
	if _, err := c.Map(t.Context(), specs, reqs); err != nil {
		t.Errorf("afterwards: got %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Map(t.Context(), specs, reqs); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: got %v, want %v", err, ErrClosed)
	}
}

func TestShareCoversAllDeliveriesOnceInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 5000), 0, 50).Draw(t, "sizes")
		n := rapid.IntRange(1, 8).Draw(t, "processes")
		reqs := make([]Request, len(sizes))
		for i, size := range sizes {
			reqs[i].Payload = make([]byte, size)
		}
		parts, next := share(reqs, n), 0
		for _, part := range parts {
			if part.from != next || part.to <= part.from {
				t.Fatalf("got %v", parts)
			}
			next = part.to
		}
		if next != len(reqs) || len(parts) > n {
			t.Fatalf("got %v for %d deliveries and %d processes", parts, len(reqs), n)
		}
	})
}

func TestFramesSurviveTheRoundTrip(t *testing.T) {
	reqs := []Request{
		{Attributes: map[string]string{}, Payload: []byte{}},
		{Spec: plain.Digest(), Payload: []byte("{}"), HasData: true, ContentType: "application/json", Attributes: map[string]string{"id": "E-1", "subject": ""}, EventTime: noon, Canonicalization: "rows/1+id"},
	}
	for _, want := range reqs {
		frame, err := packRequest(nil, &want, &plain)
		if err != nil {
			t.Fatal(err)
		}
		got, spec, err := unpackRequest(frame)
		if err != nil || !reflect.DeepEqual(got, want) || spec.Digest() != plain.Digest() {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
		for cut := range frame {
			if _, _, err := unpackRequest(frame[:cut]); err == nil {
				t.Fatalf("cut off at %d: no error", cut)
			}
		}
	}
}
