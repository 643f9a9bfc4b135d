package mapping

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/offerlog/offerlog/pkg/offer"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// text is the payload as UTF-8 without a mark, read as the feed's format says.
func (p *Program) text(r *Request) (io.Reader, *offer.Fault) {
	if len(r.Payload) > p.spec.Limits.MaxBytes {
		return nil, deliveryFault(offer.ReasonDecompressionLimit, "payload_too_large", "%d bytes; limits.max_bytes is %d", len(r.Payload), p.spec.Limits.MaxBytes)
	}
	media, params, _ := mime.ParseMediaType(r.ContentType)
	if media == "application/gzip" || media == "application/x-gzip" {
		return nil, deliveryFault(offer.ReasonUnsupportedFormat, "payload_format_unsupported", "%s is not unpacked by this version; send the JSON itself", media)
	}
	text, fault := toUTF8(r.Payload, cmp.Or(params["charset"], p.spec.Format.Charset))
	return bytes.NewBuffer(text), fault
}

// toUTF8 decodes text: by the charset, else as UTF-16 where its mark stands in front, else as UTF-8. A mark is removed;
// bytes that are no text in the charset are a fault, never repaired.
func toUTF8(b []byte, charset string) ([]byte, *offer.Fault) {
	mark := bytes.HasPrefix(b, []byte{0xff, 0xfe}) || bytes.HasPrefix(b, []byte{0xfe, 0xff})
	var from encoding.Encoding
	name := "utf-8"
	switch {
	case charset != "":
		var err error
		if from, err = htmlindex.Get(charset); err != nil {
			return nil, deliveryFault(offer.ReasonUnsupportedFormat, "payload_charset_unsupported", "charset %q is not known", shorten(charset))
		}
		name, _ = htmlindex.Name(from)
	case mark:
		name = "utf-16"
	}
	if strings.HasPrefix(name, "utf-16") && mark {
		from = unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM)
	}
	if name == "utf-8" {
		if !utf8.Valid(b) {
			return nil, encodingFault(name, b)
		}
		return bytes.TrimPrefix(b, []byte("\ufeff")), nil
	}
	text, err := from.NewDecoder().Bytes(b)
	if err != nil || bytes.ContainsRune(text, utf8.RuneError) { // what a decoder writes for bytes that do not fit
		return nil, encodingFault(name, nil)
	}
	return bytes.TrimPrefix(text, []byte("\ufeff")), nil
}

func encodingFault(charset string, b []byte) *offer.Fault {
	fault := deliveryFault(offer.ReasonInvalidText, "payload_encoding_invalid", "the bytes are not %s; name the charset in the content type or in format.charset", charset)
	for offset := 0; offset < len(b); {
		r, n := utf8.DecodeRune(b[offset:])
		if r == utf8.RuneError && n == 1 {
			fault.Line, fault.Column = position(string(b[:offset]), offset)
			break
		}
		offset += n
	}
	return fault
}

// A fingerprinter takes a delivery's form under one canonicalization as it is read.
type fingerprinter struct {
	name, base, attributes string
	document               hash.Hash      // of the document's json/1
	rows                   []offer.Digest // of the rows' json/1
	form                   []byte
}

// fingerprinter is for the asked or the own canonicalization.
func (p *Program) fingerprinter(r *Request) *fingerprinter {
	f := &fingerprinter{name: r.Canonicalization}
	f.base, f.attributes, _ = strings.Cut(f.name, "+")
	if !slices.Contains([]string{offer.CanonicalBytes, offer.CanonicalJSON, offer.CanonicalRows}, f.base) {
		f.name = p.Canonicalization()
		f.base, f.attributes, _ = strings.Cut(f.name, "+")
	}
	if f.base == offer.CanonicalJSON {
		f.document = sha256.New()
	}
	return f
}

// row takes one row's value.
func (f *fingerprinter) row(value any) {
	if f.base == offer.CanonicalRows {
		f.form = appendCanonical(f.form[:0], value)
		f.rows = append(f.rows, sha256.Sum256(f.form))
	}
}

// sum is the fingerprint of a delivery that has been read to its end.
func (f *fingerprinter) sum(r *Request) offer.Fingerprint {
	var form offer.Digest
	switch f.base {
	case offer.CanonicalBytes:
		form = sha256.Sum256(r.Payload)
	case offer.CanonicalJSON:
		f.document.Sum(form[:0])
	default:
		form = rowsDigest(f.rows)
	}
	return offer.Fingerprint{Canonicalization: f.name, Digest: fingerprintDigest(form, r, f.attributes)}
}

// rowsDigest is that of rows/1: the SHA-256 over the rows' digests, sorted by bytes, so that 32 bytes are all that a row
// needs until the order is known.
func rowsDigest(rows []offer.Digest) offer.Digest {
	slices.SortFunc(rows, func(a, b offer.Digest) int { return bytes.Compare(a[:], b[:]) })
	h := sha256.New()
	for i := range rows {
		_, _ = h.Write(rows[i][:])
	}
	var d offer.Digest
	h.Sum(d[:0])
	return d
}

// Canonicalization is what the Spec's own fingerprints stand under.
func (p *Program) Canonicalization() string {
	base := map[string]string{FingerprintBytes: offer.CanonicalBytes, FingerprintJSON: offer.CanonicalJSON, FingerprintRows: offer.CanonicalRows}[p.spec.Fingerprint]
	switch {
	case p.all:
		return base + "+*"
	case len(p.attributes) > 0:
		return base + "+" + strings.Join(p.attributes, "+")
	}
	return base
}

// BytesFingerprint is the fingerprint of a delivery whose payload nobody could read.
func BytesFingerprint(r *Request) offer.Fingerprint {
	return offer.Fingerprint{Canonicalization: offer.CanonicalBytes, Digest: fingerprintDigest(sha256.Sum256(r.Payload), r, "")}
}

// unread are the attributes that $ce as a whole does not stand for in a fingerprint: the key itself, what says how the
// event is written, and when it was sent.
var unread = []string{"id", "source", "type", "specversion", "datacontenttype", "time"}

// fingerprintDigest is the form's; with attributes, or without data, that of a text with the form's digest and a line for
// each attribute.
func fingerprintDigest(form offer.Digest, r *Request, attributes string) offer.Digest {
	var names []string
	switch {
	case attributes == "*":
		for _, name := range sortedKeys(r.Attributes) {
			if !slices.Contains(unread, name) && !slices.Contains(hidden, name) {
				names = append(names, name)
			}
		}
	case attributes != "":
		names = strings.Split(attributes, "+")
	}
	if r.HasData && attributes == "" {
		return form
	}
	text := []byte("no data\n")
	if r.HasData {
		text = fmt.Appendf(nil, "data %x\n", form)
	}
	for _, name := range names {
		if value, ok := r.Attributes[name]; ok {
			text = fmt.Appendf(text, "%s=%d:%s\n", name, len(value), value)
		}
	}
	return sha256.Sum256(text)
}
