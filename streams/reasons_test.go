package streams_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// quoted are the words between backquotes of a text.
func quoted(text string) (words []string) {
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		words = append(words, m[1])
	}
	return words
}

// reasonsIn reads the rows of a document's table of reasons: reason, or reasons without a finer detail, and details.
func reasonsIn(t *testing.T, path, from, to string) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(b), from)
	if section, _, _ = strings.Cut(section, to); !ok {
		t.Fatalf("%s has no part %q", path, from)
	}
	reasons := map[string][]string{}
	for l := range strings.Lines(section) {
		switch cells := strings.Split(l, "|"); {
		case len(cells) < 4:
		case strings.Contains(cells[1], "no finer detail"):
			for _, r := range quoted(cells[2]) {
				reasons[r] = nil
			}
		case len(quoted(cells[1])) == 1:
			reasons[quoted(cells[1])[0]] = quoted(l)[1:]
			if strings.TrimSpace(cells[len(cells)-2]) == "" {
				t.Errorf("%s: %s does not say what to do", path, cells[1])
			}
		}
	}
	return reasons
}

func TestS_003_28_every_reason_and_detail_is_explained(t *testing.T) {
	told := reasonsIn(t, filepath.Join("..", "docs", "reasons.md"), "## Reasons", "## ")
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "pkg", "offer", "fault.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if ok && strings.HasPrefix(v.Names[0].Name, "Reason") {
			reason, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			constants[reason] = true
			if _, ok := told[reason]; !ok {
				t.Errorf("docs/reasons.md does not explain %s", reason)
			}
		}
		return true
	})
	for reason := range told {
		if !constants[reason] {
			t.Errorf("docs/reasons.md explains %s, which is no reason", reason)
		}
	}
	for reason, details := range reasonsIn(t, filepath.Join("..", "testdata", "cases", "INDEX.md"), "## Reasons and details", "## ") {
		if !constants[reason] {
			t.Errorf("the cases know reason %s, which is none", reason)
		}
		for _, d := range details {
			if !slices.Contains(told[reason], d) {
				t.Errorf("docs/reasons.md does not list detail %s of %s", d, reason)
			}
		}
	}
}
