package mapping

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"
	"github.com/itchyny/gojq"
	"github.com/offerlog/offerlog/pkg/offer"
)

// errFloat reports a binary float: what it was before it became one is lost.
var errFloat = errors.New("a binary float, whose digits need not be the source's; compute with dec, dadd, dsub, dmul, ddiv or dround, and write constants as texts")

// errKind reports a value that is neither number nor text.
var errKind = errors.New("neither a number nor a text")

// An operation computes on exact numbers.
type operation struct {
	min, max int // arguments
	apply    func(args []*apd.Decimal) (*apd.Decimal, error)
}

// arithmetic has digits for any product of two numbers, and refuses to drop one.
var arithmetic = apd.Context{
	Precision:   4 * offer.MaxDigits,
	MaxExponent: apd.MaxExponent,
	MinExponent: apd.MinExponent,
	Traps:       apd.DefaultTraps | apd.Inexact | apd.Rounded,
	Rounding:    apd.RoundHalfUp,
}

// exact are the functions that the jq of a mapping has in place of arithmetic.
var exact = map[string]*operation{
	"dec":  {1, 1, func(a []*apd.Decimal) (*apd.Decimal, error) { return a[0], nil }},
	"dadd": {2, 2, exactly((*apd.Context).Add)},
	"dsub": {2, 2, exactly((*apd.Context).Sub)},
	"dmul": {2, 2, exactly((*apd.Context).Mul)},
	"ddiv": {2, 3, func(a []*apd.Decimal) (*apd.Decimal, error) {
		if a[1].IsZero() {
			return nil, errors.New("division by zero")
		}
		if len(a) == 2 {
			q, err := exactly((*apd.Context).Quo)(a)
			if err != nil {
				return nil, errors.New("the quotient does not end; say how many places to keep: ddiv(x; y; places)")
			}
			return q, nil
		}
		return quotient(a[0], a[1], a[2])
	}},
	"dround": {2, 2, func(a []*apd.Decimal) (*apd.Decimal, error) { return quotient(a[0], apd.New(1, 0), a[1]) }},
}

func exactly(f func(*apd.Context, *apd.Decimal, *apd.Decimal, *apd.Decimal) (apd.Condition, error)) func([]*apd.Decimal) (*apd.Decimal, error) {
	return func(a []*apd.Decimal) (*apd.Decimal, error) {
		var d apd.Decimal
		_, err := f(&arithmetic, &d, a[0], a[1])
		d.Reduce(&d)
		return &d, err
	}
}

// quotient rounds x/y once, from the exact remainder: rounding a rounded quotient could round the wrong way.
func quotient(x, y, places *apd.Decimal) (*apd.Decimal, error) {
	n, err := places.Int64()
	if err != nil || n < 0 || n > offer.MaxScale {
		return nil, fmt.Errorf("places are a whole number from 0 to %d", offer.MaxScale)
	}
	// x/y = (cx/cy) * 10^(ex-ey); shift so that the integer quotient has n places.
	num, den := new(big.Int).Set(x.Coeff.MathBigInt()), new(big.Int).Set(y.Coeff.MathBigInt())
	shift := int64(x.Exponent) - int64(y.Exponent) + n
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(max(shift, -shift)), nil)
	if shift >= 0 {
		num.Mul(num, power)
	} else {
		den.Mul(den, power)
	}
	q, r := new(big.Int).QuoRem(num, den, new(big.Int))
	if r.Lsh(r, 1).Cmp(den) >= 0 {
		q.Add(q, big.NewInt(1))
	}
	d := apd.NewWithBigInt(new(apd.BigInt).SetMathBigInt(q), int32(-n))
	d.Negative = x.Negative != y.Negative
	return d, nil
}

// functions are the compiler options for the exact functions and the guard.
func (p *Program) functions() []gojq.CompilerOption {
	options := []gojq.CompilerOption{gojq.WithFunction(guard, 1, 1, guardOperand)}
	for name, op := range exact {
		options = append(options, gojq.WithFunction(name, op.min, op.max, func(_ any, args []any) any {
			operands := make([]*apd.Decimal, len(args))
			for i, arg := range args {
				d, err := p.decimal(arg)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				if d.IsZero() {
					return nil
				}
				operands[i] = d.Apd()
			}
			result, err := op.apply(operands)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			d, err := offer.DecimalFromApd(result)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return json.Number(d.String()) // a number, so that the feed's marks are not applied to it once more
		}))
	}
	return options
}

// guardOperand lets an operand of + - * % pass, unless jq would turn it into a float.
func guardOperand(_ any, args []any) any {
	switch v := args[0].(type) {
	case float64:
		return errFloat
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return fmt.Errorf("+ - * %% would make %s %w", shorten(string(v)), errFloat)
		}
	}
	return args[0]
}

// decimal reads a number or a number text; an absent value is the zero Decimal.
func (p *Program) decimal(v any) (offer.Decimal, error) {
	switch v := v.(type) {
	case nil:
		return offer.Decimal{}, nil
	case json.Number:
		return offer.ParseDecimal(string(v))
	case string:
		text := trim(v)
		if p.nullTokens[text] {
			return offer.Decimal{}, nil
		}
		return p.spec.Numbers.parse(text)
	case int:
		return offer.ParseDecimal(strconv.Itoa(v))
	case *big.Int:
		if v.BitLen() > 4*offer.MaxDigits {
			return offer.Decimal{}, offer.ErrOutOfRange
		}
		return offer.ParseDecimal(v.String())
	case float64:
		return offer.Decimal{}, errFloat
	}
	return offer.Decimal{}, fmt.Errorf("%w: %s", errKind, gojq.TypeOf(v))
}

// parse reads a number text with the feed's marks.
func (n Numbers) parse(text string) (offer.Decimal, error) {
	plain, ok := n.plain(text)
	if !ok {
		return offer.Decimal{}, fmt.Errorf("%w: %q with decimal mark %q and group mark %q", offer.ErrNotANumber, shorten(text), n.Decimal, n.Group)
	}
	d, err := offer.ParseDecimal(plain)
	if err != nil && errors.Is(err, offer.ErrNotANumber) {
		err = fmt.Errorf("%w: %q", offer.ErrNotANumber, shorten(text))
	}
	return d, err
}

// plain brings a number text into the one spelling that ParseDecimal reads. Group marks stand every three digits of the
// whole part or not at all.
func (n Numbers) plain(text string) (string, bool) {
	if unsigned, ok := strings.CutPrefix(text, "+"); ok {
		if strings.HasPrefix(unsigned, "-") {
			return "", false
		}
		text = unsigned
	}
	if n.Decimal == "." && n.Group == "" {
		return text, true
	}
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	mantissa, exponent := text, ""
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, exponent = text[:i], text[i:]
	}
	whole, fraction, point := strings.Cut(mantissa, n.Decimal)
	whole, ok := n.ungroup(whole)
	if !ok || strings.ContainsAny(fraction, ".,") {
		return "", false
	}
	if point {
		fraction = "." + fraction
	}
	return sign + whole + fraction + exponent, true
}

func (n Numbers) ungroup(whole string) (string, bool) {
	isMark := func(r rune) bool { return string(r) == n.Group }
	if n.Group == GroupSpace {
		isMark = func(r rune) bool { return strings.ContainsRune(" \u00a0\u2009\u202f", r) }
	}
	groups := strings.FieldsFunc(whole, isMark)
	joined := strings.Join(groups, "")
	if len(groups) > 1 {
		if len(groups[0]) > 3 || strings.Count(whole, "")-1 != len(joined)+len(groups)-1 {
			return "", false // more marks than gaps between groups
		}
		for _, g := range groups[1:] {
			if len(g) != 3 {
				return "", false
			}
		}
	} else if joined != whole {
		return "", false
	}
	return joined, !strings.ContainsAny(joined, ".,")
}

func shorten(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}
