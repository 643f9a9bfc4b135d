package project_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A proxy stands between a stage and PostgreSQL, and fails in the ways that a network does.
type proxy struct {
	listener net.Listener
	server   string

	cut        atomic.Bool // refuses connections
	loseCommit atomic.Bool // lets the next commit through, and not its answer

	mu    sync.Mutex
	conns []net.Conn
}

// through puts a proxy in the way of the stages that start from now on.
func (in *installation) through() *proxy {
	in.t.Helper()
	u, err := url.Parse(in.dsn)
	if err != nil {
		in.t.Fatal(err)
	}
	p := &proxy{server: u.Host}
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		in.t.Fatal(err)
	}
	in.t.Cleanup(func() { _ = p.listener.Close() })
	go p.serve(in.t.Context())
	u.Host = p.listener.Addr().String()
	in.stages = open(in.t, u.String())
	return p
}

func (p *proxy) serve(ctx context.Context) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.cut.Load() {
			_ = client.Close()
			continue
		}
		var dialer net.Dialer
		server, err := dialer.DialContext(ctx, "tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		var answerLost atomic.Bool
		go pipe(client, server, func(b []byte) bool {
			if bytes.Contains(b, []byte("commit\x00")) && p.loseCommit.CompareAndSwap(true, false) {
				answerLost.Store(true)
			}
			return true
		})
		go pipe(server, client, func([]byte) bool { return !answerLost.Load() })
	}
}

// pipe copies from one to the other until pass says no; then both are closed.
func pipe(from, to net.Conn, pass func([]byte) bool) {
	defer func() { _, _ = from.Close(), to.Close() }()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil || !pass(b[:n]) {
			return
		}
		if _, err := io.Copy(to, bytes.NewReader(b[:n])); err != nil {
			return
		}
	}
}

func (p *proxy) drop() {
	p.cut.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func TestACommitWhoseAnswerIsLostIsDoneOnce(t *testing.T) {
	in := install(t, fake(t), 1)
	p := in.through()
	in.start()
	in.say(1, claim{record: "A-1", version: 1, price: "1"}.observation(t, "1"))
	in.settle()
	p.loseCommit.Store(true)
	in.say(1, claim{record: "A-1", version: 2, price: "2"}.observation(t, "2"))
	in.settle()
	in.until("the stage has found out", func() bool {
		return strings.Contains(in.log.String(), "the commit may or may not have happened")
	})
	in.say(1, claim{record: "A-1", version: 3, price: "3"}.observation(t, "3"))
	in.settle()
	in.verify()
	if n := len(in.published()); n != 3 {
		t.Errorf("got %d changes published, want 3", n)
	}
}

func TestTheStageWaitsForPostgreSQLAndGoesOn(t *testing.T) {
	in := install(t, fake(t), 2)
	p := in.through()
	in.start()
	in.say(1, claim{record: "A-1", version: 1, price: "1"}.observation(t, "1"))
	in.settle()
	p.drop()
	in.say(1, claim{record: "A-1", version: 2, price: "2"}.observation(t, "2"), claim{record: "B-2", version: 2, price: "2"}.observation(t, "3"))
	in.until("the stage has noticed", func() bool { return strings.Contains(in.log.String(), "out of reach") })
	p.cut.Store(false)
	in.settle()
	in.verify()
}

func TestAStageThatWaitsForPostgreSQLEndsWhenItIsTold(t *testing.T) {
	in := install(t, fake(t), 1)
	p := in.through()
	stage := in.start()
	in.say(1, claim{record: "A-1", version: 1, price: "1"}.observation(t, "1"))
	in.settle()
	p.drop()
	in.say(1, claim{record: "A-1", version: 2, price: "2"}.observation(t, "2"))
	in.until("the stage has noticed", func() bool { return strings.Contains(in.log.String(), "out of reach") })
	stage.halt()
	if stage.err != nil {
		t.Errorf("got %v", stage.err)
	}
}
