package ingest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What one poll brings becomes batches in order, each within its bounds; a record that is larger than them, or whose data lies
// elsewhere, is a batch of its own.
func TestRecordsAreSharedOutToBatches(t *testing.T) {
	const by, ref = "x", "ref" // a byte of payload each, and a reference
	for what, c := range map[string]struct {
		partitions [][]string
		want       string // records of each batch
	}{
		"nothing":                             {nil, ""},
		"few":                                 {[][]string{{by, by}, {by}}, "3"},
		"more than fit":                       {[][]string{{by, by, by, by, by, by}}, "4 2"},
		"more bytes than fit":                 {[][]string{{strings.Repeat(by, 6), strings.Repeat(by, 6)}}, "1 1"},
		"more bytes than fit, elsewhere":      {[][]string{{strings.Repeat(by, 6)}, {strings.Repeat(by, 6)}}, "1 1"},
		"a record that never fits":            {[][]string{{by, strings.Repeat(by, 20), by}}, "1 1 1"},
		"a reference":                         {[][]string{{ref}}, "1"},
		"a reference between others":          {[][]string{{by, by, ref, by}}, "2 1 1"},
		"references in several partitions":    {[][]string{{ref, ref}, {ref}}, "1 1 1"},
		"a reference first, others elsewhere": {[][]string{{ref}, {by, by}}, "1 2"},
	} {
		t.Run(what, func(t *testing.T) {
			src := &source{positions: map[string]map[int32]*position{"deliveries": {}}}
			for p, payloads := range c.partitions {
				src.positions["deliveries"][int32(p)] = &position{topic: "deliveries"}
				part := kgo.FetchTopicPartition{Topic: "deliveries", FetchPartition: kgo.FetchPartition{Partition: int32(p)}}
				for i, payload := range payloads {
					r := &kgo.Record{Offset: int64(i), Value: []byte(payload)}
					if payload == ref {
						r.Value, r.Headers = nil, []kgo.RecordHeader{{Key: "ce_dataref", Value: []byte("https://example.com/")}}
					}
					part.Records = append(part.Records, r)
				}
				src.positions["deliveries"][int32(p)].lane.ID = p
				src.pending = append(src.pending, part)
			}
			var got []string
			for len(src.pending) > 0 {
				b := src.next(size{records: 4, bytes: 10})
				if b.records == 0 {
					t.Fatal("a batch of nothing, though records are left")
				}
				got = append(got, fmt.Sprint(b.records))
				for _, sp := range b.spans {
					b.lanes[sp.Lane].next = sp.To
				}
			}
			if got := strings.Join(got, " "); got != c.want {
				t.Errorf("got batches of %s, want %s", got, c.want)
			}
		})
	}
}
