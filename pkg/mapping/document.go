package mapping

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/offerlog/offerlog/pkg/offer"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// A document is a payload that has been read.
type document struct {
	text    []byte // UTF-8, without mark
	value   any
	offsets []int // in text, of the elements of a top-level list
}

// decode reads the payload as the feed's format says.
func (p *Program) decode(r *Request) (doc document, fault *offer.Fault) {
	switch {
	case !r.HasData && p.spec.NoData == NoDataRefuse:
		return doc, deliveryFault(offer.ReasonSchemaInvalid, "data_missing", "the event has no data; a feed whose events may lack it sets no_data: map")
	case !r.HasData:
		return doc, nil
	case len(r.Payload) > p.spec.Limits.MaxBytes:
		return doc, deliveryFault(offer.ReasonDecompressionLimit, "payload_too_large", "%d bytes; limits.max_bytes is %d", len(r.Payload), p.spec.Limits.MaxBytes)
	}
	media, params, _ := mime.ParseMediaType(r.ContentType)
	if media == "application/gzip" || media == "application/x-gzip" {
		return doc, deliveryFault(offer.ReasonUnsupportedFormat, "payload_format_unsupported", "%s is not unpacked by this version; send the JSON itself", media)
	}
	charset := params["charset"]
	if charset == "" {
		charset = p.spec.Format.Charset
	}
	if doc.text, fault = toUTF8(r.Payload, charset); fault != nil {
		return doc, fault
	}
	doc.value, doc.offsets, fault = readJSON(doc.text, p.spec.Limits.MaxDepth)
	return doc, fault
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

// split takes the rows out of a document.
func (p *Program) split(ctx context.Context, doc document, hasData bool) (rows []any, fault *offer.Fault) {
	limit := p.spec.Limits.MaxRows
	tooMany := func() *offer.Fault {
		return deliveryFault(offer.ReasonMappingLimit, "", "more than %d rows; send them in several deliveries, or raise limits.max_rows", limit)
	}
	switch list, isList := doc.value.([]any); {
	case !hasData:
		return []any{nil}, nil
	case p.rows == nil && isList:
		if len(list) > limit {
			return nil, tooMany()
		}
		return list, nil
	case p.rows == nil:
		return []any{doc.value}, nil
	}
	iter := p.rows.RunWithContext(ctx, doc.value, map[string]any{})
	for {
		row, ok := iter.Next()
		if !ok {
			return rows, nil
		}
		if err, failed := row.(error); failed {
			return nil, deliveryFault(offer.ReasonMappingError, "", "format.rows: %v", err)
		}
		if len(rows) == limit {
			return nil, tooMany()
		}
		rows = append(rows, row)
	}
}

// fingerprint computes the asked or own one; bytes/1 where the payload could not be read.
func (p *Program) fingerprint(r *Request, doc document, rows []any, fault *offer.Fault) offer.Fingerprint {
	name := r.Canonicalization
	base, attributes, _ := strings.Cut(name, "+")
	if !slices.Contains([]string{offer.CanonicalBytes, offer.CanonicalJSON, offer.CanonicalRows}, base) {
		name = p.Canonicalization()
		base, attributes, _ = strings.Cut(name, "+")
	}
	if base != offer.CanonicalBytes && fault != nil {
		return BytesFingerprint(r)
	}
	var form []byte
	switch {
	case base == offer.CanonicalBytes:
		form = r.Payload
	case !r.HasData:
	case base == offer.CanonicalJSON:
		form = appendCanonical(make([]byte, 0, len(doc.text)), doc.value)
	default:
		form = canonicalRows(rows)
	}
	return offer.Fingerprint{Canonicalization: name, Digest: fingerprintDigest(form, r, attributes)}
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
	return offer.Fingerprint{Canonicalization: offer.CanonicalBytes, Digest: fingerprintDigest(r.Payload, r, "")}
}

// canonicalRows is each row's json/1 and a line feed, sorted by bytes: what sort(1) makes of the rows.
func canonicalRows(rows []any) []byte {
	lines := make([][]byte, len(rows))
	size := 0
	for i, row := range rows {
		lines[i] = append(appendCanonical(nil, row), '\n')
		size += len(lines[i])
	}
	slices.SortFunc(lines, bytes.Compare)
	form := make([]byte, 0, size)
	for _, line := range lines {
		form = append(form, line...)
	}
	return form
}

// unread are the attributes that $ce as a whole does not stand for in a fingerprint: the key itself, what says how the
// event is written, and when it was sent.
var unread = []string{"id", "source", "type", "specversion", "datacontenttype", "time"}

// fingerprintDigest is the SHA-256 of the form; with attributes, or without data, that of a text with the form's digest
// and a line for each attribute.
func fingerprintDigest(form []byte, r *Request, attributes string) offer.Digest {
	digest := sha256.Sum256(form)
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
		return digest
	}
	text := []byte("no data\n")
	if r.HasData {
		text = fmt.Appendf(nil, "data %x\n", digest)
	}
	for _, name := range names {
		if value, ok := r.Attributes[name]; ok {
			text = fmt.Appendf(text, "%s=%d:%s\n", name, len(value), value)
		}
	}
	return sha256.Sum256(text)
}
