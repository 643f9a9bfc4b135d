package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// list shows every requirement of doc, in its order, with the tests in results that name it.
func list(doc, results io.Reader, out io.Writer) error {
	ids, err := requirements(doc)
	if err != nil {
		return err
	}
	var all packages
	err = read(results, func(e event) {
		if e.Package != "" {
			all.add(e)
		}
	})
	if err != nil {
		return err
	}
	for _, e := range all.missing() {
		all.add(e)
	}
	named := testsByID(all)

	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var count tally
	var missing int
	for _, id := range ids {
		tests := named[id]
		delete(named, id)
		if len(tests) == 0 {
			missing++
			fmt.Fprintf(w, "%s\tmissing\t\n", id)
			continue
		}
		count.add(together(tests))
		for _, t := range tests {
			fmt.Fprintf(w, "%s\t%s\t%s\n", id, t.verdict(), t.label())
		}
	}
	unknown := sortedKeys(named)
	for _, id := range unknown {
		for _, t := range named[id] {
			fmt.Fprintf(w, "%s\tunknown\t%s\n", id, t.label())
		}
	}
	fmt.Fprintf(w, "%d requirements: %s, %d missing\n", len(ids), count.String(), missing)
	if err := w.Flush(); err != nil {
		return err
	}
	if count.failed > 0 || len(unknown) > 0 {
		return errNotMet
	}
	return nil
}

// requirement is the head of a line that states one.
var requirement = regexp.MustCompile(`^- (S-\d{3}-\d{2}|M-\d{2}) — .+ → .+`)

// requirements are the ids that a document states, in its order.
func requirements(doc io.Reader) ([]string, error) {
	var ids []string
	lines := bufio.NewScanner(doc)
	for lines.Scan() {
		m := requirement.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		if slices.Contains(ids, m[1]) {
			return nil, fmt.Errorf("read the requirements: %s is there twice", m[1])
		}
		ids = append(ids, m[1])
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the requirements: %w", err)
	}
	if len(ids) == 0 {
		return nil, errors.New("read the requirements: the document states none as `- S-000-01 — text → test`")
	}
	return ids, nil
}

// testsByID finds the tests that name a requirement, in the order in which they ended. A subtest is no finding where
// the test above it names the same one: its result is in that test's.
func testsByID(all packages) map[string][]*test {
	found := make(map[string][]*test)
	for _, p := range all.all {
		for _, t := range p.ended {
			var above []string
			if t.parent != nil {
				above = idsIn(t.parent.name)
			}
			for _, id := range idsIn(t.name) {
				if !slices.Contains(above, id) && !slices.Contains(found[id], t) {
					found[id] = append(found[id], t)
				}
			}
		}
	}
	return found
}

var idInName = regexp.MustCompile(`S_\d{3}_\d{2}|M_\d{2}`)

// idsIn are the requirements that a test's name holds: TestS_000_42_resend names S-000-42.
func idsIn(name string) []string {
	var ids []string
	for _, at := range idInName.FindAllStringIndex(name, -1) {
		partOfWord := at[0] > 0 && isUpperOrDigit(name[at[0]-1]) || at[1] < len(name) && isUpperOrDigit(name[at[1]])
		if !partOfWord {
			ids = append(ids, strings.ReplaceAll(name[at[0]:at[1]], "_", "-"))
		}
	}
	return ids
}

func isUpperOrDigit(c byte) bool {
	return 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// result is a test's outcome, except that one whose every subtest was skipped has shown nothing and is skipped too.
func (t *test) result() string {
	if t.outcome == passed && !t.leaf && t.below.passed == 0 {
		return skipped
	}
	return t.outcome
}

// verdict is the result with what it leaves out.
func (t *test) verdict() string {
	if t.result() == passed && t.below.skipped > 0 {
		return fmt.Sprintf("%s (%d subtests skipped)", passed, t.below.skipped)
	}
	return t.result()
}

func (t *test) label() string {
	label := path(t.pkg) + " " + t.name
	if t.reason != "" {
		label += ": " + t.reason
	}
	return label
}

// together is the result of a requirement: one failed test fails it, and one passed test carries those skipped.
func together(tests []*test) string {
	result := skipped
	for _, t := range tests {
		switch t.result() {
		case failed:
			return failed
		case passed:
			result = passed
		}
	}
	return result
}

func sortedKeys(m map[string][]*test) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
