package mapping

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/itchyny/gojq"
	"github.com/offerlog/offerlog/pkg/offer"
)

// A Program is a compiled Spec. It is safe for concurrent use.
type Program struct {
	spec       Spec // defaults filled in
	digest     offer.Digest
	clock      *clock // nil: RFC 3339
	units      map[string]bool
	nullTokens map[string]bool
	rows       *gojq.Code // nil: the object, or each element of the top-level list
	path       []string   // of the elements that are rows, where the format is XML
	row        *gojq.Code // one row to one observation
	fields     []field    // where the spec has fields: row gives each of them as the list of its expression's outputs
	attributes []string   // that the mapping reads, sorted
	all        bool       // it uses $ce as a whole
}

// A field is one expression, compiled alone to say which one failed.
type field struct {
	path string
	code *gojq.Code
}

// Digest names the reading.
func (p *Program) Digest() offer.Digest { return p.digest }

// Fields of an observation, and those of its two groups.
var (
	observationFields = []string{"source_record", "source_version", "item", "quantity", "quantity_basis", "price", "currency", "price_breaks", "moq", "order_multiple", "lead_time_days", "stock", "valid_from", "valid_until", "observed_at", "deleted"}
	itemFields        = []string{"mpn", "manufacturer", "revision", "packaging", "condition", "gtin"}
	basisFields       = []string{"unit", "per"}
	breakFields       = []string{"min_qty", "price"}
	stockFields       = []string{"location", "quantity"}
	groups            = map[string][]string{"item": itemFields, "quantity_basis": basisFields}
)

// Compile checks a Spec and makes it ready to read payloads. Its error is a *SpecError with everything that is wrong.
//
// It bears any Spec, since feeds come as commands of tenants: the work and the stack that the jq compiler needs are bounded
// by the length and the nesting of the expressions.
func Compile(s Spec) (*Program, error) {
	digest := s.Digest()
	s = s.WithDefaults()
	c := compiler{p: &Program{spec: s, digest: digest}, problems: s.settings(), reads: map[string]bool{}}
	p := c.p
	if n := s.sourceBytes(); n > maxSourceBytes {
		field := "fields"
		if s.Program != "" {
			field = "program"
		}
		c.bad(field, "the jq expressions have %d bytes together; want at most %d", n, maxSourceBytes)
		return nil, &SpecError{c.problems}
	}
	if s.Format.Kind == KindXML {
		p.path, _ = xmlPath(s.Format.Rows) // checked with the settings
	}
	if s.Format.Rows != "" && s.Format.Kind == KindJSON {
		if q := c.parse("format.rows", s.Format.Rows); q != nil {
			if c.p.all || len(c.reads) > 0 {
				c.bad("format.rows", "$ce is not there: what the rows of a document are depends on the document alone")
			}
			p.rows = c.compile("format.rows", q)
		}
	}
	switch {
	case s.Program != "":
		if q := c.parse("program", s.Program); q != nil {
			p.row = c.compile("program", q)
		}
	case len(s.Fields) > 0:
		if q := c.object("fields", s.Fields, observationFields); q != nil && len(c.problems) == 0 {
			p.row = c.compile("fields", q)
		}
	}
	if len(c.problems) > 0 {
		return nil, &SpecError{c.problems}
	}
	p.clock, _ = newClock(s.Time) // checked with the settings
	p.units, p.nullTokens = set(s.Units), set(s.NullTokens)
	p.attributes = sortedKeys(c.reads)
	return p, nil
}

func set(texts []string) map[string]bool {
	m := make(map[string]bool, len(texts))
	for _, t := range texts {
		m[t] = true
	}
	return m
}

// A compiler collects the problems of all expressions of a Spec, and the attributes that they read.
type compiler struct {
	p        *Program
	problems []Problem
	reads    map[string]bool
}

func (c *compiler) bad(path, format string, args ...any) {
	c.problems = append(c.problems, Problem{Field: path, Message: fmt.Sprintf(format, args...)})
}

// object joins expressions into one query, {"price": [EXPR], "item": {"mpn": [EXPR]}}: one run a row, and an expression
// that gives nothing, or several values, is told from one that gives null.
func (c *compiler) object(path string, fields map[string]any, known []string) *gojq.Query {
	obj := &gojq.Object{}
	for _, name := range sortedKeys(fields) {
		at := path + "." + name
		if !slices.Contains(known, name) {
			c.bad(at, "not a field of an observation; want %s", strings.Join(known, ", "))
			continue
		}
		var value *gojq.Query
		switch v := fields[name].(type) {
		case string:
			q := c.parse(at, v)
			if q == nil {
				continue
			}
			strip, _ := strings.CutPrefix(at, "fields.")
			c.p.fields = append(c.p.fields, field{strip, c.compile(at, q)})
			value = &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeArray, Array: &gojq.Array{Query: q}}}
		case map[string]any:
			if groups[name] == nil || path != "fields" {
				c.bad(at, "has no parts; want a jq expression")
				continue
			}
			value = c.object(at, v, groups[name])
		default:
			c.bad(at, "is %v; want a jq expression as a text, such as '.%s' or, for a constant, '%v'", v, name, v)
			continue
		}
		obj.KeyVals = append(obj.KeyVals, &gojq.ObjectKeyVal{Key: name, Val: value})
	}
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeObject, Object: obj}}
}

// parse reads one expression and refuses what has no place in a mapping; nil where there is a problem.
func (c *compiler) parse(path, source string) *gojq.Query {
	q, err := gojq.Parse(source)
	if err != nil {
		p := Problem{Field: path, Message: err.Error()}
		if parse, ok := errors.AsType[*gojq.ParseError](err); ok {
			offset := min(max(parse.Offset-len(parse.Token), 0), len(source))
			p.Line, p.Column = position(source, offset)
		}
		c.problems = append(c.problems, p)
		return nil
	}
	v := vetting{path: path, source: source, count: map[string]int{}, reads: c.reads}
	v.query(q)
	if v.tooDeep {
		v.problems = append(v.problems, Problem{Field: path, Message: fmt.Sprintf("is nested, or joined by operators, more than %d deep; name parts of it with def, or use a list", maxNesting)})
	}
	c.p.all = c.p.all || v.all
	if len(v.problems) > 0 {
		c.problems = append(c.problems, v.problems...)
		return nil
	}
	return q
}

// compile reports unknown functions and variables, too.
func (c *compiler) compile(path string, q *gojq.Query) *gojq.Code {
	code, err := gojq.Compile(q, append(c.p.functions(), gojq.WithVariables([]string{"$ce"}))...)
	if err != nil {
		hint := ""
		if strings.HasPrefix(err.Error(), "function not defined") {
			hint = `; a constant text needs quotes of its own: '"EUR"'`
		}
		c.bad(path, "%v%s", err, hint)
	}
	return code
}

// A claim is what the mapping said of a row.
type claim struct {
	fields map[string]any
	listed bool // each value is the list of an expression's outputs
}

// get returns a field's value.
func (c claim) get(fields map[string]any, name string) (any, error) {
	v := fields[name]
	if !c.listed || v == nil {
		return v, nil
	}
	switch outputs := v.([]any); len(outputs) {
	case 0:
		return nil, nil
	case 1:
		return outputs[0], nil
	default:
		return nil, fmt.Errorf("the expression gave %d values; want one, or a list in brackets", len(outputs))
	}
}

// observe maps one row.
func (p *Program) observe(ctx context.Context, row any, ce map[string]any) (claim, *offer.Fault) {
	out, err := single(ctx, p.row, row, ce)
	if err == nil {
		fields, ok := out.(map[string]any)
		if !ok {
			return claim{}, rowFault(offer.ReasonMappingError, "", "", "the program gave %s; want an object with the fields of an observation", gojq.TypeOf(out))
		}
		return claim{fields, p.spec.Program == ""}, nil
	}
	path := ""
	for _, f := range p.fields {
		if _, alone := single(ctx, f.code, row, ce); alone != nil && !errors.Is(alone, errNothing) && !errors.Is(alone, errSeveral) {
			path, err = f.path, alone
			break
		}
	}
	return claim{}, mappingFault(path, err)
}

var (
	errNothing = errors.New("the program gave nothing; want one observation for each row")
	errSeveral = errors.New("the program gave more than one value; want one observation for each row")
)

// single runs code and wants exactly one output.
func single(ctx context.Context, code *gojq.Code, row any, ce map[string]any) (any, error) {
	iter := code.RunWithContext(ctx, row, ce)
	out, ok := iter.Next()
	if !ok {
		return nil, errNothing
	}
	if err, failed := out.(error); failed {
		return nil, err
	}
	if more, ok := iter.Next(); ok {
		if err, failed := more.(error); failed {
			return nil, err
		}
		return nil, errSeveral
	}
	return out, nil
}

// mappingFault tells a number that the supplier wrote wrongly from an expression that failed.
func mappingFault(path string, err error) *offer.Fault {
	switch {
	case errors.Is(err, offer.ErrOutOfRange):
		return rowFault(offer.ReasonNumberOutOfRange, "", path, "%v", err)
	case errors.Is(err, offer.ErrNotANumber):
		return rowFault(offer.ReasonSchemaInvalid, "number_invalid", path, "%v", err)
	}
	return rowFault(offer.ReasonMappingError, "", path, "%v", err)
}
