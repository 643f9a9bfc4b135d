package mapping

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/offerlog/offerlog/pkg/offer"
)

// A fingerprinter takes a delivery's form under one canonicalization as it is read.
type fingerprinter struct {
	name, base, attributes string
	document               hash.Hash      // of the document's json/1
	rows                   []offer.Digest // of the rows' json/1
	broken                 bool           // a row has no value, so there is no form
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
		f.document, f.broken = sha256.New(), p.spec.Format.Kind != KindJSON
	}
	return f
}

// row takes one row.
func (f *fingerprinter) row(in *row) {
	if f.base != offer.CanonicalRows {
		return
	}
	if in.fault != nil {
		f.broken = true
		return
	}
	f.form = appendCanonical(f.form[:0], in.value)
	f.rows = append(f.rows, sha256.Sum256(f.form))
}

// sum is the fingerprint of a delivery that has been read to its end, or to its fault.
func (f *fingerprinter) sum(r *Request, fault *offer.Fault) (offer.Fingerprint, error) {
	var form offer.Digest
	switch {
	case f.base == offer.CanonicalBytes:
		var err error
		if form, err = r.digest(); err != nil {
			return offer.Fingerprint{}, err
		}
	case fault != nil || f.broken:
		return bytesFingerprint(r)
	case f.base == offer.CanonicalJSON:
		f.document.Sum(form[:0])
	default:
		form = rowsDigest(f.rows)
	}
	return offer.Fingerprint{Canonicalization: f.name, Digest: fingerprintDigest(form, r, f.attributes)}, nil
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

// bytesFingerprint is the fingerprint of a delivery whose payload nobody could read.
func bytesFingerprint(r *Request) (offer.Fingerprint, error) {
	payload, err := r.digest()
	return offer.Fingerprint{Canonicalization: offer.CanonicalBytes, Digest: fingerprintDigest(payload, r, "")}, err
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
