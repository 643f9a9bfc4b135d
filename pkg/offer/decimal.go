package offer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/apd/v3"
)

// Limits of a Decimal.
const (
	MaxDigits   = 38
	MaxScale    = 18
	MaxExponent = 40
)

// Faults of number texts, told apart because one is the supplier's spelling and the other its size.
var (
	ErrNotANumber = errors.New("not a number")
	ErrOutOfRange = errors.New("number out of range")
)

// A Decimal is an exact decimal number in canonical form, or absent (the zero value). Canonical: optional minus, no
// leading zeros, no trailing zeros after the point, no exponent, no minus zero; at most 38 digits, 18 of them after the
// point. Equal numbers have equal text, so == compares values.
type Decimal struct{ text string }

// ParseDecimal reads a number text: optional minus, digits, optional point and digits, optional exponent. Digits may
// lack before the point, not after it. It decides ErrOutOfRange without expanding the exponent.
func ParseDecimal(s string) (Decimal, error) {
	rest, neg := strings.CutPrefix(s, "-")
	mantissa, exp := rest, 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		var err error
		if exp, err = parseExponent(rest[i+1:]); err != nil {
			return Decimal{}, fmt.Errorf("%w: %q", err, shorten(s))
		}
		mantissa = rest[:i]
	}
	whole, frac, point := strings.Cut(mantissa, ".")
	if point && frac == "" || whole+frac == "" || !digits(whole) || !digits(frac) {
		return Decimal{}, fmt.Errorf("%w: %q", ErrNotANumber, shorten(s))
	}
	// value = coef * 10^scale
	coef, scale := strings.TrimLeft(whole+frac, "0"), exp-len(frac)
	if coef == "" {
		return Decimal{"0"}, nil
	}
	trimmed := strings.TrimRight(coef, "0")
	scale += len(coef) - len(trimmed)
	coef = trimmed
	if exp > MaxExponent || exp < -MaxExponent || scale < -MaxScale || len(coef)+max(scale, 0) > MaxDigits || max(len(coef), -scale) > MaxDigits {
		return Decimal{}, fmt.Errorf("%w: %q", ErrOutOfRange, shorten(s))
	}
	var text string
	switch {
	case scale >= 0:
		text = coef + strings.Repeat("0", scale)
	case -scale < len(coef):
		text = coef[:len(coef)+scale] + "." + coef[len(coef)+scale:]
	default:
		text = "0." + strings.Repeat("0", -scale-len(coef)) + coef
	}
	if neg {
		text = "-" + text
	}
	return Decimal{text}, nil
}

// MustDecimal is ParseDecimal for tests and constants; it panics on an error.
func MustDecimal(s string) Decimal {
	d, err := ParseDecimal(s)
	if err != nil {
		panic(err)
	}
	return d
}

// DecimalFromApd brings a result of exact arithmetic into canonical form.
func DecimalFromApd(d *apd.Decimal) (Decimal, error) {
	if d.Form != apd.Finite {
		return Decimal{}, ErrNotANumber
	}
	return ParseDecimal(d.Text('E'))
}

// Apd returns the number for exact arithmetic; an absent Decimal is 0.
func (d Decimal) Apd() *apd.Decimal {
	if d.text == "" {
		return new(apd.Decimal)
	}
	v, _, err := apd.NewFromString(d.text)
	if err != nil {
		panic("offer: a Decimal holds " + d.text) // ParseDecimal let nothing else in
	}
	return v
}

// IsZero reports whether the number is absent. The number 0 is not absent.
func (d Decimal) IsZero() bool { return d.text == "" }

// Sign is -1, 0 or 1; 0 also where the number is absent.
func (d Decimal) Sign() int {
	switch {
	case d.text == "" || d.text == "0":
		return 0
	case d.text[0] == '-':
		return -1
	}
	return 1
}

// Whole reports whether the number has no digits after the point.
func (d Decimal) Whole() bool { return !strings.Contains(d.text, ".") }

// Compare compares values; absent is less than every number.
func (d Decimal) Compare(e Decimal) int {
	switch {
	case d == e:
		return 0
	case d.text == "":
		return -1
	case e.text == "":
		return 1
	}
	return d.Apd().Cmp(e.Apd())
}

// String is the canonical text, "" where absent.
func (d Decimal) String() string { return d.text }

// MarshalText writes the canonical text, so that JSON has a string and never a float.
func (d Decimal) MarshalText() ([]byte, error) { return []byte(d.text), nil }

// UnmarshalText reads any number text; the empty text is absent.
func (d *Decimal) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*d = Decimal{}
		return nil
	}
	v, err := ParseDecimal(string(b))
	if err != nil {
		return err
	}
	*d = v
	return nil
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// parseExponent returns a value beyond every limit for an exponent of any length.
func parseExponent(s string) (int, error) {
	s, neg := strings.CutPrefix(s, "-")
	if !neg {
		s = strings.TrimPrefix(s, "+")
	}
	if s == "" || !digits(s) {
		return 0, ErrNotANumber
	}
	n := 0
	for i := range len(s) {
		if n = n*10 + int(s[i]-'0'); n > 100*MaxExponent {
			break
		}
	}
	if neg {
		n = -n
	}
	return n, nil
}

func shorten(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}
