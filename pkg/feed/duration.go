package feed

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// A Duration is a whole number of days, hours or minutes, as feeds write it: 400d, 24h, 15m. A day has 24 hours.
type Duration time.Duration

var durationUnits = map[byte]time.Duration{'d': 24 * time.Hour, 'h': time.Hour, 'm': time.Minute}

// parseDuration returns 0 for what is none.
func parseDuration(s string) Duration {
	if n := len(s) - 1; n > 0 && n <= 6 {
		if count, err := strconv.ParseUint(s[:n], 10, 32); err == nil {
			return Duration(time.Duration(count) * durationUnits[s[n]])
		}
	}
	return 0
}

// String is the duration in the largest unit that makes it a whole number.
func (d Duration) String() string {
	for _, u := range []byte("dhm") {
		if n := time.Duration(d); n%durationUnits[u] == 0 {
			return strconv.FormatInt(int64(n/durationUnits[u]), 10) + string(u)
		}
	}
	return time.Duration(d).String()
}

// MarshalJSON writes String.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads what a feed has. What is no duration is left out, as a value of another kind is of any field: the
// schema tells what is wrong with it.
func (d *Duration) UnmarshalJSON(b []byte) error {
	*d = parseDuration(strings.Trim(string(b), `"`))
	return nil
}
