package offer

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseTime(t *testing.T) {
	for text, want := range map[string]string{
		"2025-03-01T10:00:00Z":                 "2025-03-01T10:00:00Z",
		"2026-01-01T01:59:59.5+02:00":          "2025-12-31T23:59:59.5Z",
		"2025-12-31T23:59:59.9999999Z":         "2025-12-31T23:59:59.9999999Z",
		"2025-12-31T23:59:59.000Z":             "2025-12-31T23:59:59Z",
		"2025-12-31T23:59:59.12345678901230Z":  "2025-12-31T23:59:59.1234567890123Z",
		"2025-12-31T23:59:59.100-11:30":        "2026-01-01T11:29:59.1Z",
		"1678-01-01T00:00:00Z":                 "1678-01-01T00:00:00Z",
		"2261-12-31T23:59:59.999999999Z":       "2261-12-31T23:59:59.999999999Z",
		"2025-03-01t10:00:00.25z":              "2025-03-01T10:00:00.25Z",
		"2025-03-01T10:00:00-00:00":            "2025-03-01T10:00:00Z",
		"2024-02-29T00:00:00.000000000000001Z": "2024-02-29T00:00:00.000000000000001Z",
	} {
		got, err := ParseTime(text)
		if err != nil || got.Text != want {
			t.Errorf("%s: got %s, %v; want %s", text, got, err, want)
			continue
		}
		if clock, err := time.Parse(time.RFC3339Nano, strings.ToUpper(text)); err != nil || got.Nanos != clock.UnixNano() || !got.Time().Equal(clock.Truncate(time.Nanosecond)) {
			t.Errorf("%s: got %d ns, want %d", text, got.Nanos, clock.UnixNano())
		}
		if again, err := ParseTime(got.Text); err != nil || again != got {
			t.Errorf("%s is not canonical: %s, %v", got, again, err)
		}
	}
}

func TestParseTimeRefuses(t *testing.T) {
	for _, text := range []string{"", "now", "2025-03-01", "2025-03-01T10:00:00", "2025-03-01 10:00:00Z", "2025-03-01T10:00Z", "2025-3-1T10:00:00Z", "2025-03-01T1:00:00Z", "2025-02-30T10:00:00Z",
		"2025-03-01T24:00:00Z", "2025-03-01T10:00:60Z", "2025-03-01T10:00:00.Z", "2025-03-01T10:00:00,5Z", "2025-03-01T10:00:00+0100", "2025-03-01T10:00:00+25:00", "1677-12-31T23:59:59Z", "2262-01-01T00:00:00Z",
		"0000-01-01T00:00:00Z", "2025-03-01T10:00:00Z ", "2025-03-01T10:00:00ZZ"} {
		if got, err := ParseTime(text); !errors.Is(err, ErrNotATime) || !got.IsZero() {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, ErrNotATime)
		}
	}
}

func TestTimesOrderAsTheirInstantsDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nanos := rapid.Int64Range(-9214560000e9, 9214646399e9)
		zone := rapid.IntRange(-14*60, 14*60)
		at := func(label string) (Time, time.Time) {
			clock := time.Unix(0, nanos.Draw(t, label)).In(time.FixedZone("", 60*zone.Draw(t, label+" zone")))
			got, err := ParseTime(clock.Format(time.RFC3339Nano))
			if err != nil {
				t.Fatal(err)
			}
			if got != TimeOf(clock) {
				t.Errorf("%v: parsed %v, made %v", clock, got, TimeOf(clock))
			}
			return got, clock
		}
		a, aClock := at("a")
		b, bClock := at("b")
		if (a.Nanos < b.Nanos) != aClock.Before(bClock) || (a == b) != aClock.Equal(bClock) {
			t.Errorf("%v and %v do not order as %v and %v", a, b, aClock, bClock)
		}
	})
}

func TestTimeJSON(t *testing.T) {
	var x struct {
		At Time `json:"at,omitzero"`
	}
	if err := json.Unmarshal([]byte(`{"at":"2025-03-01T11:00:00.50+01:00"}`), &x); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(x); err != nil || string(got) != `{"at":"2025-03-01T10:00:00.5Z"}` {
		t.Errorf("got %s, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`{"at":""}`), &x); err != nil || !x.At.IsZero() {
		t.Errorf("the empty text: got %v, %v; want absent", x.At, err)
	}
	if err := json.Unmarshal([]byte(`{"at":"noon"}`), &x); err == nil {
		t.Error("no error for a text that is no time")
	}
}
