package mapping

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/offerlog/offerlog/pkg/offer"
	"golang.org/x/sync/errgroup"
)

// Config has the choices of a Child; its zero value works.
type Config struct {
	Processes    int           // default GOMAXPROCS
	Timeout      time.Duration // for one delivery; default 30 s
	AddressSpace uint64        // of one process, in bytes; default 2 GiB
	Environment  []string      // of a process; default none. No mapping can read it: a test shows that it changes nothing
}

// A Child reads deliveries in a pool of mapper processes, which are this same binary: main, and TestMain of a test that
// uses a Child, must call ServeIfChild first. It is safe for concurrent use.
type Child struct {
	cfg      Config
	idle     chan *process // one slot for each process; nil: not started
	spooling chan struct{} // holds one while a delivery is spooled
	closed   chan struct{}
	once     sync.Once
}

// NewChild makes a pool; processes start when they are needed.
func NewChild(cfg Config) *Child {
	if cfg.Processes == 0 {
		cfg.Processes = runtime.GOMAXPROCS(0)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.AddressSpace == 0 {
		cfg.AddressSpace = 2 << 30
	}
	c := &Child{cfg: cfg, idle: make(chan *process, cfg.Processes), spooling: make(chan struct{}, 1), closed: make(chan struct{})}
	for range cfg.Processes {
		c.idle <- nil
	}
	return c
}

// ErrClosed reports a Map or Spool after Close.
var ErrClosed = errors.New("the mapper is closed")

// Map reads deliveries, spread over the pool, and returns their results in the same order. A delivery that a process dies
// of, or does not finish in time, is tried once more in a process of its own; if that ends the same way its Fault is
// mapping_limit. The error is ctx's, or says that no process can be started or that a Spec is missing or does not compile:
// it never comes from what a payload holds.
func (c *Child) Map(ctx context.Context, specs map[offer.Digest]Spec, reqs []Request) ([]Result, error) {
	results := make([]Result, len(reqs))
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range share(reqs, c.cfg.Processes) {
		group.Go(func() error {
			p, err := c.take(ctx)
			if err != nil {
				return err
			}
			defer func() { c.idle <- p }()
			p, err = c.part(ctx, p, specs, reqs[part.from:part.to], results[part.from:part.to])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("map %d deliveries: %w", len(reqs), err)
	}
	return results, nil
}

func (c *Child) take(ctx context.Context) (*process, error) {
	select {
	case <-c.closed:
		return nil, ErrClosed
	default:
	}
	select {
	case p := <-c.idle:
		return p, nil
	case <-c.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the processes; it waits for a Map and a Spool that are under way.
func (c *Child) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.spooling <- struct{}{}
		for range c.cfg.Processes {
			if p := <-c.idle; p != nil {
				p.stop()
			}
		}
	})
	return nil
}

type span struct{ from, to int }

// share cuts deliveries into at most n runs with about the same number of bytes.
func share(reqs []Request, n int) (parts []span) {
	const overhead = 256 // of a delivery, in bytes' worth of work
	left := 0
	for i := range reqs {
		left += len(reqs[i].Payload) + overhead
	}
	from, size := 0, 0
	for i := range reqs {
		size += len(reqs[i].Payload) + overhead
		last, runs := i+1 == len(reqs), n-len(parts)
		if !last && (runs == 1 || size < left/runs) {
			continue
		}
		parts = append(parts, span{from, i + 1})
		left -= size
		from, size = i+1, 0
	}
	return parts
}

// part maps reqs one after the other; it returns the process that is alive now, if one is. Since every delivery is answered
// as soon as it is done, the first one without an answer is the one that a process died of.
func (c *Child) part(ctx context.Context, p *process, specs map[offer.Digest]Spec, reqs []Request, results []Result) (*process, error) {
	suspect := -1 // the delivery that the last process ended with
	for done := 0; done < len(reqs); {
		if p == nil {
			var err error
			if p, err = start(ctx, c.cfg); err != nil {
				return nil, err
			}
		}
		end := len(reqs)
		if suspect == done {
			end = done + 1 // alone
		}
		n, err := p.run(ctx, specs, reqs[done:end], results[done:end])
		done += n
		if err == nil {
			continue
		}
		p.kill()
		p = nil
		died, ofProcess := errors.AsType[*deadError](err)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !ofProcess:
			return nil, err
		case suspect == done:
			if results[done], err = c.limitReached(&reqs[done], died); err != nil {
				return nil, err
			}
			done++
		default:
			suspect = done
		}
	}
	return p, nil
}

// limitReached is the result of a delivery that two processes died of.
func (c *Child) limitReached(r *Request, died *deadError) (Result, error) {
	fingerprint, err := bytesFingerprint(r)
	return Result{Fingerprint: fingerprint, Fault: deliveryFault(offer.ReasonMappingLimit, "",
		"%v; a delivery, or a row of a big one, has %v, and a process %d MiB of address space: send it in smaller parts, or look at the mapping", died, c.cfg.Timeout, c.cfg.AddressSpace>>20)}, err
}

// A process is one mapper process, used by one goroutine at a time.
type process struct {
	cmd     *exec.Cmd
	words   *lastWords
	in      io.WriteCloser
	out     *bufio.Reader
	timeout time.Duration
	knows   map[offer.Digest]bool // specs that it has been sent
}

// childArgument is the hidden first argument of a mapper process; the second is its address space in bytes.
const childArgument = "mapper"

// noticePrefix begins each line that a mapper process means for people.
const noticePrefix = "offerlog mapper: "

// startTimeout is for the greeting, which waits for nothing but the machine.
const startTimeout = time.Minute

// start runs this binary as a mapper and waits for its greeting.
func start(ctx context.Context, cfg Config) (*process, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start a mapper process: %w", err)
	}
	// The process outlives the batch that starts it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, childArgument, strconv.FormatUint(cfg.AddressSpace, 10))
	cmd.Env = append([]string{}, cfg.Environment...) // nil would be the environment of this process
	last := &lastWords{}
	cmd.Stderr = last
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a mapper process: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a mapper process: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a mapper process: %w", err)
	}
	p := &process{cmd: cmd, words: last, in: in, out: bufio.NewReaderSize(out, 64<<10), timeout: cfg.Timeout, knows: map[offer.Digest]bool{}}
	timer, release := time.AfterFunc(startTimeout, p.signal), context.AfterFunc(ctx, p.signal)
	hello, err := readFrame(p.out, nil)
	timer.Stop()
	if release(); err != nil || string(hello) != greeting {
		p.kill()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("start a mapper process: %s %s did not answer%s; main and TestMain must call mapping.ServeIfChild first", path, childArgument, last)
	}
	return p, nil
}

// A refusedError is the process's word that it cannot read a delivery at all: under its Spec, or from its file.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

// A deadError is the end of a process, which a delivery may be the cause of.
type deadError struct{ text string }

func (e *deadError) Error() string { return e.text }

// run maps deliveries and returns for how many results came. With an error the process is of no more use.
func (p *process) run(ctx context.Context, specs map[offer.Digest]Spec, reqs []Request, results []Result) (done int, err error) {
	err = p.converse(ctx, specs, reqs, func(frame []byte) (bool, error) {
		if results[done], err = unpackResult(frame); err != nil {
			return false, &deadError{err.Error()}
		}
		done++
		return done == len(reqs), nil
	})
	return done, err
}

// converse sends deliveries and hands over each answer until that is the last. Between two of them the process has its time.
func (p *process) converse(ctx context.Context, specs map[offer.Digest]Spec, reqs []Request, take func(frame []byte) (last bool, err error)) (err error) {
	written := make(chan error, 1)
	go func() { written <- p.write(specs, reqs) }()
	release := context.AfterFunc(ctx, p.signal)
	var late atomic.Bool
	timer := time.AfterFunc(p.timeout, func() { late.Store(true); p.signal() })
	defer func() {
		timer.Stop()
		release()
		if err != nil {
			p.signal() // so that a blocked write ends
		}
		if werr := <-written; err == nil || errors.As(werr, new(*refusedError)) {
			err = werr
		}
	}()
	var buf []byte
	for last := false; !last; timer.Reset(p.timeout) {
		if buf, err = readFrame(p.out, buf); err != nil {
			if late.Load() {
				return &deadError{"the mapping did not finish in time"}
			}
			p.kill() // and wait for its last words
			return &deadError{"the mapper process ended" + p.words.String()}
		}
		if len(buf) == 0 {
			return &deadError{errFrame.Error()}
		}
		if buf[0] == answerRefused {
			return &refusedError{string(buf[1:])}
		}
		if last, err = take(buf); err != nil {
			return err
		}
	}
	return nil
}

func (p *process) write(specs map[offer.Digest]Spec, reqs []Request) error {
	w := bufio.NewWriterSize(p.in, 64<<10)
	var frame []byte
	for i := range reqs {
		r := &reqs[i]
		var spec *Spec
		if !p.knows[r.Spec] {
			s, ok := specs[r.Spec]
			if !ok {
				_ = p.in.Close() // so that the process ends, and reading its answers does
				return &refusedError{fmt.Sprintf("no spec has the digest %v", r.Spec)}
			}
			spec, p.knows[r.Spec] = &s, true
		}
		var err error
		if frame, err = packRequest(frame[:0], r, spec); err != nil {
			return err
		}
		if err := writeFrame(w, frame); err != nil {
			return err
		}
	}
	return w.Flush()
}

func (p *process) signal() { _ = p.cmd.Process.Kill() }

func (p *process) kill() {
	p.signal()
	_ = p.cmd.Wait() // its end is what was asked for
}

// lastWords is what a process writes to its standard error. Its own notices are passed on; of a fatal error the first line
// is kept, since the stacks after it are not for a log.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

func (l *lastWords) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes.HasPrefix(b, []byte(noticePrefix)) {
		return os.Stderr.Write(b)
	}
	if len(l.text) < 512 {
		l.text = append(l.text, b...)
	}
	return len(b), nil
}

// String is ": line" or nothing.
func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(string(l.text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "fatal error: ") {
			return ": " + line
		}
	}
	return ""
}

// stop lets the process end by itself.
func (p *process) stop() {
	_ = p.in.Close()
	_ = p.cmd.Wait()
}
