package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stream writes a `go test -json` stream: each line is "action package test output", the last two where they apply.
func stream(t *testing.T, lines ...string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, line := range lines {
		fields := append(strings.SplitN(line, " ", 4), "", "", "")
		e := event{Action: fields[0], Package: "github.com/offerlog/offerlog/" + fields[1], Test: fields[2]}
		if fields[3] != "" {
			e.Output = fields[3] + "\n"
		}
		if err := enc.Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	return &b
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	return lines[len(lines)-1]
}

func TestSummary(t *testing.T) {
	tests := map[string]struct {
		stream []string
		want   []string // lines, among others
		absent string
		last   string
	}{
		"output of a passed test is not shown": {
			stream: []string{"start p", "run p TestA", "output p TestA chatter", "pass p TestA", "pass p"},
			want:   []string{"ok    p 0.0s: 1 passed, 0 failed, 0 skipped"},
			absent: "chatter",
			last:   "1 passed, 0 failed, 0 skipped",
		},
		"output of a failed test is shown without its framing": {
			stream: []string{
				"start p", "run p TestA", "output p TestA === RUN   TestA", "output p TestA     a_test.go:7: got 1, want 2",
				"output p TestA --- FAIL: TestA (0.00s)", "fail p TestA", "fail p",
			},
			want:   []string{"    a_test.go:7: got 1, want 2", "--- FAIL: TestA (0.00s)", "FAIL  p 0.0s: 0 passed, 1 failed, 0 skipped"},
			absent: "=== RUN",
			last:   "0 passed, 1 failed, 0 skipped",
		},
		"skips are named and counted by reason": {
			stream: []string{
				"start p",
				"run p TestA", "output p TestA     a_test.go:7: needs a container engine: no socket", "output p TestA --- SKIP: TestA (0.00s)", "skip p TestA",
				"run p TestB", "output p TestB     a_test.go:9: needs OpenSearch", "skip p TestB",
				"run p TestC", "output p TestC     a_test.go:8: needs a container engine: refused", "skip p TestC",
				"run p TestD", "skip p TestD",
				"pass p",
			},
			want: []string{"skip  p TestA: needs a container engine", "skip  p TestD: no reason given"},
			last: "0 passed, 0 failed, 4 skipped (needs a container engine: 2, needs OpenSearch: 1, no reason given: 1)",
		},
		"a test with subtests is not counted beside them": {
			stream: []string{"start p", "run p TestA", "run p TestA/x", "run p TestA/y/z", "pass p TestA/x", "fail p TestA/y/z", "fail p TestA", "fail p"},
			last:   "1 passed, 1 failed, 0 skipped",
		},
		"a test that fails after its subtests have passed is counted": {
			stream: []string{"start p", "run p TestA", "run p TestA/x", "pass p TestA/x", "fail p TestA", "fail p"},
			last:   "1 passed, 1 failed, 0 skipped",
		},
		"a test that a timeout cut off has failed, once": {
			stream: []string{"start p", "run p TestA", "run p TestA/x", "output p TestA/x panic: test timed out after 1s", "fail p"},
			want:   []string{"panic: test timed out after 1s"},
			last:   "0 passed, 1 failed, 0 skipped",
		},
		"a package that fails without a test counts as one failure": {
			stream: []string{"start p", "output p  goleak: found leaks", "run p TestA", "pass p TestA", "fail p"},
			want:   []string{"goleak: found leaks"},
			last:   "1 passed, 1 failed, 0 skipped",
		},
		"a stream that breaks off is a failure": {
			stream: []string{"start p", "run p TestA", "pass p TestA"},
			want:   []string{"the results end before this package did"},
			last:   "1 passed, 1 failed, 0 skipped",
		},
		"a package without tests says so": {
			stream: []string{"start p", "output p  ?   \tp\t[no test files]", "skip p"},
			want:   []string{"none  p: no tests"},
			last:   "0 passed, 0 failed, 0 skipped",
		},
		"a test that runs twice counts twice": {
			stream: []string{"start p", "run p TestA", "fail p TestA", "run p TestA", "pass p TestA", "fail p"},
			last:   "1 passed, 1 failed, 0 skipped",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := summary(stream(t, tt.stream...), &out); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(out.String(), "\n")
			for _, want := range tt.want {
				if !slices.Contains(lines, want) {
					t.Errorf("no line %q in\n%s", want, &out)
				}
			}
			if tt.absent != "" && strings.Contains(out.String(), tt.absent) {
				t.Errorf("%q is in\n%s", tt.absent, &out)
			}
			if got := lastLine(out.String()); got != tt.last {
				t.Errorf("last line: got %q, want %q", got, tt.last)
			}
		})
	}
}

func TestSummaryShowsWhatTheBuildSays(t *testing.T) {
	in := strings.NewReader(`{"ImportPath":"p","Action":"build-output","Output":"p.go:3:1: undefined: x\n"}
{"ImportPath":"p","Action":"build-fail"}
not JSON at all
{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p"}
`)
	var out bytes.Buffer
	if err := summary(in, &out); err != nil {
		t.Fatal(err)
	}
	want := `p.go:3:1: undefined: x
not JSON at all
FAIL  p 0.0s: 0 passed, 1 failed, 0 skipped
0 passed, 1 failed, 0 skipped
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

const document = `# Requirements

- S-000-01 — a rerun adds nothing → 400 observations.
- S-000-02 — a change survives → 2 observations.
- M-01 — deliveries are CloudEvents → fixtures.
- T1. a decision, no requirement
`

func TestList(t *testing.T) {
	tests := map[string]struct {
		stream []string
		want   string
		err    error
	}{
		"each id shows its tests or is missing": {
			stream: []string{
				"start p", "run p TestM_01_modes", "pass p TestM_01_modes", "run p TestRerun", "run p TestRerun/S_000_01_lost",
				"pass p TestRerun/S_000_01_lost", "pass p TestRerun", "pass p", "start q", "run q TestS_000_01", "pass q TestS_000_01", "pass q",
			},
			want: `S-000-01  pass     p TestRerun/S_000_01_lost
S-000-01  pass     q TestS_000_01
S-000-02  missing  
M-01      pass     p TestM_01_modes
3 requirements: 2 passed, 0 failed, 0 skipped, 1 missing
`,
		},
		"one test may name several, and a subtest is not listed under the test that names the same": {
			stream: []string{
				"start p", "run p TestS_000_01_S_000_02", "run p TestS_000_01_S_000_02/M_01_S_000_01", "pass p TestS_000_01_S_000_02/M_01_S_000_01",
				"pass p TestS_000_01_S_000_02", "pass p",
			},
			want: `S-000-01  pass  p TestS_000_01_S_000_02
S-000-02  pass  p TestS_000_01_S_000_02
M-01      pass  p TestS_000_01_S_000_02/M_01_S_000_01
3 requirements: 3 passed, 0 failed, 0 skipped, 0 missing
`,
		},
		"a failed test fails its requirement beside one that passed": {
			stream: []string{
				"start p", "run p TestS_000_01_a", "pass p TestS_000_01_a", "run p TestS_000_01_b", "fail p TestS_000_01_b", "fail p",
			},
			want: `S-000-01  pass     p TestS_000_01_a
S-000-01  fail     p TestS_000_01_b
S-000-02  missing  
M-01      missing  
3 requirements: 0 passed, 1 failed, 0 skipped, 2 missing
`,
			err: errNotMet,
		},
		"a failure of a test that names none is not the list's": {
			stream: []string{"start p", "run p TestOther", "fail p TestOther", "run p TestS_000_01", "pass p TestS_000_01", "fail p"},
			want: `S-000-01  pass     p TestS_000_01
S-000-02  missing  
M-01      missing  
3 requirements: 1 passed, 0 failed, 0 skipped, 2 missing
`,
		},
		"a skip is no pass, not even under a test that passed": {
			stream: []string{
				"start p", "run p TestS_000_01", "output p TestS_000_01     a_test.go:7: needs Kafka", "skip p TestS_000_01",
				"run p TestS_000_02", "run p TestS_000_02/x", "skip p TestS_000_02/x", "pass p TestS_000_02",
				"run p TestM_01", "run p TestM_01/x", "skip p TestM_01/x", "run p TestM_01/y", "pass p TestM_01/y", "pass p TestM_01", "pass p",
			},
			want: `S-000-01  skip                       p TestS_000_01: needs Kafka
S-000-02  skip                       p TestS_000_02
M-01      pass (1 subtests skipped)  p TestM_01
3 requirements: 1 passed, 0 failed, 2 skipped, 0 missing
`,
		},
		"a test that was cut off has failed": {
			stream: []string{"start p", "run p TestS_000_01"},
			want: `S-000-01  fail     p TestS_000_01
S-000-02  missing  
M-01      missing  
3 requirements: 0 passed, 1 failed, 0 skipped, 2 missing
`,
			err: errNotMet,
		},
		"an id that the document does not have is a mistake": {
			stream: []string{"start p", "run p TestS_000_99", "pass p TestS_000_99", "pass p"},
			want: `S-000-01  missing  
S-000-02  missing  
M-01      missing  
S-000-99  unknown  p TestS_000_99
3 requirements: 0 passed, 0 failed, 0 skipped, 3 missing
`,
			err: errNotMet,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := list(strings.NewReader(document), stream(t, tt.stream...), &out)
			if !errors.Is(err, tt.err) {
				t.Errorf("error: got %v, want %v", err, tt.err)
			}
			if got := out.String(); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestIDsInNames(t *testing.T) {
	tests := map[string][]string{
		"TestS_000_42_resend":            {"S-000-42"},
		"TestS_000_42_and_S_000_43":      {"S-000-42", "S-000-43"},
		"TestScenes/six_rows_S_004_07":   {"S-004-07"},
		"TestM_01":                       {"M-01"},
		"TestS_000_421":                  nil,
		"TestRAM_64":                     nil,
		"TestM_1":                        nil,
		"TestReceipts/S_000_19,M_02_(3)": {"S-000-19", "M-02"},
	}
	for name, want := range tests {
		if got := idsIn(name); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestDocumentStatesEachRequirementOnce(t *testing.T) {
	for name, doc := range map[string]string{
		"twice": document + "- M-01 — again → again.\n",
		"none":  "# Requirements\n",
	} {
		if _, err := requirements(strings.NewReader(doc)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestProjectDocument keeps the project's own list readable by this program.
func TestProjectDocument(t *testing.T) {
	doc, err := os.ReadFile("../../docs/requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := requirements(bytes.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	if stated := bytes.Count(doc, []byte("\n- S-")) + bytes.Count(doc, []byte("\n- M-")); stated != len(ids) {
		t.Errorf("%d lines begin like a requirement, %d are one", stated, len(ids))
	}
}

func TestSummaryKeepsTheStreamForList(t *testing.T) {
	dir := t.TempDir()
	doc, results := filepath.Join(dir, "requirements.md"), filepath.Join(dir, "build", "test.json")
	if err := os.WriteFile(doc, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run([]string{"list", "-doc", doc, "-results", results}, nil, &out); err == nil || errors.Is(err, errNotMet) {
		t.Fatalf("without results: got error %v, want one about the file", err)
	}
	in := stream(t, "start p", "run p TestS_000_01", "fail p TestS_000_01", "fail p")
	if err := run([]string{"summary", "-save", results}, in, &out); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"list", "-doc", doc, "-results", results}, nil, &out); !errors.Is(err, errNotMet) {
		t.Fatalf("list: got error %v, want %v", err, errNotMet)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"count"}, {"list", "extra"}, {"summary", "-unknown"}} {
		if err := run(args, strings.NewReader(""), &bytes.Buffer{}); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
