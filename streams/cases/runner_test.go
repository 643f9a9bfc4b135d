package cases

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A runner that passes everything would look the same as a pipeline that does everything right.
func TestTheRunnerFindsWhatIsWrong(t *testing.T) {
	const late, steps = "late-backfill", "poison-record"
	for name, c := range map[string]struct {
		from               string
		file, this, became string
		want               string
	}{
		"a case as it is passes":              {late, "case.json", "", "", "PASS"},
		"another value is expected":           {late, "expected.json", `"quantity": "4"`, `"quantity": "5"`, "FAIL case: observations: want"},
		"another result is expected":          {late, "expected.json", `"old": 1`, `"saved": 1`, "FAIL case: event 1: got results"},
		"another outcome is expected":         {late, "expected.json", `"outcome": "accepted"`, `"outcome": "duplicate"`, "FAIL case: event 0: got accepted"},
		"something unknown is expected":       {late, "expected.json", `"tombstones"`, `"gravestones"`, "FAIL case: read expected.json"},
		"a setting is not in this version":    {late, "case.json", `"order"`, `"policy": {"approvers": "2"}, "order"`, `SKIP case: feed setting policy.approvers ("2")`},
		"a step is not in this version":       {steps, "case.json", `"reads_to_end"`, `"reads_to_end"}, {"n": 3, "actor": "sink", "do": "runs_to_end"`, `SKIP case: step "sink runs_to_end"`},
		"nobody knows the step":               {steps, "case.json", `"reads_to_end"`, `"dances"`, `FAIL case: step 2: nobody knows how "worker dances" is done`},
		"nobody knows the step's argument":    {steps, "case.json", `"reads_to_end"`, `"reads_to_end", "slowly": true`, `FAIL case: step 2: "worker reads_to_end" takes no "slowly"`},
		"another final measure is expected":   {steps, "expected.json", `"stored_next_offset": 3`, `"stored_next_offset": 2`, "FAIL case: final stored_next_offset: got 3, want 2"},
		"nobody knows the final measure":      {steps, "expected.json", `"stored_next_offset"`, `"stored_previous_offset"`, "FAIL case: final stored_previous_offset: nobody knows"},
		"the mapping is refused when applied": {late, "mapping.jq", ".", "now | .", "FAIL case: mapping.program"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "testdata", "cases", c.from))); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, c.file)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if c.this != "" && !strings.Contains(string(b), c.this) {
				t.Fatalf("%s of %s holds no %s", c.file, c.from, c.this)
			}
			if err := os.WriteFile(path, []byte(strings.Replace(string(b), c.this, c.became, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			if v := judge(t, dir); !strings.HasPrefix(v.word+" "+v.text, c.want) {
				t.Errorf("got %s %s, want %s", v.word, v.text, c.want)
			}
		})
	}
}

// judge runs a case whose failure is no failure of the test.
func judge(t *testing.T, dir string) verdict {
	l := &listener{TB: indifferent{t}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(l, dir)
	}()
	<-done
	return l.verdict("case")
}

type indifferent struct{ testing.TB }

func (indifferent) Fail()        {}
func (indifferent) FailNow()     { runtime.Goexit() }
func (indifferent) Failed() bool { return false }
