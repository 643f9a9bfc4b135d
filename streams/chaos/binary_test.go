package chaos

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/offerlog/offerlog/pkg/fault"
)

// inside lists what of package fault is in a binary: the names of points, and symbols.
func inside(t *testing.T, program string) (points, symbols []string) {
	t.Helper()
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range fault.Points() {
		if bytes.Contains(content, []byte(p)) {
			points = append(points, p)
		}
	}
	nm, err := exec.CommandContext(t.Context(), "go", "tool", "nm", program).Output()
	if err != nil {
		t.Fatalf("list the symbols of %s: %v", program, err)
	}
	for line := range strings.Lines(string(nm)) {
		if strings.Contains(line, "offerlog/pkg/fault.") {
			symbols = append(symbols, strings.TrimSpace(line))
		}
	}
	return points, symbols
}

func TestTheShippedBinaryHoldsNoFaultPoints(t *testing.T) {
	points, symbols := inside(t, shipped.program(t))
	if len(points) > 0 || len(symbols) > 0 {
		t.Errorf("the shipped binary holds points %q and symbols %q", points, symbols)
	}
	points, symbols = inside(t, faulty.program(t))
	if len(points) != len(fault.Points()) || len(symbols) == 0 {
		t.Errorf("the build with faults shows %d of %d points and %d symbols: this test does not see them", len(points), len(fault.Points()), len(symbols))
	}
}

func TestTheShippedBinaryDoesNotReadAFaultSpecification(t *testing.T) {
	for _, c := range []struct {
		name string
		*build
		runs bool
	}{{"shipped", shipped, true}, {"with faults", faulty, false}} {
		cmd := exec.CommandContext(t.Context(), c.program(t), "version")
		cmd.Env = append(os.Environ(), "OFFERLOG_FAULT=no such specification")
		if out, err := cmd.CombinedOutput(); (err == nil) != c.runs {
			t.Errorf("%s: got %v: %s", c.name, err, out)
		}
	}
}
