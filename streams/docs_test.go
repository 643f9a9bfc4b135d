package streams_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/offerlog/offerlog/pkg/fault"
	"github.com/offerlog/offerlog/streams"
)

// testNames are the tests of the whole project.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				names[fn.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var namedTest = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")

// tableRows are the rows of the tables of a page, each as its cells, without their heads.
func tableRows(text string) (rows [][]string) {
	var head bool
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			head = true
		case strings.HasPrefix(line, "| ---"):
			head = false
		case !head:
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

func TestS_003_30_a_guarantee_names_its_test_or_is_an_intent(t *testing.T) {
	known := testNames(t)
	rows := tableRows(read(t, "../docs/guarantees.md"))
	if len(rows) < 10 {
		t.Fatalf("the page has %d promises: it is not read as it is written", len(rows))
	}
	for _, row := range rows {
		tests := namedTest.FindAllStringSubmatch(row[1], -1)
		if len(tests) == 0 && row[1] != "intent" {
			t.Errorf("%q names no test and is no intent", row[0])
		}
	}
	// Here, and wherever else the docs name a test.
	err := filepath.WalkDir("../docs", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".md") {
			return err
		}
		for _, m := range namedTest.FindAllStringSubmatch(read(t, path), -1) {
			if !known[m[1]] {
				t.Errorf("%s names %s, which is no test", path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestS_003_31_S_003_26_the_decisions_name_their_tests(t *testing.T) {
	pages, err := filepath.Glob("../docs/decisions/*.md")
	if err != nil || len(pages) < 9 {
		t.Fatalf("got %d pages and error %v", len(pages), err)
	}
	for _, page := range pages {
		text := read(t, page)
		for _, part := range []string{"**Context.**", "**Decision.**", "**Consequences.**", "Shown by `Test"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s has no %s", page, part)
			}
		}
	}
}

// The table of crashes in the docs is the one that the code has, and together its rows have each fault point once; at each of
// them TestS_000_34_EachFaultPoint and TestAKilledRotationGoesOn kill a process.
func TestS_000_34_each_crash_point_has_a_declared_recovery(t *testing.T) {
	var points []string
	_, table, found := strings.Cut(read(t, "../docs/design.md"), "| the crash comes after |")
	if !found {
		t.Fatal("docs/design.md has no table of crashes")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	rows := tableRows("\n| the crash comes after |" + table)
	if len(rows) != len(streams.Arrows) {
		t.Fatalf("docs/design.md has %d arrows, want %d", len(rows), len(streams.Arrows))
	}
	for i, a := range streams.Arrows {
		if got, want := rows[i][:3], []string{a.After, a.Left, a.Next}; !slices.Equal(got, want) {
			t.Errorf("docs/design.md says %q, offerlog design %q", got, want)
		}
		points = append(points, strings.Fields(strings.ReplaceAll(rows[i][3], "`", ""))...)
	}
	slices.Sort(points)
	if want := slices.Sorted(slices.Values(fault.Points())); !slices.Equal(points, want) {
		t.Errorf("the arrows have points %q, want each of %q once", points, want)
	}
}

var writesSomething = regexp.MustCompile(`(?m)^\s*(?:WITH .* AS \()?\s*(INSERT INTO|UPDATE|DELETE FROM|TRUNCATE)\b`)

// Whoever adds a statement that writes says which test does it twice.
func TestS_000_04_every_write_has_a_replay_test(t *testing.T) {
	known, listed := testNames(t), map[string]bool{}
	for _, row := range tableRows(read(t, "../docs/writes.md")) {
		tests := namedTest.FindAllStringSubmatch(row[2], -1)
		if len(tests) == 0 {
			t.Errorf("%s: no test is named", row[0])
		}
		for _, m := range tests {
			if !known[m[1]] {
				t.Errorf("%s: %s is no test", row[0], m[1])
			}
		}
		for _, f := range strings.Fields(strings.ReplaceAll(row[0], "`", "")) {
			listed[f] = true
		}
	}
	found := map[string]bool{}
	for _, path := range sqlFiles(t) {
		if writesSomething.MatchString(read(t, path)) {
			found[strings.TrimPrefix(path, "../")] = true
		}
	}
	if len(found) < 40 {
		t.Fatalf("only %d statements write: they are not read as they are written", len(found))
	}
	for f := range found {
		if !listed[f] {
			t.Errorf("%s writes, and docs/writes.md does not say which test does it twice", f)
		}
	}
	for f := range listed {
		if !found[f] {
			t.Errorf("docs/writes.md lists %s, which writes nothing", f)
		}
	}
}
