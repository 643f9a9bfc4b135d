package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// A trap holds a stage at a point of its work: "before" or "after" one of its statements ("before INSERT INTO receipt ..."), or
// the archive ("after archive"). It implements pgx.QueryTracer.
type trap struct {
	mu      sync.Mutex
	springs func(point string) bool // nil: it is not set
	sprung  chan struct{}           // closed once the stage is held
	open    chan struct{}           // closed to let it go
	conn    *pgx.Conn               // that the statement goes through
	passed  []string                // all points since it was set
	killed  bool                    // nothing that comes to a point gets any further
}

// set arms the trap. It springs once.
func (p *trap) set(springs func(point string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.springs, p.sprung, p.open, p.passed = springs, make(chan struct{}), make(chan struct{}), nil
}

// release lets the stage go on.
func (p *trap) release() { close(p.open) }

// wait waits until the trap holds the stage.
func (p *trap) wait(s *scene) {
	s.t.Helper()
	s.Until("the stage to come to the point", func(context.Context) (bool, error) { return p.holds(), nil })
}

func (p *trap) holds() bool {
	select {
	case <-p.sprung:
		return true
	default:
		return false
	}
}

// seen reports whether a point was passed, or is where the stage is held.
func (p *trap) seen(point string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.passed {
		if strings.HasPrefix(at, point) {
			return true
		}
	}
	return false
}

func (p *trap) pass(point string, conn *pgx.Conn) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.passed = append(p.passed, point)
	if p.springs == nil || !p.springs(point) {
		p.mu.Unlock()
		return
	}
	p.springs, p.conn = nil, conn
	open := p.open
	close(p.sprung)
	p.mu.Unlock()
	<-open
}

type statementKey struct{}

// TraceQueryStart implements pgx.QueryTracer.
func (p *trap) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	text := statement(data.SQL)
	p.pass("before "+text, conn)
	return context.WithValue(ctx, statementKey{}, text)
}

// TraceQueryEnd implements pgx.QueryTracer.
func (p *trap) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryEndData) {
	text, _ := ctx.Value(statementKey{}).(string)
	p.pass("after "+text, conn)
}

// statement is a statement without the comments before it.
func statement(sql string) string {
	for strings.HasPrefix(sql, "--") {
		_, sql, _ = strings.Cut(sql, "\n")
	}
	return sql
}

// use puts the trap on a worker's way to PostgreSQL.
func (p *trap) use(c *pgxpool.Config) {
	c.ConnConfig.Tracer = p
	c.ConnConfig.RuntimeParams["application_name"] = trappedName
}

// trappedName is by which PostgreSQL knows the connections of a worker with a trap.
const trappedName = "trapped"

// cut breaks the connection of the statement at which the stage is held, and waits until the server has noticed.
func (p *trap) cut(s *scene) {
	s.t.Helper()
	pid := p.conn.PgConn().PID()
	if err := p.conn.PgConn().Conn().Close(); err != nil {
		s.t.Fatal(err)
	}
	s.gone(pid)
}

// gone waits until a connection has ended.
func (s *scene) gone(pid uint32) {
	s.t.Helper()
	s.Until("the server to roll back", func(ctx context.Context) (gone bool, err error) {
		err = s.Pool.QueryRow(ctx, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", pid).Scan(&gone)
		return gone, err
	})
}

// kill kills a worker that the trap holds: it is cut off first, and let go only then.
func (p *trap) kill(s *scene, w *pipeline.Worker) {
	s.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Kill()
	}()
	s.Until("the worker to be cut off", func(ctx context.Context) (cut bool, err error) {
		err = s.Pool.QueryRow(ctx, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1)", trappedName).Scan(&cut)
		return cut, err
	})
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	p.release()
	<-done
}

// dead reports whether its worker was killed.
func (p *trap) dead() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// A store is an archive that counts its objects, fails while it is told to, and may have a trap around it.
type store struct {
	ingest.Archive
	trap *trap

	mu      sync.Mutex
	objects map[string]int // by name, how often it was written or found
	reused  int
	fails   int // the next so many
	failed  int
}

func newStore(a ingest.Archive, t *trap) *store {
	return &store{Archive: a, trap: t, objects: map[string]int{}}
}

// Write implements ingest.Archive.
func (a *store) Write(ctx context.Context, p *archive.Pack) (archive.Ref, error) {
	a.trap.pass("before archive", nil)
	if a.failsNow() {
		return archive.Ref{}, errNoSpace
	}
	ref, err := a.Archive.Write(ctx, p)
	if err == nil {
		a.mu.Lock()
		a.objects[ref.Name]++
		if ref.Reused {
			a.reused++
		}
		a.mu.Unlock()
	}
	a.trap.pass("after archive", nil)
	return ref, err
}

var errNoSpace = errors.New("no space left on device")

func (a *store) failsNow() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fails > 0 {
		a.fails--
		a.failed++
		return true
	}
	return a.trap.dead()
}

// fail lets the next n writes fail.
func (a *store) fail(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fails = n
}

func (a *store) failures() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

func (a *store) count() (objects, reused int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.objects), a.reused
}

// A proxy stands between a worker and PostgreSQL.
type proxy struct {
	listener net.Listener
	server   string

	mu    sync.Mutex
	conns map[net.Conn]bool
	down  bool
	wg    sync.WaitGroup

	lose, wasLost atomic.Bool
	breaks        func(toServer bool, data []byte) bool // nil: never; true: the connection breaks, and the data is lost
}

func newProxy(t testing.TB, pool *pgxpool.Pool) *proxy {
	t.Helper()
	c := pool.Config().ConnConfig
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, server: net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close() // which ends accept
		p.cut()
		p.wg.Wait()
	})
	return p
}

// use leads a worker through the proxy.
func (p *proxy) use(c *pgxpool.Config) {
	a := p.listener.Addr().(*net.TCPAddr).AddrPort()
	c.ConnConfig.Host, c.ConnConfig.Port = a.Addr().String(), a.Port()
	c.ConnConfig.Fallbacks = nil
}

// loseNextCommit lets the next COMMIT through and cuts the connection before its answer.
func (p *proxy) loseNextCommit() { p.lose.Store(true) }

func (p *proxy) lost() bool { return p.wasLost.Load() }

// cut breaks all connections; while down it takes no new ones.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for c := range p.conns {
		_ = c.Close()
	}
}

// restore takes connections again.
func (p *proxy) restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.track(client, server) {
		return
	}
	defer p.untrack(client, server)
	var silent atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() { // from the client
		defer server.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := client.Read(buf)
			if p.breaks != nil && p.breaks(true, buf[:n]) {
				return
			}
			if bytes.Contains(buf[:n], []byte("commit\x00")) && p.lose.CompareAndSwap(true, false) {
				silent.Store(true)
			}
			if _, werr := server.Write(buf[:n]); err != nil || werr != nil {
				return
			}
		}
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if p.breaks != nil && p.breaks(false, buf[:n]) {
			break
		}
		if silent.Load() {
			p.wasLost.Store(true) // the server has answered, so it is done
			break
		}
		if _, werr := client.Write(buf[:n]); err != nil || werr != nil {
			break
		}
	}
	_ = client.Close()
	wg.Wait()
}

func (p *proxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return false
	}
	for _, c := range conns {
		p.conns[c] = true
	}
	return true
}

func (p *proxy) untrack(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}
