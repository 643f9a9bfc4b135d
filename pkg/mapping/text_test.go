package mapping

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/charmap"
)

func gzipped(t testing.TB, members ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, m := range members {
		w := gzip.NewWriter(&b)
		if _, err := w.Write([]byte(m)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestCompression(t *testing.T) {
	const text = "sku,mpn\nA-1,M-1\nA-2,M-2\n"
	csv := Spec{Order: OrderObservedAt, Format: Format{Kind: KindCSV}, Program: `{source_record: .sku, item: {mpn: .mpn}}`}
	declared := func(how string) Spec { return with(csv, func(s *Spec) { s.Format.Compression = how }) }
	small := with(csv, func(s *Spec) { s.Limits.MaxBytes = 40 })
	large := with(csv, func(s *Spec) { s.Limits.MaxBytes = 1 << 30 })
	zw, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packed := zw.EncodeAll([]byte(text[8:16]), zw.EncodeAll([]byte(text[:8]), nil))
	whole := gzipped(t, text[:12], text[12:])
	damaged := slices.Clone(whole)
	damaged[len(damaged)-6] ^= 1 // of the check sum
	western, err := charmap.Windows1252.NewEncoder().String("sku,mpn\nA-1,Größe–5€\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		spec        Spec
		payload     []byte
		contentType string
		rows        int
		detail      string
	}{
		"all members, by the content type":      {csv, whole, "application/gzip", 2, ""},
		"another name of it":                    {csv, whole, "application/x-gzip", 2, ""},
		"all members, by the feed":              {declared(CompressionGzip), whole, "text/csv", 2, ""},
		"zstd, by the content type":             {csv, packed, "application/zstd", 1, ""},
		"zstd, by the feed":                     {declared(CompressionZstd), packed, "", 1, ""},
		"the content type goes first":           {declared(CompressionZstd), whole, "application/gzip", 2, ""},
		"a charset within":                      {with(csv, func(s *Spec) { s.Format.Charset = "windows-1252" }), gzipped(t, western), "application/gzip", 1, ""},
		"UTF-16 by its mark, within":            {csv, gzipped(t, "\xff\xfes\x00k\x00u\x00,\x00m\x00p\x00n\x00\n\x00A\x00,\x00B\x00"), "application/gzip", 1, ""},
		"neither says it":                       {csv, whole, "text/csv", 0, "payload_format_unsupported"},
		"neither says that it is zstd":          {csv, packed, "text/csv", 0, "payload_format_unsupported"},
		"packed twice":                          {csv, gzipped(t, string(whole)), "application/gzip", 0, "payload_format_unsupported"},
		"it is none":                            {csv, []byte(text), "application/gzip", 0, "payload_malformed"},
		"it is no zstd":                         {csv, []byte(text), "application/zstd", 0, "payload_malformed"},
		"nothing":                               {csv, nil, "application/gzip", 0, "payload_truncated"},
		"cut off":                               {csv, whole[:len(whole)-9], "application/gzip", 0, "payload_truncated"},
		"cut off in the head of a member":       {csv, append(slices.Clone(whole), whole[:5]...), "application/gzip", 0, "payload_truncated"},
		"zstd, cut off":                         {csv, packed[:len(packed)-2], "application/zstd", 0, "payload_truncated"},
		"a wrong check sum":                     {csv, damaged, "application/gzip", 0, "payload_malformed"},
		"something behind the last member":      {csv, append(slices.Clone(whole), "neither a member"...), "application/gzip", 0, "payload_malformed"},
		"larger than may be":                    {small, gzipped(t, text, "A-3,M-3\nA-4,M-4\n\n"), "application/gzip", 0, "payload_too_large"},
		"larger than may be, and no CSV":        {small, gzipped(t, "\"", strings.Repeat("x", 100)), "application/gzip", 0, "payload_too_large"},
		"no more than may be":                   {small, gzipped(t, text, "A-3,M-3\n"), "application/gzip", 3, ""},
		"it unpacks to far more than it is":     {large, gzipped(t, "sku,mpn\n", strings.Repeat(" ", 1<<20+1)), "application/gzip", 0, "payload_too_large"},
		"little unpacks to far more than it is": {large, gzipped(t, text, strings.Repeat(" ", 1<<20-100)), "application/gzip", 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "payload")
			if err := os.WriteFile(path, tc.payload, 0o600); err != nil {
				t.Fatal(err)
			}
			var first Result
			for i, r := range []Request{{Payload: tc.payload}, {Path: path, Length: int64(len(tc.payload))}} {
				r.HasData, r.ContentType, r.EventTime = true, tc.contentType, noon
				res, err := mustCompile(t, tc.spec).Map(t.Context(), &r)
				if err != nil {
					t.Fatal(err)
				}
				if len(res.Rows) != tc.rows || (res.Fault == nil) != (tc.detail == "") || res.Fault != nil && res.Fault.Detail != tc.detail {
					t.Errorf("got %d rows, %v, %v; want %d and %s", len(res.Rows), res.Rejected, res.Fault, tc.rows, tc.detail)
				}
				if res.Fingerprint != unreadable(t, &r) { // which is that of the packed bytes, as bytes is the default
					t.Errorf("got the fingerprint %v", res.Fingerprint)
				}
				if i == 0 {
					first = res
				} else if !reflect.DeepEqual(first, res) {
					t.Errorf("from a file: %+v, from memory: %+v", res, first)
				}
			}
		})
	}
}

func TestWhatIsPlainlyAnotherFormatIsNamed(t *testing.T) {
	for name, payload := range map[string]string{
		"gzip": "\x1f\x8b\x08\x00", "zstd": "\x28\xb5\x2f\xfd", "ZIP": "PK\x03\x04\x14", "office": "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "PDF": "%PDF-1.7\n",
		"EDIFACT": "UNA:+,? '\nUNB+UNOC:3+1:14+2:14'", "X12": "ISA*00*          *00*          *ZZ*A", "HTML": "\r\n<!DOCTYPE html><html>", "XML": "<?xml version=\"1.0\"?><a/>",
	} {
		for _, kind := range []string{KindCSV, KindJSON, KindNDJSON} {
			fault := mapText(t, with(plain, func(s *Spec) { s.Format.Kind = kind }), payload).Fault
			if fault == nil || fault.Detail != "payload_format_unsupported" || !strings.Contains(fault.Message, name) && name != "gzip" && name != "office" {
				t.Errorf("%s as %s: got %v", name, kind, fault)
			}
		}
	}
	for _, header := range []string{"UNB,ISA\n1,2\n", "PK,price\n", "<price>,UNA\n", "ISA,00\n", "{a},[b]\n", "BZh,PAR\n"} {
		if fault := mapText(t, with(plain, func(s *Spec) { s.Format.Kind = KindCSV }), header).Fault; fault != nil && fault.Detail == "payload_format_unsupported" {
			t.Errorf("the header %q: %v", header, fault)
		}
	}
}
