package mapping

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/offerlog/offerlog/pkg/offer"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

const (
	maxRatio     = 200      // of unpacked to packed bytes
	ratioCounts  = 1 << 20  // unpacked bytes from which on it does: little says nothing
	maxWindow    = 32 << 20 // of a zstd frame
	readAhead    = 64 << 10
	maxHeadBytes = 1 << 10 // of what is looked at to tell a format from another
)

// open gives the payload's bytes, from memory or from its file.
func (r *Request) open() (io.ReadCloser, error) {
	if r.Path == "" {
		return io.NopCloser(bytes.NewReader(r.Payload)), nil
	}
	f, err := os.Open(r.Path)
	if err != nil {
		return nil, fmt.Errorf("read a payload: %w", err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != r.Length {
		_ = f.Close()
		return nil, fmt.Errorf("read a payload: %s does not have %d bytes", r.Path, r.Length)
	}
	return f, nil
}

func (r *Request) size() int64 {
	if len(r.Payload) > 0 {
		return int64(len(r.Payload))
	}
	return r.Length
}

// digest is the SHA-256 of the payload.
func (r *Request) digest() (offer.Digest, error) {
	if r.Path == "" {
		return sha256.Sum256(r.Payload), nil
	}
	var d offer.Digest
	f, err := r.open()
	if err != nil {
		return d, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return d, fmt.Errorf("read a payload: %w", err)
	}
	h.Sum(d[:0])
	return d, nil
}

// text is a payload as UTF-8 without a mark, unpacked and decoded as it is read. Whatever the bytes are lacking (they are too
// many, cut off, no gzip, not in their charset) is a *offer.Fault that Read fails with.
func (p *Program) text(r *Request, payload io.Reader) (io.Reader, error) {
	media, params, _ := mime.ParseMediaType(r.ContentType)
	packing := p.spec.Format.Compression
	switch media {
	case "application/gzip", "application/x-gzip":
		packing = CompressionGzip
	case "application/zstd":
		packing = CompressionZstd
	}
	limit := int64(p.spec.Limits.MaxBytes)
	if packing == "" && r.size() > limit {
		return nil, tooLarge("%d bytes; limits.max_bytes is %d", r.size(), limit)
	}
	ahead := max(min(readAhead, r.size()), maxHeadBytes)
	if packing != "" {
		var err error
		if payload, err = newDecompressor(packing, payload, r.size(), limit); err != nil {
			return nil, err
		}
		ahead = readAhead
	}
	raw := bufio.NewReaderSize(payload, int(ahead))
	head, err := raw.Peek(maxHeadBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	charset, name, err := p.charset(params["charset"], head)
	if err == nil {
		err = p.plainlyOther(head)
	}
	switch {
	case err != nil:
		return nil, err
	case charset != nil:
		raw = bufio.NewReaderSize(charset.NewDecoder().Reader(raw), readAhead)
	case packing == "" && int64(len(r.Payload)) == r.size() && utf8.Valid(r.Payload):
		return bytes.NewBuffer(bytes.TrimPrefix(r.Payload, mark)), nil // which a reader may look at in place
	}
	text := &checkedText{text: raw, charset: name, decoded: charset != nil, verbatim: packing == "" && charset == nil}
	if head, err := raw.Peek(len(mark)); err == nil && bytes.Equal(head, mark) {
		n, _ := raw.Discard(len(mark)) // it is there
		text.skipped = int64(n)
	}
	return text, nil
}

var mark = []byte("\ufeff")

// charset is what the text is in, nil for UTF-8: what the content type says, else the feed, else UTF-16 where its mark stands
// in front. An XML document says it itself.
func (p *Program) charset(declared string, head []byte) (charset encoding.Encoding, name string, err error) {
	const utf8Name = "utf-8"
	name = cmp.Or(declared, p.spec.Format.Charset)
	if p.spec.Format.Kind == KindXML {
		name = xmlCharset(head, name)
	}
	marked := bytes.HasPrefix(head, []byte{0xff, 0xfe}) || bytes.HasPrefix(head, []byte{0xfe, 0xff})
	if name == "" && marked {
		name = "utf-16"
	}
	if name == "" {
		return nil, utf8Name, nil
	}
	if charset, err = htmlindex.Get(name); err == nil {
		name, err = htmlindex.Name(charset)
	}
	switch {
	case err != nil || name == "replacement": // which stands for charsets that nobody should read
		return nil, "", deliveryFault(offer.ReasonUnsupportedFormat, "payload_charset_unsupported", "charset %q is not known", shorten(name))
	case name == utf8Name:
		return nil, name, nil
	case strings.HasPrefix(name, "utf-16") && marked:
		return unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM), name, nil
	}
	return charset, name, nil
}

// plainlyOther is the fault of bytes that are of another format beyond doubt, by how they begin: read as the feed's they
// would give a fault that helps nobody.
func (p *Program) plainlyOther(head []byte) error {
	name := ""
	for _, f := range signatures {
		if bytes.HasPrefix(head, []byte(f.begin)) {
			name = f.name
		}
	}
	switch {
	case name != "":
	case edifact.Match(head):
		name = "EDIFACT"
	case x12.Match(head):
		name = "X12"
	case p.spec.Format.Kind != KindXML && markup.Match(head):
		name = "XML or HTML"
	default:
		return nil
	}
	return deliveryFault(offer.ReasonUnsupportedFormat, "payload_format_unsupported", "the payload is %s, and the feed's format is %s", name, p.spec.Format.Kind)
}

var (
	signatures = []struct{ begin, name string }{
		{"\x1f\x8b\x08", "gzip, which neither its content type (application/gzip) nor format.compression says"},
		{"\x28\xb5\x2f\xfd", "zstd, which neither its content type (application/zstd) nor format.compression says"},
		{"PK\x03\x04", "a ZIP archive or an office document"},
		{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an office document"},
		{"%PDF-", "PDF"},
		{"BZh91AY&SY", "bzip2"},
		{"\xfd7zXZ\x00", "xz"},
		{"7z\xbc\xaf\x27\x1c", "a 7z archive"},
		{"PAR1", "Parquet"},
		{"Obj\x01", "Avro"},
	}
	edifact = regexp.MustCompile(`^\s*(?:UNA[^\n]{6}\s*)?UNB[+:]\S{4}`)
	x12     = regexp.MustCompile(`^\s*ISA([^\w\s])\d\d[^\w\s].{10}[^\w\s]`)
	markup  = regexp.MustCompile(`^(?:\x{feff})?\s*<(?:\?xml\s|!DOCTYPE\s|(?i:html)[\s>])`)
)

// checkedText passes text on that is UTF-8. A charset's decoder writes U+FFFD for bytes that do not fit, and no text of
// another charset has one of its own to lose.
type checkedText struct {
	text    *bufio.Reader
	charset string
	decoded bool // from another charset
	// verbatim says that the text is the payload as it stands, but for so many skipped bytes in front.
	verbatim bool
	skipped  int64
	place    place
	partial  []byte // the beginning of a character, whose rest comes with the next bytes
	failed   error
}

// Read implements io.Reader.
func (t *checkedText) Read(b []byte) (int, error) {
	if t.failed != nil {
		return 0, t.failed
	}
	n, err := t.text.Read(b)
	if !t.check(b[:n]) || errors.Is(err, io.EOF) && len(t.partial) > 0 {
		fault := deliveryFault(offer.ReasonInvalidText, "payload_encoding_invalid", "the bytes are not %s; name the charset in the content type or in format.charset", t.charset)
		fault.Line, fault.Column = t.place.line+1, t.place.column+1
		n, err = 0, fault
	}
	t.failed = err
	return n, err
}

// check moves place to what is wrong.
func (t *checkedText) check(b []byte) bool {
	for len(t.partial) > 0 && len(b) > 0 {
		t.partial, b = append(t.partial, b[0]), b[1:]
		if utf8.FullRune(t.partial) {
			if !t.valid(t.partial) {
				return false
			}
			t.partial = t.partial[:0]
		}
	}
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if tail := b[len(b)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				t.partial, b = append(t.partial, tail...), b[:len(b)-i]
			}
			break
		}
	}
	return t.valid(b)
}

func (t *checkedText) valid(b []byte) bool {
	if utf8.Valid(b) && (!t.decoded || !bytes.ContainsRune(b, utf8.RuneError)) {
		t.place.pass(b)
		return true
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && (n == 1 || t.decoded) {
			t.place.pass(b[:i])
			break
		}
		i += n
	}
	return false
}

// A decompressor reads what is packed, all members of it, up to the limits.
type decompressor struct {
	packing     string
	from        io.Reader
	packed      int64
	limit, read int64
}

func newDecompressor(packing string, packed io.Reader, size, limit int64) (*decompressor, error) {
	d := &decompressor{packing: packing, packed: size, limit: limit}
	var err error
	if packing == CompressionZstd {
		d.from, err = zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	} else {
		d.from, err = gzip.NewReader(bufio.NewReaderSize(packed, readAhead))
	}
	if err != nil {
		return nil, d.fault(err)
	}
	return d, nil
}

// Read implements io.Reader.
func (d *decompressor) Read(b []byte) (int, error) {
	n, err := d.from.Read(b)
	d.read += int64(n)
	switch {
	case d.read > d.limit:
		return 0, tooLarge("more than %d bytes unpacked, which is limits.max_bytes", d.limit)
	case d.read > ratioCounts && d.read > maxRatio*d.packed:
		return 0, tooLarge("%d bytes unpack to more than %d times as many", d.packed, maxRatio)
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	}
	return 0, d.fault(err)
}

// fault says what is wrong with the packed bytes; an error of reading them is returned as it is.
func (d *decompressor) fault(err error) error {
	_, ofFile := errors.AsType[*fs.PathError](err)
	switch {
	case ofFile:
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return deliveryFault(offer.ReasonSchemaInvalid, "payload_truncated", "the %s ends too early", d.packing)
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return tooLarge("%v; a window has at most %d bytes", err, maxWindow)
	}
	return deliveryFault(offer.ReasonSchemaInvalid, "payload_malformed", "this is no whole %s: %v", d.packing, err)
}

func tooLarge(format string, args ...any) *offer.Fault {
	return deliveryFault(offer.ReasonDecompressionLimit, "payload_too_large", format, args...)
}
