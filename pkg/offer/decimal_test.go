package offer

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDecimal(t *testing.T) {
	digits38 := strings.Repeat("9", 38)
	for text, want := range map[string]string{
		"0": "0", "-0": "0", "0.000": "0", "0e999999999999": "0", "-0e-999999999999": "0", "00": "0", ".0": "0",
		"1": "1", "007.50": "7.5", "1.00": "1", ".5": "0.5", "-.5": "-0.5", "19.90": "19.9", "1234567.8900": "1234567.89",
		"1e3": "1000", "1E+1": "10", "1.5E-2": "0.015", "1e-0018": "0.000000000000000001", "1e037": "1" + strings.Repeat("0", 37),
		"100e-2": "1", "12300e-2": "123", "0.001e3": "1",
		digits38: digits38, "-" + digits38: "-" + digits38,
		"99999999999999999999.999999999999999999": "99999999999999999999.999999999999999999",
		"0.1000000000000000000000000":             "0.1",
	} {
		got, err := ParseDecimal(text)
		if err != nil || got.String() != want {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestParseDecimalTellsWhatIsNoNumberFromWhatIsTooLarge(t *testing.T) {
	for _, text := range []string{"", "-", ".", "-.", "1.", "1.e5", "+1", "--1", "1,5", "1 000", " 1", "1 ", "1e", "1e+", "1e-", "e5", "1e1.5", "1e1e1", "NaN", "Infinity", "-inf", "0x10", "1_000", "١", "1.2.3"} {
		if d, err := ParseDecimal(text); !errors.Is(err, ErrNotANumber) || !d.IsZero() {
			t.Errorf("%q: got %q, %v; want %v", text, d, err, ErrNotANumber)
		}
	}
	for _, text := range []string{strings.Repeat("9", 39), "1e38", "1e-19", "0.0000000000000000001", "1e41", "1e1000000000", "-1e-1000000000", "1e99999999999999999999999", "1.0000000000000000001",
		"999999999999999999999.999999999999999999"} {
		if d, err := ParseDecimal(text); !errors.Is(err, ErrOutOfRange) || !d.IsZero() {
			t.Errorf("%q: got %q, %v; want %v", text, d, err, ErrOutOfRange)
		}
	}
}

func TestAHugeNumberIsRefusedWithoutExpandingIt(t *testing.T) {
	began := time.Now()
	for range 10_000 {
		if _, err := ParseDecimal("1e1000000000"); !errors.Is(err, ErrOutOfRange) {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("10,000 took %v", took)
	}
	_, err := ParseDecimal(strings.Repeat("9", 1<<20))
	if !errors.Is(err, ErrOutOfRange) || len(err.Error()) > 200 {
		t.Errorf("got an error of %d bytes, want a short one", len(err.Error()))
	}
}

// numberText is one of the ways to write a number that a Decimal can hold, and the number itself.
func numberText(t *rapid.T, label string) (string, *big.Rat) {
	s := rapid.StringMatching(`-?([0-9]{1,16}(\.[0-9]{1,10})?|\.[0-9]{1,10})([eE][+-]?[0-7])?`).Draw(t, label)
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		t.Fatalf("%q is no number", s)
	}
	return s, r
}

func TestADecimalIsItsExactValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		aText, aValue := numberText(t, "a")
		bText, bValue := numberText(t, "b")
		a, b := MustDecimal(aText), MustDecimal(bText)
		if r, ok := new(big.Rat).SetString(a.String()); !ok || r.Cmp(aValue) != 0 {
			t.Errorf("%s is %s", aText, a)
		}
		if again := MustDecimal(a.String()); again != a {
			t.Errorf("%s is not canonical: %s", a, again)
		}
		if got, want := a.Compare(b), aValue.Cmp(bValue); got != want || (a == b) != (want == 0) {
			t.Errorf("%s and %s: compare %d, equal %v; want %d", aText, bText, got, a == b, want)
		}
		if a.Sign() != aValue.Sign() || a.Whole() != aValue.IsInt() || a.IsZero() {
			t.Errorf("%s: sign %d, whole %v, absent %v", a, a.Sign(), a.Whole(), a.IsZero())
		}
		if back, err := DecimalFromApd(a.Apd()); err != nil || back != a {
			t.Errorf("%s through apd is %s, %v", a, back, err)
		}
	})
}

func TestDecimalJSONIsAStringAndAbsentIsLeftOut(t *testing.T) {
	type price struct {
		Price Decimal `json:"price,omitzero"`
	}
	for _, want := range []string{`{}`, `{"price":"0"}`, `{"price":"-0.015"}`} {
		var p price
		if err := json.Unmarshal([]byte(want), &p); err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(p); err != nil || string(got) != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
	var p price
	if err := json.Unmarshal([]byte(`{"price":"a lot"}`), &p); err == nil {
		t.Error("no error for a text that is no number")
	}
	if zero := (Decimal{}); !zero.IsZero() || zero.Sign() != 0 || zero.Compare(MustDecimal("-1")) != -1 || MustDecimal("-1").Compare(zero) != 1 || zero.Apd().Sign() != 0 {
		t.Error("an absent number is not less than every number, or not 0 in arithmetic")
	}
}

func FuzzParseDecimal(f *testing.F) {
	for _, seed := range []string{"1e1000000000", "-0.0e5", ".5", "1234567.8900", "1e-18", "99999999999999999999999999999999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDecimal(s)
		if err != nil {
			if !errors.Is(err, ErrNotANumber) && !errors.Is(err, ErrOutOfRange) {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		digits := strings.Trim(d.String(), "-.")
		if again, err := ParseDecimal(d.String()); err != nil || again != d || len(strings.ReplaceAll(digits, ".", "")) > MaxDigits+1 {
			t.Errorf("%q: %q is not canonical: %v", s, d, err)
		}
	})
}
