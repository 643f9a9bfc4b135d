package offer

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrNotATime reports a text that is no RFC 3339 time with a zone, or one outside the years 1678 to 2261, whose
// nanoseconds no 64-bit integer holds.
var ErrNotATime = errors.New("not a time")

// A Time is an instant as a source stated it: nanoseconds for comparing, and the text, since a source may be more precise
// than any clock type. The zero value is absent.
type Time struct {
	Nanos int64  // since 1970-01-01T00:00:00Z; digits beyond the ninth are cut off
	Text  string // RFC 3339 in UTC with Z, fraction digits as given without trailing zeros
}

// ParseTime reads RFC 3339 with a zone.
func ParseTime(s string) (Time, error) {
	t, err := time.Parse(time.RFC3339Nano, strings.ToUpper(s)) // RFC 3339 allows t and z
	if err != nil || len(s) < 20 || s[19] == ',' {             // a comma is ISO 8601, and Go reads it
		return Time{}, fmt.Errorf("%w: %q: want RFC 3339 with a zone, such as 2025-03-01T10:00:00Z", ErrNotATime, shorten(s))
	}
	if y := t.UTC().Year(); y < 1678 || y > 2261 {
		return Time{}, fmt.Errorf("%w: %q: year outside 1678 to 2261", ErrNotATime, shorten(s))
	}
	frac := ""
	if s[19] == '.' {
		frac = s[20:]
		frac = strings.TrimRight(frac[:len(frac)-len(strings.TrimLeft(frac, "0123456789"))], "0")
	}
	return newTime(t, frac), nil
}

// TimeOf returns t with the precision it has.
func TimeOf(t time.Time) Time {
	return newTime(t, strings.TrimRight(fmt.Sprintf("%09d", t.Nanosecond()), "0"))
}

func newTime(t time.Time, frac string) Time {
	text := t.UTC().Format("2006-01-02T15:04:05")
	if frac != "" {
		text += "." + frac
	}
	return Time{t.UnixNano(), text + "Z"}
}

// IsZero reports whether the time is absent.
func (t Time) IsZero() bool { return t.Text == "" }

// String is Text.
func (t Time) String() string { return t.Text }

// Time returns the instant in UTC.
func (t Time) Time() time.Time { return time.Unix(0, t.Nanos).UTC() }

// MarshalText writes Text.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.Text), nil }

// UnmarshalText reads RFC 3339; the empty text is absent.
func (t *Time) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*t = Time{}
		return nil
	}
	v, err := ParseTime(string(b))
	if err != nil {
		return err
	}
	*t = v
	return nil
}
