package mapping

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/offerlog/offerlog/pkg/offer"
)

// Values reads the rows of a payload as a mapping sees them, without those that cannot be read. The error is a *offer.Fault
// where the payload is at fault.
func (p *Program) Values(ctx context.Context, r *Request) (rows []any, err error) {
	err = p.eachRow(ctx, r, nil, func(_ int, in *row, _ map[string]any) error {
		if in.fault == nil {
			rows = append(rows, in.value)
		}
		return nil
	})
	return rows, err
}

// A Probe finds numbers that lose digits on their way through a mapping, also where the binary float that costs them is
// hidden in a text. It is the rows of a delivery twice more, as JSON: the numbers and number texts at one path have other
// digits, as many as no float holds, and from one payload to the other only the last of them differs.
type Probe struct {
	Path     string // of the numbers, as jq writes it: .price, .breaks[].qty
	Spec     Spec   // to read the payloads under: that of the program, for JSON
	Payloads [2][]byte
}

// maxProbes bounds the work that rows with a path for each of their numbers make.
const maxProbes = 2000

// Probes makes the probes of a delivery's rows: for each path with numbers one with places after the point, and one
// with whole numbers, for fields that take no others. The error is that of Values.
func (p *Program) Probes(ctx context.Context, r *Request) ([]Probe, error) {
	rows, err := p.Values(ctx, r)
	if err != nil {
		return nil, err
	}
	spec := p.spec
	spec.Format, spec.Fingerprint = Format{}, ""
	spec.Limits.MaxBytes, spec.Limits.MaxDepth = 1<<30, deepest-1
	n := numbersOf(&p.spec.Numbers)
	var paths []string
	seen := map[string]bool{}
	for _, value := range rows {
		n.change(value, ".", func(path, literal string, _ bool) string {
			if !seen[path] {
				seen[path] = true
				paths = append(paths, path)
			}
			return literal
		})
	}
	var probes []Probe
	for _, path := range paths[:min(len(paths), maxProbes)] {
		for _, whole := range []bool{false, true} {
			probe := Probe{Path: path, Spec: spec}
			for i, last := range []string{"1", "2"} {
				twins := make([]any, len(rows))
				for j, value := range rows {
					twins[j] = n.change(value, ".", func(at, literal string, isText bool) string {
						if at != path {
							return literal
						}
						return n.long(literal, isText, whole, last)
					})
				}
				if probe.Payloads[i], err = json.Marshal(twins); err != nil {
					return nil, fmt.Errorf("write the rows of a probe: %w", err)
				}
			}
			probes = append(probes, probe)
		}
	}
	return probes, nil
}

// A Loss is a field of which digits were lost.
type Loss struct {
	Row   int    `json:"row"`
	Field string `json:"field"` // of the observation
	Path  string `json:"path"`  // of the numbers in the row
	Value string `json:"value"` // what is left
}

// String says it in a sentence.
func (l Loss) String() string {
	return fmt.Sprintf("row %d, %s: of a number of 20 digits at %s only %s is left, so a binary float is on the way; write dec(%s), or its arithmetic with dadd, dsub, dmul, ddiv",
		l.Row, l.Field, l.Path, l.Value, l.Path)
}

// Losses compares what a mapping makes of the delivery and of the probe's two payloads. A field that the numbers change, but
// their last digit does not, has gone through a float, if it has as many digits as one holds; fewer are a declared rounding,
// a lookup or a comparison. A row that takes no such numbers says nothing.
func (p *Probe) Losses(plain, one, other *Result) (losses []Loss) {
	a, b := byNumber(one), byNumber(other)
	for i := range plain.Rows {
		row := &plain.Rows[i]
		fields, first, second := fieldsOf(row), fieldsOf(a[row.Number]), fieldsOf(b[row.Number])
		for _, name := range sortedKeys(first) {
			if v := first[name]; v == second[name] && v != fields[name] && fields[name] != "" && floatDigits(v) {
				losses = append(losses, Loss{Row: row.Number, Field: name, Path: p.Path, Value: v})
			}
		}
	}
	return losses
}

func byNumber(res *Result) map[int]*offer.Row {
	rows := make(map[int]*offer.Row, len(res.Rows))
	for i := range res.Rows {
		rows[res.Rows[i].Number] = &res.Rows[i]
	}
	return rows
}

// fieldsOf are the values of a row by the names of their fields; none for nil.
func fieldsOf(row *offer.Row) map[string]string {
	fields := map[string]string{}
	if row == nil {
		return fields
	}
	c := &row.Content
	fields["source_record"] = row.Record
	if row.HasVersion {
		fields["source_version"] = strconv.FormatInt(row.Version, 10)
	}
	for name, text := range map[string]string{"item.mpn": c.Item.MPN, "item.manufacturer": c.Item.Manufacturer, "item.revision": c.Item.Revision,
		"item.packaging": c.Item.Packaging, "item.condition": c.Item.Condition, "quantity_basis.unit": c.Basis.Unit} {
		fields[name] = text
	}
	for name, d := range map[string]offer.Decimal{"quantity": c.Quantity, "quantity_basis.per": c.Basis.Per, "price": c.Price, "moq": c.MOQ,
		"order_multiple": c.OrderMultiple, "lead_time_days": c.LeadTimeDays} {
		fields[name] = d.String()
	}
	for i, s := range c.Stock {
		fields[fmt.Sprintf("stock[%d].quantity", i)] = s.Quantity.String()
	}
	for i, b := range c.PriceBreaks {
		fields[fmt.Sprintf("price_breaks[%d].min_qty", i)] = b.MinQty.String()
		fields[fmt.Sprintf("price_breaks[%d].price", i)] = b.Price.String()
	}
	return fields
}

// floatDigits reports a value with as many digits as a float's shortest text, or that of a float of microseconds.
func floatDigits(v string) bool {
	mantissa, _, _ := strings.Cut(strings.ToLower(v), "e")
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, mantissa)
	n := len(strings.Trim(digits, "0"))
	return n >= 11 && n <= 17
}

// numbers finds and writes numbers and number texts, with a feed's marks.
type numbers struct {
	text    *regexp.Regexp
	decimal string
	group   *regexp.Regexp
}

var jsonNumber = regexp.MustCompile(`^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE][-+]?[0-9]+)?$`)

func numbersOf(n *Numbers) *numbers {
	whole, group := `[0-9]+`, "[^0-9-]" // only the decimal mark
	if n.Group != "" {
		group = regexp.QuoteMeta(n.Group)
		if n.Group == GroupSpace {
			group = "[ \u00a0\u2009\u202f]"
		}
		whole = `[0-9]{1,3}(?:` + group + `[0-9]{3})+|[0-9]+`
	}
	return &numbers{regexp.MustCompile(`^(-?)(` + whole + `)(?:` + regexp.QuoteMeta(n.Decimal) + `([0-9]+))?$`), n.Decimal, regexp.MustCompile(group)}
}

// change returns a copy of a row's value in which f has written each number and number text anew.
func (n *numbers) change(value any, path string, f func(path, literal string, isText bool) string) any {
	switch v := value.(type) {
	case json.Number:
		return json.Number(f(path, string(v), false))
	case string:
		if n.text.MatchString(v) {
			return f(path, v, true)
		}
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = n.change(e, path+"[]", f)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, name := range sortedKeys(v) {
			out[name] = n.change(v[name], Member(path, name), f)
		}
		return out
	}
	return value
}

var plainMember = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Member is the path of a member of the object at a path, as jq writes it: .offer.sku, .offer["Unit price"].
func Member(path, name string) string {
	if !plainMember.MatchString(name) {
		return path + "[" + strconv.Quote(name) + "]"
	}
	return strings.TrimSuffix(path, ".") + "." + name
}

// long is a number with the digits of literal in it, and so many more that the last one has at least place 18 where it is whole,
// 20 where it is not: a float holds 17.
func (n *numbers) long(literal string, isText, whole bool, last string) string {
	const more = "34567891234567891"
	const most = 10 // digits of literal before and after the point
	m, decimal := jsonNumber.FindStringSubmatch(literal), "."
	if isText {
		m, decimal = n.text.FindStringSubmatch(literal), n.decimal
	}
	digits := n.group.ReplaceAllString(m[2], "")
	digits = "7" + digits[:min(len(digits), most)]
	if whole {
		return m[1] + digits + more[:17-len(digits)] + last
	}
	places := m[3][:min(len(m[3]), most)]
	places += more[:17-len(places)] + last
	return m[1] + digits + decimal + places
}
