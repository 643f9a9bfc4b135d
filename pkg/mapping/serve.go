package mapping

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/offerlog/offerlog/pkg/offer"
)

// runtimeReserve is about what the Go runtime maps of the address space before it has allocated anything.
const runtimeReserve = 1700 << 20

// ServeIfChild turns this process into a mapper where it was started as one by a Child: it serves until its input ends,
// and main then exits with code. It must come before anything else that main does.
func ServeIfChild() (served bool, code int) {
	if len(os.Args) != 3 || os.Args[1] != childArgument {
		return false, 0
	}
	limit, err := strconv.ParseUint(os.Args[2], 10, 64)
	if err == nil {
		err = limitMemory(limit)
	}
	if err == nil {
		debug.SetGCPercent(400) // the heap of one delivery is small beside the limit
		// Collect harder before the limit ends the process.
		debug.SetMemoryLimit(max(int64(limit)-runtimeReserve, 64<<20)) //nolint:gosec // no machine has 2^63 bytes
		err = serve(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s%v\n", noticePrefix, err)
		return true, 1
	}
	return true, 0
}

// serve answers requests until in ends. Reading goes on while a delivery is mapped, so that the process ends with its
// parent even where a mapping never does.
func serve(in io.Reader, out io.Writer) error {
	w := bufio.NewWriterSize(out, 64<<10)
	answer := func(b []byte) error {
		if err := writeFrame(w, b); err != nil {
			return err
		}
		return w.Flush() // at once: the parent counts the time of each delivery
	}
	if err := answer([]byte(greeting)); err != nil {
		return err
	}
	frames, failed := make(chan []byte, 1), make(chan error, 1)
	go func() {
		r := bufio.NewReaderSize(in, 64<<10)
		for {
			frame, err := readFrame(r, nil)
			if err != nil {
				failed <- err
				return
			}
			frames <- frame
		}
	}()
	programs := map[offer.Digest]*Program{}
	done := make(chan error, 1)
	go func() {
		var buf []byte
		for frame := range frames {
			buf = respond(buf[:0], frame, programs, answer)
			if err := answer(buf); err != nil {
				done <- err
				return
			}
		}
	}()
	select {
	case err := <-failed:
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	case err := <-done:
		return err
	}
}

// respond maps one delivery; the chunks of a big one are sent on the way.
func respond(buf, frame []byte, programs map[offer.Digest]*Program, send func([]byte) error) []byte {
	refuse := func(err error) []byte { return fmt.Append(append(buf, answerRefused), err) }
	r, spec, err := unpackRequest(frame)
	if err != nil {
		return refuse(err)
	}
	if spec != nil {
		p, err := Compile(*spec)
		if err != nil {
			return refuse(err)
		}
		programs[r.Spec] = p
	}
	p := programs[r.Spec]
	if p == nil {
		return refuse(fmt.Errorf("no spec has the digest %v", r.Spec))
	}
	res, rows, left, err := mapSafely(p, &r, send)
	switch {
	case err != nil:
		return refuse(err)
	case r.chunked:
		return packSpooled(buf, &res, rows, left)
	}
	return packResult(buf, &res)
}

// mapSafely keeps a defect of the mapping engine to the delivery that shows it. What the panic says may quote the payload,
// so it stays here.
func mapSafely(p *Program, r *Request, send func([]byte) error) (res Result, rows int, left rowSet, err error) {
	defer func() {
		if recover() != nil {
			res = Result{Fault: deliveryFault(offer.ReasonMappingLimit, "", "the mapping engine failed on this delivery")}
			res.Fingerprint, err = bytesFingerprint(r)
		}
	}()
	if r.chunked {
		debug.SetGCPercent(50) // this process reads nothing else, and what is kept of a million rows is not small
		return p.chunked(context.Background(), r, send)
	}
	res, err = p.Map(context.Background(), r)
	return res, 0, nil, err
}
