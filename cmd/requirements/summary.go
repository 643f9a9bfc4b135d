package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// summary shows a `go test -json` stream while it comes, and counts at its end.
func summary(in io.Reader, out io.Writer) error {
	w := bufio.NewWriter(out)
	var all packages
	var total tally
	reasons := make(map[string]int)
	show := func(p *pkg, ended []*test) {
		for _, t := range ended {
			if t.counted() {
				total.add(t.outcome)
			}
			switch {
			case t.outcome == failed:
				showOutput(w, t.output)
			case t.outcome == skipped && t.counted():
				reasons[t.reason]++
				fmt.Fprintf(w, "skip  %s %s: %s\n", path(p.name), t.name, t.reason)
			}
		}
		if p.outcome != "" {
			showPackage(w, p)
		}
	}
	err := read(in, func(e event) {
		switch e.Action {
		case "build-output":
			fmt.Fprint(w, e.Output)
		case "build-fail":
		default:
			show(all.add(e))
		}
		// Every line is shown when it is known, since people watch a long suite. An error stays in w for the last Flush.
		_ = w.Flush()
	})
	if err != nil {
		return err
	}
	for _, e := range all.missing() {
		show(all.add(e))
	}
	fmt.Fprintf(w, "%s%s\n", total.String(), byReason(reasons))
	return w.Flush()
}

// framing is how go test marks that tests start, pause and go on, and how packages end.
var framing = regexp.MustCompile(`^(=== |PASS$|FAIL(\t|$))`)

func showOutput(w io.Writer, lines []string) {
	for _, line := range lines {
		if !framing.MatchString(strings.TrimSuffix(line, "\n")) {
			fmt.Fprint(w, line)
		}
	}
}

func showPackage(w io.Writer, p *pkg) {
	switch {
	case p.outcome == failed:
		showOutput(w, p.output)
		fmt.Fprintf(w, "FAIL  %s %.1fs: %s\n", path(p.name), p.elapsed, p.tally.String())
	case len(p.ended) == 0:
		fmt.Fprintf(w, "none  %s: no tests\n", path(p.name))
	default:
		fmt.Fprintf(w, "ok    %s %.1fs: %s\n", path(p.name), p.elapsed, p.tally.String())
	}
}

// byReason is " (reason: count, ...)", the most frequent first, or nothing.
func byReason(reasons map[string]int) string {
	if len(reasons) == 0 {
		return ""
	}
	var parts []string
	for reason := range reasons {
		parts = append(parts, reason)
	}
	slices.SortFunc(parts, func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), strings.Compare(a, b))
	})
	for i, reason := range parts {
		parts[i] = fmt.Sprintf("%s: %d", reason, reasons[reason])
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
