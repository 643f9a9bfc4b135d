package quarantine_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/quarantine"
)

// side is a payload of rows such as "A 119", fetched as the pairs of attributes say.
func side(rows string, attributes ...string) *quarantine.Side {
	s := &quarantine.Side{Payload: strings.NewReader(strings.ReplaceAll(rows, ", ", "\n")), Attributes: map[string]string{}}
	for pair := range slices.Chunk(attributes, 2) {
		s.Attributes[pair[0]] = pair[1]
	}
	var list []offer.Row
	for i, r := range strings.Split(rows, ", ") {
		record, price, _ := strings.Cut(r, " ")
		list = append(list, offer.Row{Number: i + 1, Record: record, Content: offer.Content{Price: offer.MustDecimal(price), Currency: "EUR"}})
	}
	s.Count, s.Rows = len(list), func(yield func([]offer.Row, error) bool) {
		for some := range slices.Chunk(list, 700) {
			if !yield(some, nil) {
				return
			}
		}
	}
	return s
}

func compare(t *testing.T, first, second *quarantine.Side) quarantine.Comparison {
	t.Helper()
	c, err := quarantine.Compare(first, second)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestS_000_46_the_evidence_tells_causes_apart(t *testing.T) {
	page := []string{"endpoint", "https://supplier.example/export", "cursor", "c7", "page", "2", "time", "2026-03-02T08:00:00Z"}
	for name, c := range map[string]struct {
		first, second *quarantine.Side
		want          quarantine.Comparison
	}{
		"the export was changed after it was made": {
			side("A 119, B 20, C 30, D 40", append(page, "recordedtime", "2026-03-02T08:00:01Z")...),
			side("A 99, B 20, C 30, D 40", append(page, "recordedtime", "2026-03-02T09:30:00Z")...),
			quarantine.Comparison{
				Bytes:   quarantine.Bytes{First: 20, Second: 19, Offset: 2, Line: 1},
				Context: []quarantine.Field{{Name: "recordedtime", Old: "2026-03-02T08:00:01Z", New: "2026-03-02T09:30:00Z"}},
				Rows: &quarantine.RowDiff{Changed: []quarantine.Changed{{Record: "A", Fields: []quarantine.Field{{Name: "price", Old: "119", New: "99"}}}},
					Unchanged: 3},
				Hints: []quarantine.Hint{{Cause: quarantine.MutatedExport, Why: "both were fetched from https://supplier.example/export, and 1 of 4 records differ: the source has changed what it had exported"}},
			},
		},
		"another delivery got the id": {
			side("A 119, B 20", "endpoint", "https://supplier.example/export", "cursor", "c7"),
			side("X 1, Y 2, Z 3", "endpoint", "https://supplier.example/stock", "cursor", "c1"),
			quarantine.Comparison{
				Bytes: quarantine.Bytes{First: 10, Second: 11, Offset: 0, Line: 1},
				Context: []quarantine.Field{{Name: "cursor", Old: "c7", New: "c1"},
					{Name: "endpoint", Old: "https://supplier.example/export", New: "https://supplier.example/stock"}},
				Rows:  &quarantine.RowDiff{Added: []string{"X", "Y", "Z"}, Removed: []string{"A", "B"}},
				Hints: []quarantine.Hint{{Cause: quarantine.WrongKey, Why: "0 of 5 records are in both payloads: they look like two deliveries, and one of them has the other's id"}},
			},
		},
		"the cursor was used for another page": {
			side("A 119, B 20, C 30", page...),
			side("B 20, C 30, D 40", "endpoint", "https://supplier.example/export", "cursor", "c7", "page", "3", "time", "2026-03-02T08:00:00Z"),
			quarantine.Comparison{
				Bytes:   quarantine.Bytes{First: 15, Second: 14, Offset: 0, Line: 1},
				Context: []quarantine.Field{{Name: "page", Old: "2", New: "3"}},
				Rows:    &quarantine.RowDiff{Added: []string{"D"}, Removed: []string{"A"}, Unchanged: 2},
				Hints:   []quarantine.Hint{{Cause: quarantine.ReusedCursor, Why: `both were fetched at cursor c7, and have another page: "2" and "3"`}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := compare(t, c.first, c.second); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %s\nwant %s", text(got), text(c.want))
			}
		})
	}
}

func text(c quarantine.Comparison) string { return fmt.Sprintf("%+v rows %+v", c, c.Rows) }

func TestPayloadsThatCannotBeReadAreComparedAsBytes(t *testing.T) {
	c := compare(t, &quarantine.Side{Payload: strings.NewReader("a\nb\nc")}, &quarantine.Side{Payload: strings.NewReader("a\nb\nc\nd")})
	if want := (quarantine.Bytes{First: 5, Second: 7, Offset: 5, Line: 3}); c.Bytes != want || c.Rows != nil || c.Hints != nil {
		t.Errorf("got %+v, want %+v and nothing else", c, want)
	}
	if same := compare(t, side("A 1"), side("A 1")); same.Bytes.Offset != -1 || same.Hints != nil {
		t.Errorf("equal payloads: got %+v", same)
	}
}

// Sides of any size are compared in parts, and what is listed is bounded; what is counted is all.
func TestLargePayloadsAreComparedInParts(t *testing.T) {
	const n = 60_000
	rows := func(first int, price func(i int) int) string {
		list := make([]string, 0, n)
		for i := first; i < first+n; i++ {
			list = append(list, fmt.Sprintf("R-%d %d", i, price(i)))
		}
		return strings.Join(list, ", ")
	}
	first, second := rows(0, func(int) int { return 1 }), rows(10, func(i int) int { return 1 + i/(n-2000) })
	c := compare(t, side(first), side(second))
	if added, removed, changed := c.Rows.Sums(); added != 10 || removed != 10 || changed != 2000 || c.Rows.Unchanged != n-2010 {
		t.Errorf("got %d added, %d removed, %d changed, %d unchanged", added, removed, changed, c.Rows.Unchanged)
	}
	if got := len(c.Rows.Added) + len(c.Rows.Removed) + len(c.Rows.Changed); got != quarantine.ListedRows || c.Rows.Unlisted.Changed == 0 {
		t.Errorf("got %d listed, want %d, and changed ones that are not: %+v", got, quarantine.ListedRows, c.Rows.Unlisted)
	}
	if want := (quarantine.Bytes{First: len(first) - n + 1, Second: len(second) - n + 1, Offset: 2, Line: 1}); c.Bytes != want {
		t.Errorf("got %+v, want %+v", c.Bytes, want)
	}
	same := strings.Repeat("x", 1<<20) + "\n"
	c = compare(t, &quarantine.Side{Payload: strings.NewReader(same + "a")}, &quarantine.Side{Payload: iotest.OneByteReader(strings.NewReader(same + "b"))})
	if want := (quarantine.Bytes{First: 1<<20 + 2, Second: 1<<20 + 2, Offset: 1<<20 + 1, Line: 2}); c.Bytes != want {
		t.Errorf("got %+v, want %+v", c.Bytes, want)
	}
	broken := errors.New("the disk is gone")
	if _, err := quarantine.Compare(&quarantine.Side{Payload: iotest.ErrReader(broken)}, side("A 1")); !errors.Is(err, broken) {
		t.Errorf("got error %v, want %v", err, broken)
	}
}
