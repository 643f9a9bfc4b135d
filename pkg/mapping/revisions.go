package mapping

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"slices"
	"strconv"

	"github.com/offerlog/offerlog/pkg/offer"
)

// revisions finds the rows of a delivery that state one revision of one record: the same record and version, or without a
// version the same time. Equal ones are one row. Where they differ none counts: a delivery that contradicts itself does not
// say which of its rows to believe.
//
// It keeps digests of half their length, so that a million rows are no burden, in buckets, so that it grows by little.
type revisions struct{ buckets [][]statement }

// A statement is what is kept of a row.
type statement struct {
	revision, content [sha256.Size / 2]byte
	row, line, column int32
}

func newRevisions(buckets int) *revisions { return &revisions{make([][]statement, buckets)} }

func (v *revisions) add(in *row, r *offer.Row) {
	b := make([]byte, 0, 128)
	b = strconv.AppendInt(b, int64(len(r.Record)), 10)
	b = append(append(b, ':'), r.Record...)
	if r.HasVersion {
		b = strconv.AppendInt(append(b, 'v'), r.Version, 10)
	} else {
		b = append(append(b, 't'), r.ObservedAt.Text...)
	}
	revision, content := sha256.Sum256(b), r.Content.Digest()
	s := statement{row: int32(r.Number), line: int32(in.line), column: int32(in.column)} //nolint:gosec // limits keep them small
	copy(s.revision[:], revision[:])
	copy(s.content[:], content[:])
	bucket := &v.buckets[int(revision[0])%len(v.buckets)]
	*bucket = append(*bucket, s)
}

// settle names the rows that say again what an earlier one says, and those that are contradicted.
func (v *revisions) settle(repeated, contradicted func(*statement)) {
	for _, bucket := range v.buckets {
		slices.SortFunc(bucket, func(a, b statement) int {
			return cmp.Or(bytes.Compare(a.revision[:], b.revision[:]), cmp.Compare(a.row, b.row))
		})
		for len(bucket) > 0 {
			same, equal := 1, true
			for same < len(bucket) && bucket[same].revision == bucket[0].revision {
				equal = equal && bucket[same].content == bucket[0].content
				same++
			}
			for i := range bucket[:same] {
				switch {
				case !equal:
					contradicted(&bucket[i])
				case i > 0:
					repeated(&bucket[i])
				}
			}
			bucket = bucket[same:]
		}
	}
}

// contradicted is the fault of a row that another one contradicts.
func (s *statement) contradicted() *offer.Fault {
	fault := rowFault(offer.ReasonSchemaInvalid, "key_duplicate_in_delivery", "source_record", "the record is stated more than once for one version or time, with different content")
	fault.Row, fault.Line, fault.Column = int(s.row), int(s.line), int(s.column)
	return fault
}
