package mapping

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/offerlog/offerlog/pkg/offer"
)

const (
	maxRejected = 10_001 // faults of rows that a spooled delivery tells
	chunkBytes  = 64 << 10
	chunkTime   = 100 * time.Millisecond // after which a chunk is sent, full or not
)

// A Spool holds the rows of one delivery in a file, which nobody else can open. It is safe for concurrent use until Close.
type Spool struct {
	file *os.File
	size int64
	rows int
	left rowSet // rows that stand in the file and do not count
}

// Rows is how many there are.
func (s *Spool) Rows() int { return s.rows }

// Chunks yields the rows in order, some hundred at a time, as often as it is called. A chunk belongs to the caller; the error
// is of reading the file, and the last thing that is yielded.
func (s *Spool) Chunks() iter.Seq2[[]offer.Row, error] {
	return func(yield func([]offer.Row, error) bool) {
		in := bufio.NewReaderSize(io.NewSectionReader(s.file, 0, s.size), chunkBytes)
		var frame []byte
		for {
			var err error
			frame, err = readFrame(in, frame)
			if errors.Is(err, io.EOF) {
				return
			}
			var rows []offer.Row
			if err == nil {
				rows, err = unpackRows(frame)
			}
			if err != nil {
				yield(nil, fmt.Errorf("read a spool: %w", err))
				return
			}
			rows = slices.DeleteFunc(rows, func(r offer.Row) bool { return s.left.has(r.Number) })
			if len(rows) > 0 && !yield(rows, nil) {
				return
			}
		}
	}
}

// Close gives the file's space back.
func (s *Spool) Close() error { return s.file.Close() }

// Spool reads one delivery of any size into a spool below dir, in a process of its own and with memory that hardly depends on
// the size: some 50 bytes a row. The Result is that of Map, with no Rows and at most 10,001 of the rejected ones; the Spool is
// nil where it has a Fault, and otherwise the caller's to close. One delivery is read at a time, others wait. Where no row is
// read within the time that a delivery has in Map, or the process dies, it is tried once more, and then its Fault is
// mapping_limit.
func (c *Child) Spool(ctx context.Context, spec Spec, req Request, dir string) (Result, *Spool, error) {
	select {
	case c.spooling <- struct{}{}:
		defer func() { <-c.spooling }()
	case <-c.closed:
		return Result{}, nil, ErrClosed
	case <-ctx.Done():
		return Result{}, nil, ctx.Err()
	}
	req.Spec, req.chunked = spec.Digest(), true
	res, spool, err := c.spool(ctx, &spec, &req, dir)
	if err != nil {
		return Result{}, nil, fmt.Errorf("map a delivery of %d bytes: %w", req.size(), err)
	}
	return res, spool, nil
}

func (c *Child) spool(ctx context.Context, spec *Spec, req *Request, dir string) (Result, *Spool, error) {
	for again := true; ; again = false {
		p, err := start(ctx, c.cfg)
		if err != nil {
			return Result{}, nil, err
		}
		res, spool, err := p.spool(ctx, spec, req, dir)
		if err == nil {
			p.stop()
			return res, spool, nil
		}
		p.kill()
		died, ofProcess := errors.AsType[*deadError](err)
		switch {
		case ctx.Err() != nil:
			return Result{}, nil, ctx.Err()
		case !ofProcess:
			return Result{}, nil, err
		case !again:
			res, err := c.limitReached(req, died)
			return res, nil, err
		}
	}
}

// spool writes what the process answers to a file that is gone with the last that has it open, also where this program dies.
func (p *process) spool(ctx context.Context, spec *Spec, req *Request, dir string) (res Result, spool *Spool, err error) {
	file, err := os.CreateTemp(dir, "spool-*")
	if err != nil {
		return res, nil, fmt.Errorf("make a spool: %w", err)
	}
	spool = &Spool{file: file}
	defer func() {
		if err != nil || res.Fault != nil {
			_ = spool.Close()
			spool = nil
		}
	}()
	if err = os.Remove(file.Name()); err != nil {
		return res, spool, fmt.Errorf("make a spool: %w", err)
	}
	out := bufio.NewWriterSize(file, chunkBytes)
	specs := map[offer.Digest]Spec{req.Spec: *spec}
	err = p.converse(ctx, specs, []Request{*req}, func(frame []byte) (done bool, err error) {
		if frame[0] == answerRows {
			if err := writeFrame(out, frame); err != nil {
				return false, fmt.Errorf("write a spool: %w", err)
			}
			spool.size += int64(frameHead + len(frame))
			return false, nil
		}
		res, spool.rows, spool.left, err = unpackSpooled(frame)
		return true, err
	})
	if err == nil {
		if err = out.Flush(); err != nil {
			err = fmt.Errorf("write a spool: %w", err)
		}
	}
	return res, spool, err
}

// chunked reads one delivery and sends its rows in chunks, before it is known which of them count: those that are not in left.
func (p *Program) chunked(ctx context.Context, r *Request, send func([]byte) error) (res Result, rows int, left rowSet, err error) {
	chunks, stated, rejected := chunk{send: send}, newRevisions(256), 0
	reject := func(fault *offer.Fault) {
		rejected++
		if res.Rejected = append(res.Rejected, *fault); len(res.Rejected) == 2*maxRejected {
			res.keepFirst(maxRejected)
		}
	}
	read, err := p.read(ctx, r, func(in *row, out *offer.Row, fault *offer.Fault) error {
		if fault != nil {
			reject(fault)
			return chunks.tick()
		}
		stated.add(in, out)
		return chunks.add(out)
	})
	if err == nil {
		err = chunks.flush()
	}
	if err != nil || read.Fault != nil {
		return read, 0, nil, err
	}
	res.RowCount, res.Fingerprint = read.RowCount, read.Fingerprint
	left = newRowSet(res.RowCount)
	stated.settle(func(s *statement) {
		res.Repeated++
		left.add(int(s.row))
	}, func(s *statement) {
		reject(s.contradicted())
		left.add(int(s.row))
	})
	res.keepFirst(maxRejected)
	rows = res.RowCount - res.Repeated - rejected
	res.Fault = res.nothingLeft(rows, rejected)
	return res, rows, left, nil
}

// A chunk is packed rows on their way to the parent.
type chunk struct {
	send func([]byte) error
	b    packer
	sent time.Time
}

func (c *chunk) add(r *offer.Row) error {
	if len(c.b) == 0 {
		c.b = append(c.b, answerRows)
	}
	c.b.row(r)
	if len(c.b) < chunkBytes {
		return c.tick()
	}
	return c.flush()
}

// tick sends a chunk that has waited, or an empty one, so that the parent sees that rows are read.
func (c *chunk) tick() error {
	if c.sent.IsZero() {
		c.sent = time.Now()
	}
	if time.Since(c.sent) < chunkTime {
		return nil
	}
	return c.flush()
}

func (c *chunk) flush() error {
	if len(c.b) == 0 {
		c.b = append(c.b, answerRows)
	}
	err := c.send(c.b)
	c.b, c.sent = c.b[:0], time.Now()
	return err
}

func unpackRows(frame []byte) (rows []offer.Row, err error) {
	u := unpacker{b: frame[1:]}
	for len(u.b) > 0 && u.err == nil {
		rows = append(rows, offer.Row{})
		u.row(&rows[len(rows)-1])
	}
	return rows, u.err
}

func packSpooled(b []byte, res *Result, rows int, left rowSet) []byte {
	p := packer(packResult(b, res))
	p.int(int64(rows))
	for _, word := range left {
		p = binary.LittleEndian.AppendUint64(p, word)
	}
	return p
}

func unpackSpooled(frame []byte) (res Result, rows int, left rowSet, err error) {
	u, err := answer(frame)
	if err != nil {
		return res, 0, nil, err
	}
	res = u.result()
	rows = int(u.int())
	for ; len(u.b) >= 8; u.b = u.b[8:] {
		left = append(left, binary.LittleEndian.Uint64(u.b))
	}
	return res, rows, left, u.err
}

// A rowSet is a set of row numbers.
type rowSet []uint64

func newRowSet(rows int) rowSet { return make(rowSet, rows/64+1) }

func (s rowSet) add(row int)      { s[row/64] |= 1 << (row % 64) }
func (s rowSet) has(row int) bool { return s[row/64]&(1<<(row%64)) != 0 }
