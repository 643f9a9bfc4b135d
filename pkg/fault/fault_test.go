package fault_test

import (
	"bufio"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/offerlog/offerlog/pkg/fault"
)

// childEnv makes this test a child that comes to its points.
const childEnv = "OFFERLOG_TEST_FAULT_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	for i := range 3 {
		fmt.Println("hit", i+1)
		fault.Point("ingest.fetched")
		if err := fault.Err("ingest.mapped"); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("done")
}

// child is this test, built with fault points or without, as it runs under a specification.
func child(ctx context.Context, program, spec string) *exec.Cmd {
	c := exec.CommandContext(ctx, program)
	c.Env = append(os.Environ(), childEnv+"=1", "OFFERLOG_FAULT="+spec)
	return c
}

func build(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "fault.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "faults", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build with fault points: %v: %s", err, out)
	}
	return program
}

func TestActions(t *testing.T) {
	program := build(t)
	const all = "hit 1\nhit 2\nhit 3\ndone\n"
	for name, c := range map[string]struct {
		spec, stdout, stderr string
		signal               syscall.Signal
		exit                 int
	}{
		"nothing is planned":                       {"", all, "", 0, 0},
		"killed at the first hit":                  {"ingest.fetched=kill", "hit 1\n", "fault: ingest.fetched: kill at hit 1", syscall.SIGKILL, 0},
		"killed at the third hit":                  {"ingest.fetched=kill:3", "hit 1\nhit 2\nhit 3\n", "fault: ingest.fetched: kill at hit 3", syscall.SIGKILL, 0},
		"a hit that never comes":                   {"ingest.fetched=kill:4", all, "", 0, 0},
		"two points":                               {"ingest.mapped=sleep:1ms,ingest.fetched=kill:2", "hit 1\nhit 2\n", "fault: ingest.mapped: sleep at hit 1\nfault: ingest.fetched: kill at hit 2", syscall.SIGKILL, 0},
		"asleep for a moment":                      {"ingest.fetched=sleep:1ms:2", all, "fault: ingest.fetched: sleep at hit 2", 0, 0},
		"a panic":                                  {"ingest.fetched=panic:2", "hit 1\nhit 2\n", "panic: fault: ingest.fetched", 0, 2},
		"an error where one can be returned":       {"ingest.mapped=error:2", "hit 1\nhit 2\ninjected fault at ingest.mapped\nhit 3\ndone\n", "", 0, 0},
		"an error where none can be returned":      {"ingest.fetched=error", "hit 1\n", "ingest.fetched has no error to return", 0, 2},
		"a point that is not there":                {"ingest.fetch=kill", "", `"ingest.fetch" is no point`, 0, 2},
		"an action that is not there":              {"ingest.fetched=die", "", `"die" is no action`, 0, 2},
		"a point without an action":                {"ingest.fetched", "", `"" is no action`, 0, 2},
		"sleep without a duration":                 {"ingest.fetched=sleep", "", "sleep takes a duration", 0, 2},
		"a hit before the first":                   {"ingest.fetched=kill:0", "", "want the number of the hit", 0, 2},
		"one point twice":                          {"ingest.fetched=kill,ingest.fetched=stop", "", "ingest.fetched is there twice", 0, 2},
		"a specification that ends with a comma":   {"ingest.fetched=kill,", "", `"" is no point`, 0, 2},
		"an argument that the action does not use": {"ingest.fetched=kill:1s", "", "want the number of the hit", 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			cmd := child(t.Context(), program, c.spec)
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run() // its state says more
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if c.signal != 0 && (!status.Signaled() || status.Signal() != c.signal) || c.signal == 0 && status.ExitStatus() != c.exit {
				t.Errorf("got %v, want exit %d or signal %v", cmd.ProcessState, c.exit, c.signal)
			}
			if stdout.String() != c.stdout || !strings.Contains(stderr.String(), c.stderr) {
				t.Errorf("got %q and %q, want %q and %q", stdout.String(), stderr.String(), c.stdout, c.stderr)
			}
		})
	}
}

func TestStopLastsUntilSomebodyContinuesIt(t *testing.T) {
	cmd := child(t.Context(), build(t), "ingest.fetched=stop:2")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("got status %x and error %v, want it stopped", status, err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for s := bufio.NewScanner(stdout); s.Scan(); {
		lines = append(lines, s.Text())
	}
	if want := []string{"hit 1", "hit 2", "hit 3", "done"}; !slices.Equal(lines, want) {
		t.Errorf("got %q, want %q", lines, want)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// A point that is listed and not placed would be a test that never kills anything; one that is placed and not listed panics
// in a build with faults.
func TestEveryListedPointIsPlacedAndEveryPlacedPointIsListed(t *testing.T) {
	placed := map[string]bool{}
	root := filepath.Join("..", "..")
	for _, dir := range []string{"cmd", "pkg", "streams"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) != 1 {
					return true
				}
				fn, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || fn.Sel.Name != "Point" && fn.Sel.Name != "Err" {
					return true
				}
				if pkg, ok := fn.X.(*ast.Ident); !ok || pkg.Name != "fault" {
					return true
				}
				if lit, ok := call.Args[0].(*ast.BasicLit); ok {
					name, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Errorf("%s: %v", path, err)
					}
					placed[name] = true
				} else {
					t.Errorf("%s: the name of a point is no literal", path)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range fault.Points() {
		if !placed[name] {
			t.Errorf("%s is listed and placed nowhere", name)
		}
		delete(placed, name)
	}
	for name := range placed {
		t.Errorf("%s is placed and not listed", name)
	}
}
