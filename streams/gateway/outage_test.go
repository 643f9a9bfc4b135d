package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/gateway"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// While Kafka does not take records nothing is half done: the answer says when to come again, and the same request then gives
// one delivery.
func TestKafkaOutOfReachIsAnsweredWith503(t *testing.T) {
	w := newWorld(t, gateway.Config{Produce: time.Second})
	r := func() request { return request{headers: event("/acme", "1"), body: text(row("A-1", 1))} }
	refuse := true
	var mu sync.Mutex
	w.Broker.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		mu.Lock()
		defer mu.Unlock()
		w.Broker.KeepControl()
		if !refuse {
			return nil, nil, false
		}
		produce := req.(*kmsg.ProduceRequest)
		resp := produce.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range produce.Topics {
			t := kmsg.NewProduceResponseTopic()
			t.Topic, t.TopicID = topic.Topic, topic.TopicID
			for _, p := range topic.Partitions {
				answer := kmsg.NewProduceResponseTopicPartition()
				answer.Partition, answer.ErrorCode = p.Partition, kerr.NotEnoughReplicas.Code
				t.Partitions = append(t.Partitions, answer)
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp, nil, true
	})
	for _, request := range []request{r(), {headers: []string{"content-type: " + structuredType, "Prefer: wait=30"}, body: text(structured("/acme", "1", row("A-1", 1)))}} {
		a := w.do(request)
		if a.status != http.StatusServiceUnavailable || a.Code != "unavailable" || a.headers.Get("Retry-After") == "" {
			t.Errorf("got %d %s, want 503 and when to come again", a.status, a.text)
		}
	}
	if n := len(w.written()); n != 0 {
		t.Errorf("got %d records, want none", n)
	}
	mu.Lock()
	refuse = false
	mu.Unlock()
	w.Until("Kafka to be back", func() bool { return w.do(r()).status == http.StatusAccepted })
	for _, rec := range w.written() {
		if headersOf(rec)["ce_id"] != "1" {
			t.Errorf("got %v", headersOf(rec))
		}
	}
}

func TestTheDatabaseOutOfReachIsAnsweredWith503(t *testing.T) {
	w := newWorld(t, gateway.Config{})
	w.Pool.Config().ConnConfig.ConnectTimeout = time.Second
	w.Pool.Close()
	a := w.do(request{headers: event("/acme", "1"), body: text(row("A-1", 1))})
	if a.status/100 != 5 || a.Code == "" {
		t.Errorf("got %d %s", a.status, a.text)
	}
	if n := len(w.written()); n != 0 {
		t.Errorf("got %d records, want none", n)
	}
}

// A token has its share. Who takes more is told when to come again; others are not held up.
func TestATokenHasItsShare(t *testing.T) {
	w := newWorld(t, gateway.Config{Rate: 0.01, Burst: 3})
	statuses := map[int]int{}
	var last answer
	for i := range 6 {
		last = w.do(request{headers: event("/acme", strconv.Itoa(i))})
		statuses[last.status]++
	}
	wait, err := strconv.Atoi(last.headers.Get("Retry-After"))
	if statuses[http.StatusAccepted] != 3 || statuses[http.StatusTooManyRequests] != 3 || last.Code != "too_many_requests" || err != nil || wait < 1 || wait > 100 {
		t.Errorf("got %v, at last %s with Retry-After %q", statuses, last.text, last.headers.Get("Retry-After"))
	}
	if a := w.do(request{as: "t2/publisher", headers: event("/beta", "1")}); a.status != http.StatusAccepted {
		t.Errorf("another token: got %d %s", a.status, a.text)
	}
}

// Bodies that trickle end after their time, hold no more than the token's share, and keep nobody else out.
func TestSlowBodiesAreBounded(t *testing.T) {
	w := newWorld(t, gateway.Config{Body: 3 * time.Second, Parallel: 2, Memory: 64 << 20})
	const most = 12 << 20 // more than the connection itself can hold: who has written it is being read
	begin := func() net.Conn {
		conn, err := w.dial()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, "POST %s?feed=acme HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n",
			gateway.Path, w.tokens["t1/publisher"].Reveal(), delivery.MaxInline)
		if err == nil {
			_, err = conn.Write(make([]byte, most))
		}
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	slow := []net.Conn{begin(), begin()}
	w.Until("the token's share to be taken", func() bool {
		a := w.do(request{headers: event("/acme", "1")})
		return a.status == http.StatusTooManyRequests
	})
	if a := w.do(request{as: "t2/publisher", headers: event("/beta", "1"), body: text(row("A-1", 1))}); a.status != http.StatusAccepted {
		t.Errorf("another token meanwhile: got %d %s", a.status, a.text)
	}
	for _, conn := range slow {
		_ = conn.SetReadDeadline(time.Now().Add(pipeline.Patience))
		b, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(b), " 408 ") || !strings.Contains(string(b), "body_too_slow") {
			t.Errorf("got %s, %v, want 408", b, err)
		}
	}
	w.Until("the share to be free again", func() bool { return w.do(request{headers: event("/acme", "1")}).status == http.StatusAccepted })
	for _, rec := range w.Committed(streams.Deliveries) {
		if id := headersOf(rec)["ce_id"]; id != "1" {
			t.Errorf("half a body was written: %v", headersOf(rec))
		}
	}
}

// All bodies together take what there is, and not more.
func TestBodiesHaveABudget(t *testing.T) {
	w := newWorld(t, gateway.Config{Memory: 1, Parallel: 100}) // that of one body, at the least
	held := make(chan answer, 1)
	var writer *io.PipeWriter
	begin := func() {
		var reader *io.PipeReader
		reader, writer = io.Pipe()
		go func() {
			a, _ := w.try(request{headers: event("/acme", "1"), body: reader}) // its end is open, so it is as large as any
			held <- a
		}()
		_, _ = writer.Write(make([]byte, 64<<10)) // more than its client keeps back
	}
	begin()
	w.Until("the budget to be taken", func() bool {
		a := w.do(request{headers: event("/acme", "2"), body: text("x")})
		if a.status == http.StatusServiceUnavailable && a.headers.Get("Retry-After") != "" {
			return true
		}
		// The small one was first, and in the way of the other, whose refusal comes once its body ends.
		_ = writer.Close()
		<-held
		begin()
		return false
	})
	_ = writer.Close()
	if a := <-held; a.status != http.StatusAccepted {
		t.Errorf("the one that held it: got %d %s", a.status, a.text)
	}
	if a := w.do(request{headers: event("/acme", "2"), body: text("x")}); a.status != http.StatusAccepted {
		t.Errorf("afterwards: got %d %s", a.status, a.text)
	}
}

// An outcome that does not come in time, or never, since the process ends, changes nothing about what was taken.
func TestWaitingEndsWithItsTimeAndWithTheProcess(t *testing.T) {
	w := newWorld(t, gateway.Config{}) // without ingest
	if a := w.do(request{headers: event("/acme", "1", "Prefer: wait=1")}); a.status != http.StatusAccepted || a.headers.Get("Preference-Applied") != "wait" {
		t.Errorf("got %d %s, want 202", a.status, a.text)
	}
	for _, prefer := range []string{"wait=0", "wait=-1", "wait=soon", "wait", "wait=99999999999999999999", "waiting=5", ""} {
		if a := w.do(request{headers: event("/acme", "1", "Prefer: "+prefer)}); a.status != http.StatusAccepted || a.headers.Get("Preference-Applied") != "" {
			t.Errorf("Prefer: %s: got %d %s, want 202 at once", prefer, a.status, a.text)
		}
	}
	before := len(w.written())
	answered := make(chan answer, 1)
	go func() {
		a, err := w.try(request{headers: event("/acme", "2", "Prefer: wait=1000")})
		if err != nil {
			t.Error(err)
		}
		answered <- a
	}()
	w.Until("the delivery to be taken", func() bool { return len(w.written()) > before })
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	if a := <-answered; a.status != http.StatusAccepted || a.ID != "2" {
		t.Errorf("when the process ended: got %d %s, want 202", a.status, a.text)
	}
	if _, err := w.try(request{headers: event("/acme", "3")}); err == nil {
		t.Error("it still answers")
	}
}

// A topic that is not there is the operator's to make; the publisher comes again.
func TestATopicThatIsMissingIsAnsweredWith503(t *testing.T) {
	w := newWorld(t, gateway.Config{Produce: 5 * time.Second}, pipeline.Ingest)
	w.ApplyFeed(spec(t, "t1", "later", "/later", "later"))
	if a := w.do(request{headers: event("/later", "1")}); a.status != http.StatusServiceUnavailable || a.headers.Get("Retry-After") == "" {
		t.Errorf("got %d %s, want 503", a.status, a.text)
	}
	w.Topics("later")
	w.Until("the topic to be seen", func() bool { return w.do(request{headers: event("/later", "1")}).status == http.StatusAccepted })
}

// Until is the pipeline's, for what cannot fail.
func (w *world) Until(what string, holds func() bool) {
	w.t.Helper()
	w.Pipeline.Until(what, func(context.Context) (bool, error) { return holds(), nil })
}
