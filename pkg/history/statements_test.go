package history_test

import (
	"os"
	"regexp"
	"testing"
)

// Row.Into takes the columns of an observation in one order, so every statement that reads observations names them in the
// same words.
func TestEveryStatementReadsTheSameColumns(t *testing.T) {
	columns := regexp.MustCompile(`(?s)SELECT (o\.tenant, o\.offer, o\.strong, .*?o\.deleted, o\.run, o\.held)\b`)
	read := func(path string) (lists []string) {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range columns.FindAllSubmatch(b, -1) {
			lists = append(lists, string(m[1]))
		}
		return lists
	}
	first := read("list.sql")
	if len(first) != 1 {
		t.Fatalf("list.sql reads observations %d times, want once", len(first))
	}
	for path, times := range map[string]int{"list_offers.sql": 1, "list_delivery.sql": 1, "lane.sql": 2, "../view/offers.sql": 1, "../view/apply.sql": 1} {
		lists := read(path)
		if len(lists) != times {
			t.Errorf("%s reads observations %d times, want %d", path, len(lists), times)
		}
		for _, got := range lists {
			if got != first[0] {
				t.Errorf("%s reads\n%s\nand list.sql\n%s", path, got, first[0])
			}
		}
	}
}
