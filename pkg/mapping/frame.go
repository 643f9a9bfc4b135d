package mapping

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/offerlog/offerlog/pkg/offer"
)

// Parent and mapper process speak in frames: a length of four bytes, big endian, and so many bytes. The mapper greets
// first. A request is a Spec that the process has not seen yet (or nothing) and a delivery; each is answered by one result,
// in order, as soon as it is there, a big one by chunks of its rows before. Both ends are one binary, so the bytes in a frame have no version.

const (
	greeting  = "offerlog mapper\n"
	frameHead = 4 // bytes, of the length
	maxFrame  = 1 << 31
)

func writeFrame(w *bufio.Writer, b []byte) error {
	var size [frameHead]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(b))) //nolint:gosec // frames are made below maxFrame
	if _, err := w.Write(size[:]); err != nil {
		return err
	}
	_, err := w.Write(b)
	return err
}

// readFrame reads into buf where it is large enough.
func readFrame(r *bufio.Reader, buf []byte) ([]byte, error) {
	var size [frameHead]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	if int(n) > cap(buf) {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	_, err := io.ReadFull(r, buf)
	return buf, err
}

// A packer appends values; an unpacker takes them off again in the same order.
type packer []byte

func (p *packer) int(n int64)         { *p = binary.AppendVarint(*p, n) }
func (p *packer) text(s string)       { p.int(int64(len(s))); *p = append(*p, s...) }
func (p *packer) bytes(b []byte)      { p.int(int64(len(b))); *p = append(*p, b...) }
func (p *packer) time(t offer.Time)   { p.int(t.Nanos); p.text(t.Text) }
func (p *packer) dec(d offer.Decimal) { p.text(d.String()) }

func (p *packer) bool(b bool) {
	if b {
		p.int(1)
	} else {
		p.int(0)
	}
}

func (p *packer) texts(list []string) {
	p.int(int64(len(list)))
	for _, s := range list {
		p.text(s)
	}
}

var errFrame = errors.New("a frame that is cut off")

type unpacker struct {
	b   []byte
	err error
}

func (u *unpacker) int() int64 {
	n, size := binary.Varint(u.b)
	if size <= 0 {
		u.b, u.err = nil, errFrame
		return 0
	}
	u.b = u.b[size:]
	return n
}

// count is the length of a list, each element of which takes a byte at least.
func (u *unpacker) count() int {
	n := u.int()
	if n < 0 || n > int64(len(u.b)) {
		u.b, u.err = nil, errFrame
		return 0
	}
	return int(n)
}

func (u *unpacker) bytes() []byte {
	n := u.count()
	b := u.b[:n:n]
	u.b = u.b[n:]
	return b
}

func (u *unpacker) bool() bool       { return u.int() == 1 }
func (u *unpacker) text() string     { return string(u.bytes()) }
func (u *unpacker) time() offer.Time { return offer.Time{Nanos: u.int(), Text: u.text()} }

func (u *unpacker) dec() (d offer.Decimal) {
	if b := u.bytes(); len(b) > 0 {
		if err := d.UnmarshalText(b); err != nil {
			u.err = err
		}
	}
	return d
}

func (u *unpacker) texts() []string {
	n := u.count()
	if n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = u.text()
	}
	return list
}

func (u *unpacker) digest() (d offer.Digest) {
	copy(d[:], u.bytes())
	return d
}

// packRequest wants the Spec where the process has not seen it.
func packRequest(b []byte, r *Request, spec *Spec) ([]byte, error) {
	p := packer(b)
	var text []byte
	if spec != nil {
		var err error
		if text, err = json.Marshal(spec); err != nil {
			return nil, err
		}
	}
	p.bytes(text)
	p.bytes(r.Spec[:])
	p.bool(r.chunked)
	p.text(r.Path)
	p.int(r.Length)
	p.bool(r.HasData)
	p.text(r.ContentType)
	p.time(r.EventTime)
	p.text(r.Canonicalization)
	p.int(int64(len(r.Attributes)))
	for name, value := range r.Attributes {
		p.text(name)
		p.text(value)
	}
	p.bytes(r.Payload)
	return p, nil
}

// unpackRequest returns a request whose payload shares b.
func unpackRequest(b []byte) (r Request, spec *Spec, err error) {
	u := unpacker{b: b}
	if text := u.bytes(); len(text) > 0 {
		spec = &Spec{}
		if err := json.Unmarshal(text, spec); err != nil {
			return r, nil, err
		}
	}
	r = Request{Spec: u.digest(), chunked: u.bool(), Path: u.text(), Length: u.int(), HasData: u.bool(), ContentType: u.text(), EventTime: u.time(), Canonicalization: u.text()}
	n := u.count()
	r.Attributes = make(map[string]string, n)
	for range n {
		name := u.text()
		r.Attributes[name] = u.text()
	}
	r.Payload = u.bytes()
	return r, spec, u.err
}

// First byte of an answer: a result follows, or the text of why the process cannot read the delivery at all, or rows of a
// delivery whose result comes later.
const (
	answerResult = iota
	answerRefused
	answerRows
)

func packResult(b []byte, res *Result) []byte {
	p := packer(append(b, answerResult))
	p.bool(res.Fault != nil)
	if res.Fault != nil {
		p.fault(res.Fault)
	}
	p.text(res.Fingerprint.Canonicalization)
	p.bytes(res.Fingerprint.Digest[:])
	p.int(int64(res.RowCount))
	p.int(int64(res.Repeated))
	p.int(int64(len(res.Rejected)))
	for i := range res.Rejected {
		p.fault(&res.Rejected[i])
	}
	p.int(int64(len(res.Rows)))
	for i := range res.Rows {
		p.row(&res.Rows[i])
	}
	return p
}

func (p *packer) fault(f *offer.Fault) {
	p.texts([]string{f.Reason, f.Detail, f.Message, f.Path})
	p.int(int64(f.Row))
	p.int(int64(f.Line))
	p.int(int64(f.Column))
}

func (p *packer) row(r *offer.Row) {
	c := &r.Content
	p.int(int64(r.Number))
	p.text(r.Record)
	p.int(r.Version)
	p.bool(r.HasVersion)
	p.time(r.ObservedAt)
	p.text(c.Item.MPN)
	p.text(c.Item.Manufacturer)
	p.text(c.Item.Revision)
	p.text(c.Item.Packaging)
	p.text(c.Item.Condition)
	p.text(c.Item.GTIN)
	p.dec(c.Quantity)
	p.text(c.Basis.Unit)
	p.dec(c.Basis.Per)
	p.dec(c.Price)
	p.text(c.Currency)
	p.int(int64(len(c.PriceBreaks)))
	for _, b := range c.PriceBreaks {
		p.dec(b.MinQty)
		p.dec(b.Price)
	}
	p.dec(c.MOQ)
	p.dec(c.OrderMultiple)
	p.dec(c.LeadTimeDays)
	p.int(int64(len(c.Stock)))
	for _, s := range c.Stock {
		p.text(s.Location)
		p.dec(s.Quantity)
	}
	p.time(c.ValidFrom)
	p.time(c.ValidUntil)
	p.bool(c.Deleted)
	p.texts(r.Warnings)
}

func unpackResult(b []byte) (Result, error) {
	u, err := answer(b)
	if err != nil {
		return Result{}, err
	}
	res := u.result()
	return res, u.err
}

// answer begins to unpack a result.
func answer(b []byte) (*unpacker, error) {
	if len(b) == 0 || b[0] != answerResult {
		return nil, errFrame
	}
	return &unpacker{b: b[1:]}, nil
}

func (u *unpacker) result() (res Result) {
	if u.bool() {
		fault := u.fault()
		res.Fault = &fault
	}
	res.Fingerprint = offer.Fingerprint{Canonicalization: u.text(), Digest: u.digest()}
	res.RowCount = int(u.int())
	res.Repeated = int(u.int())
	if n := u.count(); n > 0 {
		res.Rejected = make([]offer.Fault, n)
		for i := range res.Rejected {
			res.Rejected[i] = u.fault()
		}
	}
	if n := u.count(); n > 0 {
		res.Rows = make([]offer.Row, n)
		for i := range res.Rows {
			u.row(&res.Rows[i])
		}
	}
	return res
}

func (u *unpacker) fault() (f offer.Fault) {
	if texts := u.texts(); len(texts) == 4 {
		f.Reason, f.Detail, f.Message, f.Path = texts[0], texts[1], texts[2], texts[3]
	}
	f.Row, f.Line, f.Column = int(u.int()), int(u.int()), int(u.int())
	return f
}

func (u *unpacker) row(r *offer.Row) {
	c := &r.Content
	r.Number = int(u.int())
	r.Record = u.text()
	r.Version = u.int()
	r.HasVersion = u.bool()
	r.ObservedAt = u.time()
	c.Item = offer.Item{MPN: u.text(), Manufacturer: u.text(), Revision: u.text(), Packaging: u.text(), Condition: u.text(), GTIN: u.text()}
	c.Quantity = u.dec()
	c.Basis = offer.Basis{Unit: u.text(), Per: u.dec()}
	c.Price = u.dec()
	c.Currency = u.text()
	if n := u.count(); n > 0 {
		c.PriceBreaks = make([]offer.PriceBreak, n)
		for i := range c.PriceBreaks {
			c.PriceBreaks[i] = offer.PriceBreak{MinQty: u.dec(), Price: u.dec()}
		}
	}
	c.MOQ = u.dec()
	c.OrderMultiple = u.dec()
	c.LeadTimeDays = u.dec()
	if n := u.count(); n > 0 {
		c.Stock = make([]offer.LocationStock, n)
		for i := range c.Stock {
			c.Stock[i] = offer.LocationStock{Location: u.text(), Quantity: u.dec()}
		}
	}
	c.ValidFrom, c.ValidUntil = u.time(), u.time()
	c.Deleted = u.bool()
	r.Warnings = u.texts()
}
