package streams_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/offerlog/offerlog/"

type listed struct {
	ImportPath   string
	Dir          string
	Name         string
	Doc          string
	GoFiles      []string
	Imports      []string
	TestImports  []string // of tests in the package
	XTestImports []string // of tests beside it
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,Name,Doc,GoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 10 {
		t.Fatalf("go list names %d packages, which is no whole project", len(all))
	}
	return all
}

// floor is how high a package stands: an import may only point down, or sideways.
func floor(path string) int {
	switch first, _, _ := strings.Cut(strings.TrimPrefix(path, module), "/"); first {
	case "cmd", "docs": // what is built on it: the program, and the examples
		return 3
	case "streams":
		return 2
	case "pkg":
		return 1
	default: // schemas, testdata
		return 0
	}
}

// upward are the imports that tests alone may have, by whose tests and of what.
var upward = []struct{ from, to, reason string }{
	{"pkg/", "streams/rig", "the nouns are tested on real servers, and the rig starts those"},
	{"pkg/feed", "streams", "a feed may not read the topics that offerlog writes, and the map knows them"},
}

func allowedInTests(from, to string) bool {
	from, to = strings.TrimPrefix(from, module), strings.TrimPrefix(to, module)
	for _, u := range upward {
		if to == u.to && (from == u.from || strings.HasSuffix(u.from, "/") && strings.HasPrefix(from, u.from)) {
			return true
		}
	}
	return false
}

func TestM_04_imports_point_down_and_every_package_says_what_it_is(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" && p.Name != "main" && !strings.HasPrefix(p.ImportPath, module+"streams/cases") {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
		for _, i := range p.Imports {
			if strings.HasPrefix(i, module) && floor(i) > floor(p.ImportPath) {
				t.Errorf("%s imports %s: imports point down (cmd, streams, pkg, schemas)", p.ImportPath, i)
			}
			if strings.HasPrefix(i, module+"streams/rig") && !strings.HasPrefix(p.ImportPath, module+"streams/rig") {
				t.Errorf("%s imports %s: the rig is for tests", p.ImportPath, i)
			}
		}
		for _, i := range slices.Concat(p.TestImports, p.XTestImports) {
			if strings.HasPrefix(i, module) && floor(i) > floor(p.ImportPath) && !allowedInTests(p.ImportPath, i) {
				t.Errorf("a test of %s imports %s: imports point down (cmd, streams, pkg, schemas)", p.ImportPath, i)
			}
		}
		if p.ImportPath == module+"pkg/offer" {
			for _, i := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
				if strings.HasPrefix(i, module) && i != p.ImportPath {
					t.Errorf("pkg/offer imports %s: the words need nothing", i)
				}
			}
		}
	}
}

func TestM_04_top_level_holds_what_the_README_says(t *testing.T) {
	want := []string{"cmd", "pkg", "streams", "schemas", "testdata", "docs", "docker-compose.yml", "go.mod", "Makefile", "README.md"}
	allowed := append(want, "go.sum", "LICENSE", "Dockerfile", "bin", "build", "CHANGELOG.md")
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
		if !strings.HasPrefix(e.Name(), ".") && !slices.Contains(allowed, e.Name()) {
			t.Errorf("top level has %s", e.Name())
		}
	}
	for _, w := range want {
		if !slices.Contains(have, w) {
			t.Errorf("top level lacks %s", w)
		}
	}
}

func TestM_05_the_required_libraries_are_used(t *testing.T) {
	all := packages(t)
	for _, lib := range []string{"github.com/twmb/franz-go/pkg/kgo", "github.com/jackc/pgx/v5", "github.com/cloudevents/sdk-go/v2/event", "github.com/testcontainers/testcontainers-go"} {
		if !slices.ContainsFunc(all, func(p listed) bool { return slices.Contains(p.Imports, lib) }) {
			t.Errorf("no package imports %s", lib)
		}
	}
}

// owners says which package writes which table; nobody else's SQL does.
var owners = map[string]string{
	"lane": "lane", "gap": "lane", "commit_journal": "lane",
	"receipt": "receipt", "outcome": "receipt", "receipt_horizon": "receipt",
	"quarantine": "quarantine", "quarantine_decision": "quarantine", "replay": "quarantine",
	"replay_run": "replay", "replay_page": "replay",
	"run": "run", "run_page": "run", "run_event": "run",
	"observation": "history", "sighting": "history",
	"decision":         "decision",
	"snapshot_account": "snapshot", "snapshot_record": "snapshot",
	"outbox": "outbox", "outbox_0": "outbox", "outbox_1": "outbox", "outbox_2": "outbox", "outbox_ring": "outbox", "relay_cursor": "outbox",
	"current_offer": "view", "publication": "view", "offer_change": "view", "projection": "view", "generation": "view", "generation_pointer": "view", "generation_decision": "view",
	"registry": "feed", "feed": "feed", "feed_route": "feed", "mapping": "feed",
	"artifact": "archive", "tenant_key": "archive",
	"tick": "tick", "tick_head": "tick",
	"janitor_task": "janitor",
	"pruning":      "retention",
	"recovery":     "recovery",
	"token":        "token",
	"pg_temp":      "shadow", // what a transaction keeps to itself
}

var writes = regexp.MustCompile(`(?im)\b(?:INSERT\s+INTO|DELETE\s+FROM|TRUNCATE(?:\s+TABLE)?|^\s*UPDATE|MERGE\s+INTO)\s+(?:ONLY\s+)?([a-z_0-9]+)`)

func TestSQLWritesItsOwnTables(t *testing.T) {
	n := 0
	for _, path := range sqlFiles(t) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pkg := filepath.Base(filepath.Dir(path))
		for _, m := range writes.FindAllStringSubmatch(string(b), -1) {
			n++
			if owner := owners[m[1]]; owner != pkg {
				t.Errorf("%s writes %s, which is %q's", path, m[1], owner)
			}
		}
	}
	if n < 15 {
		t.Errorf("found %d writing statements: the pattern does not see them", n)
	}
}

// Statements that stand in Go, as texts, are held to the same.
func TestSQLInGoWritesItsOwnTables(t *testing.T) {
	n := 0
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			for at, text := range texts(t, filepath.Join(p.Dir, name)) {
				for _, m := range writes.FindAllStringSubmatch(text, -1) {
					n++
					if owner := owners[m[1]]; owner != p.Name {
						t.Errorf("%s writes %s, which is %q's", at, m[1], owner)
					}
				}
			}
		}
	}
	if n == 0 {
		t.Error("found no writing statement in Go: the pattern does not see them")
	}
}

// texts are the string literals of a Go file, by place.
func texts(t *testing.T, path string) map[string]string {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[files.Position(lit.Pos()).String()] = text
		}
		return true
	})
	return found
}

// sqlFiles are the statements that lie beside the Go that runs them.
func sqlFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, root := range []string{"../pkg", "../streams", "../cmd"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(path, ".sql") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}
