package main

import (
	"testing"
	"time"
)

func TestProgressShowsTheRateAndTheTimeLeft(t *testing.T) {
	for name, test := range map[string]struct {
		done, total int64
		took        time.Duration
		want        string
	}{
		"nothing yet":           {0, 100, time.Second, ""},
		"no time":               {10, 100, 0, ""},
		"a tenth in a second":   {10, 100, time.Second, ", 10 a second, 9s left"},
		"half in ten minutes":   {300, 600, 10 * time.Minute, ", 0 a second, 10m0s left"},
		"many":                  {2_000_000, 10_000_000, 1000 * time.Second, ", 2000 a second, 1h6m40s left"},
		"all":                   {100, 100, time.Second, ""},
		"more than was planned": {101, 100, time.Second, ""},
	} {
		if got := pace(test.done, test.total, test.took); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
