package audit_test

import (
	"strings"
	"testing"

	"github.com/offerlog/offerlog/streams/audit"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

func text(t *testing.T, r audit.Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAHealthyInstallationHasNoViolation(t *testing.T) {
	for name, o := range map[string]pipeline.Options{
		"on the fake broker":                   {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, o)
			r := run(t, w.inputs())
			t.Log("\n" + text(t, r))
			if !r.OK() {
				t.Error("it has")
			}
		})
	}
}
