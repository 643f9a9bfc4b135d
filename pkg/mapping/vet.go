package mapping

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/itchyny/gojq"
)

// guard is the function that vetting wraps around the operands of + - * %. No expression can call or define it.
const guard = "_exact"

// Functions that have no place in a mapping, with what to do instead.
var refused = func() map[string]string {
	m := map[string]string{}
	put := func(why string, names ...string) {
		for _, name := range names {
			m[name] = why
		}
	}
	put("depends on when the mapping runs; a payload read again must read the same", "now")
	put("depends on the machine's time zone; use gmtime, strftime or strptime, or the feed's time.layout and time.zone", "localtime", "strflocaltime")
	put("depends on the process that runs the mapping; take values from the row or from $ce", "env", "input_filename", "input_line_number", "get_search_list", "modulemeta", "builtins")
	put("reads beyond the row; a mapping sees one row at a time", "input", "inputs")
	put("writes beyond the observation; look at a row with: offerlog feed test", "debug", "stderr")
	put("would end the mapper; use error(\"...\") to reject the row", "halt", "halt_error")
	put("makes a binary float out of a number text; use dec(...), or pass the text on as it is", "tonumber")
	put("adds in binary floats; use dadd(x; y), or for a list: reduce .[] as $x (\"0\"; dadd(.; $x)); join(\"\") joins texts", "add")
	put("rounds in binary floats; use dround(x; places)", "floor", "round", "ceil", "trunc", "nearbyint", "rint")
	put("computes in binary floats; use dec, dadd, dsub, dmul, ddiv or dround", "sqrt", "cbrt", "pow", "exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "logb",
		"significand", "drem", "ldexp", "scalb", "scalbln", "frexp", "modf", "gamma", "lgamma", "tgamma", "lgamma_r", "fabs", "fma", "fmin", "fmax", "fmod", "fdim", "hypot",
		"copysign", "nextafter", "nexttoward", "remainder", "erf", "erfc", "j0", "j1", "jn", "y0", "y1", "yn",
		"sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "infinite", "nan")
	return m
}()

// Functions that give an integer whatever they are given, but for length of a number, which the guard catches.
var integers = []string{"length", "utf8bytelength", "index", "rindex"}

// The exact function for each operator.
var exactFor = map[string]string{"+": "dadd(x; y)", "-": "dsub(x; y)", "*": "dmul(x; y)", "/": "ddiv(x; y)", "%": "dsub, dmul and dround"}

const (
	// maxNesting bounds the depth of a syntax tree: this walk and the jq compiler recurse with it.
	maxNesting = 1000
	// maxProblems are told of one expression. To find the place of each reads the text again.
	maxProblems = 20
)

// vetting walks one expression in the order of its text, so that the n-th thing of a kind can be found in the text again:
// the syntax tree has no positions.
type vetting struct {
	path     string
	source   string
	problems []Problem
	count    map[string]int  // tokens passed so far
	reads    map[string]bool // attributes of $ce
	all      bool            // $ce as a whole
	depth    int             // of the node in hand
	tooDeep  bool            // something below maxNesting was left out
}

// enter goes down into a node that nests by so many levels; false where that is too deep.
func (v *vetting) enter(levels int) bool {
	if v.depth+levels > maxNesting {
		v.tooDeep = true
		return false
	}
	v.depth += levels
	return true
}

func (v *vetting) leave(levels int) { v.depth -= levels }

// refuse reports the token that was passed last.
func (v *vetting) refuse(token, format string, args ...any) {
	if len(v.problems) >= maxProblems {
		return
	}
	p := Problem{Field: v.path, Message: fmt.Sprintf("%s: ", token) + fmt.Sprintf(format, args...)}
	p.Line, p.Column = position(v.source, tokenOffset(v.source, token, v.count[token]))
	v.problems = append(v.problems, p)
}

func (v *vetting) pass(token string) { v.count[token]++ }

func (v *vetting) query(q *gojq.Query) {
	if q == nil {
		return
	}
	levels := 1
	if q.Op == gojq.OpComma {
		levels = 0 // the members of a list stand beside each other, though the tree nests them
	}
	if !v.enter(levels) {
		return
	}
	defer v.leave(levels)
	if q.Meta != nil || len(q.Imports) > 0 {
		token := "import"
		if q.Meta != nil {
			token = "module"
		} else if q.Imports[0].IncludePath != "" {
			token = "include"
		}
		v.pass(token)
		v.refuse(token, "a mapping stands alone; write its functions into it with def")
	}
	for _, def := range q.FuncDefs {
		v.pass(def.Name)
		if _, taken := refused[def.Name]; taken || exact[def.Name] != nil || strings.HasPrefix(def.Name, "_") {
			v.refuse(def.Name, "the name is taken; choose another one for your function")
		}
		if v.enter(len(def.Args)) { // each is a scope of its own
			v.query(def.Body)
			v.leave(len(def.Args))
		}
	}
	if q.Term != nil {
		v.term(q.Term)
		return
	}
	v.query(q.Left)
	for _, p := range q.Patterns {
		v.pattern(p)
	}
	if q.Op == 0 {
		return
	}
	op := q.Op.String()
	v.pass(op)
	switch q.Op {
	case gojq.OpAdd, gojq.OpSub, gojq.OpMul, gojq.OpMod:
		if why := number(q); why != "" {
			v.refuse(op, "%s, which jq computes in binary floats; use %s", why, exactFor[op])
		}
	case gojq.OpDiv:
		v.refuse(op, "jq divides in binary floats; use ddiv(x; y) for numbers, split(\"...\") for texts")
	case gojq.OpUpdateAdd, gojq.OpUpdateSub, gojq.OpUpdateMul, gojq.OpUpdateDiv, gojq.OpUpdateMod:
		v.refuse(op, "jq computes in binary floats; write .x |= %s", exactFor[strings.TrimSuffix(op, "=")])
	}
	v.query(q.Right)
	switch q.Op {
	case gojq.OpAdd, gojq.OpSub, gojq.OpMul, gojq.OpMod:
		q.Left, q.Right = guarded(q.Left), guarded(q.Right)
	}
}

// guarded is guard(q).
func guarded(q *gojq.Query) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: guard, Args: []*gojq.Query{q}}}}
}

// number says why an arithmetic operator meets numbers that may have a fraction; "" where it need not. Jq has no types:
// what cannot be decided here is left to the guard.
func number(q *gojq.Query) string {
	left, right := shapeOf(q.Left, maxNesting), shapeOf(q.Right, maxNesting)
	if left == shapeInteger && right == shapeInteger {
		return ""
	}
	if left == shapeInteger || right == shapeInteger {
		return "an operand is a number"
	}
	list := left == shapeList || right == shapeList
	object := left == shapeObject || right == shapeObject
	switch {
	case q.Op == gojq.OpMod, q.Op == gojq.OpSub && !list, q.Op == gojq.OpMul && !object:
		return "the operands may be numbers"
	}
	return ""
}

type shape int

const (
	shapeUnknown shape = iota
	shapeInteger
	shapeList
	shapeObject
)

// shapeOf is what q is bound to give, looking so many levels deep.
func shapeOf(q *gojq.Query, levels int) shape {
	levels--
	switch {
	case q == nil || levels < 0:
		return shapeUnknown
	case q.Term == nil:
		switch q.Op {
		case gojq.OpPipe:
			return shapeOf(q.Right, levels)
		case gojq.OpAdd, gojq.OpSub, gojq.OpMul:
			if left := shapeOf(q.Left, levels); left == shapeOf(q.Right, levels) {
				return left
			}
		}
		return shapeUnknown
	case len(q.Term.SuffixList) > 0:
		return shapeUnknown
	}
	switch t := q.Term; t.Type {
	case gojq.TermTypeNumber:
		return shapeInteger
	case gojq.TermTypeUnary:
		return shapeOf(&gojq.Query{Term: t.Unary.Term}, levels)
	case gojq.TermTypeQuery:
		return shapeOf(t.Query, levels)
	case gojq.TermTypeArray:
		return shapeList
	case gojq.TermTypeObject:
		return shapeObject
	case gojq.TermTypeFunc:
		switch {
		case t.Func.Name == guard:
			return shapeOf(t.Func.Args[0], levels)
		case slices.Contains(integers, t.Func.Name):
			return shapeInteger
		}
	}
	return shapeUnknown
}

func (v *vetting) term(t *gojq.Term) {
	levels := 1 + len(t.SuffixList)
	if !v.enter(levels) {
		return
	}
	defer v.leave(levels)
	suffixes := t.SuffixList
	switch t.Type {
	case gojq.TermTypeIndex:
		v.index(t.Index)
	case gojq.TermTypeFunc:
		suffixes = v.call(t.Func, suffixes)
	case gojq.TermTypeObject:
		for _, kv := range t.Object.KeyVals {
			v.string(kv.KeyString)
			v.query(kv.KeyQuery)
			if strings.HasPrefix(kv.Key, "$") { // {$ce} is {ce: $ce}
				v.call(&gojq.Func{Name: kv.Key}, nil)
			}
			v.query(kv.Val)
		}
	case gojq.TermTypeArray:
		v.query(t.Array.Query)
	case gojq.TermTypeNumber:
		v.pass(t.Number)
		if strings.ContainsAny(t.Number, ".eE") {
			v.refuse(t.Number, "jq reads this as a binary float; write dec(\"%s\")", t.Number)
		}
	case gojq.TermTypeUnary:
		v.pass(t.Unary.Op.String())
		v.term(t.Unary.Term)
	case gojq.TermTypeFormat, gojq.TermTypeString:
		v.string(t.Str)
	case gojq.TermTypeIf:
		v.query(t.If.Cond)
		v.query(t.If.Then)
		for _, e := range t.If.Elif {
			v.query(e.Cond)
			v.query(e.Then)
		}
		v.query(t.If.Else)
	case gojq.TermTypeTry:
		v.query(t.Try.Body)
		v.query(t.Try.Catch)
	case gojq.TermTypeReduce:
		v.query(t.Reduce.Query)
		v.patterns(t.Reduce.Patterns)
		v.query(t.Reduce.Start)
		v.query(t.Reduce.Update)
	case gojq.TermTypeForeach:
		v.query(t.Foreach.Query)
		v.patterns(t.Foreach.Patterns)
		v.query(t.Foreach.Start)
		v.query(t.Foreach.Update)
		v.query(t.Foreach.Extract)
	case gojq.TermTypeLabel:
		v.query(t.Label.Body)
	case gojq.TermTypeQuery:
		v.query(t.Query)
	}
	for _, s := range suffixes {
		v.index(s.Index)
	}
}

// call looks at a function or variable, and returns the suffixes that are left to look at.
func (v *vetting) call(f *gojq.Func, suffixes []*gojq.Suffix) []*gojq.Suffix {
	v.pass(f.Name)
	switch f.Name {
	case "$ENV":
		v.refuse(f.Name, "%s", refused["env"])
	case "$__loc__":
		v.refuse(f.Name, "depends on how the mapping is laid out, so that a new line would change what it reads")
	case "$ce":
		name := ""
		if len(suffixes) > 0 {
			name = constantName(suffixes[0].Index)
		}
		v.attribute(name)
		if name != "" {
			suffixes = suffixes[1:]
		}
	}
	if why, bad := refused[f.Name]; bad {
		v.refuse(f.Name, "%s", why)
	} else if strings.HasPrefix(f.Name, "_") {
		v.refuse(f.Name, "names with an underscore in front belong to the engine")
	}
	for _, arg := range f.Args {
		v.query(arg)
	}
	return suffixes
}

// attribute notes that the mapping reads one attribute, or with "" all of them.
func (v *vetting) attribute(name string) {
	switch {
	case name == "":
		v.all = true
	case slices.Contains(hidden, name):
		v.refuse("$ce", "%s says when or on which way the delivery came, not what the supplier claims; versions and times come from the source, never from arrival", name)
	default:
		v.reads[name] = true
	}
}

func constantName(i *gojq.Index) string {
	switch {
	case i == nil:
		return ""
	case i.Name != "":
		return i.Name
	case i.Str != nil && i.Str.Queries == nil:
		return i.Str.Str
	case i.Start != nil && !i.IsSlice && i.Start.Term != nil && i.Start.Term.Type == gojq.TermTypeString && i.Start.Term.Str.Queries == nil && len(i.Start.Term.SuffixList) == 0:
		return i.Start.Term.Str.Str
	}
	return ""
}

func (v *vetting) index(i *gojq.Index) {
	if i != nil {
		v.string(i.Str)
		v.query(i.Start)
		v.query(i.End)
	}
}

func (v *vetting) string(s *gojq.String) {
	if s != nil {
		for _, q := range s.Queries {
			v.query(q)
		}
	}
}

func (v *vetting) patterns(ps []*gojq.Pattern) {
	for _, p := range ps {
		v.pattern(p)
	}
}

func (v *vetting) pattern(p *gojq.Pattern) {
	if p == nil || !v.enter(1) {
		return
	}
	defer v.leave(1)
	v.patterns(p.Array)
	for _, o := range p.Object {
		v.string(o.KeyString)
		v.query(o.KeyQuery)
		v.pattern(o.Val)
	}
}

// tokenOffset finds the n-th token that reads so, outside texts and comments; names are whole, and no .name or name: of
// an object. Where the text holds fewer, it is the last one.
func tokenOffset(source, token string, n int) int {
	found := 0
	nested := []int{} // open parentheses in each text's \( )
	for i := 0; i < len(source); {
		switch c := source[i]; {
		case c == '#':
			for i < len(source) && source[i] != '\n' {
				i++
			}
			continue
		case c == '"' || c == ')' && len(nested) > 0 && nested[len(nested)-1] == 0:
			if c == ')' {
				nested = nested[:len(nested)-1]
			}
			for i++; i < len(source) && source[i] != '"'; i++ {
				if source[i] != '\\' {
					continue
				}
				if i++; i < len(source) && source[i] == '(' {
					nested = append(nested, 0)
					break
				}
			}
			i++
			continue
		case c == '(' && len(nested) > 0:
			nested[len(nested)-1]++
		case c == ')' && len(nested) > 0:
			nested[len(nested)-1]--
		}
		width := tokenWidth(source[i:])
		if source[i:i+width] == token && !isMember(source, i, width) {
			found = i
			if n--; n <= 0 {
				return i
			}
		}
		i += width
	}
	return found
}

// tokenWidth is the length of the name, number or operator at the start of s.
func tokenWidth(s string) int {
	word := func(c byte) bool {
		return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	n := 0
	switch c := s[0]; {
	case c == '$':
		n = 1
		fallthrough
	case word(c) && (c < '0' || c > '9'):
		for n < len(s) && word(s[n]) {
			n++
		}
	case word(c), c == '.' && len(s) > 1 && '0' <= s[1] && s[1] <= '9':
		for n < len(s) && (word(s[n]) || s[n] == '.' || n > 0 && (s[n] == '-' || s[n] == '+') && (s[n-1] == 'e' || s[n-1] == 'E')) {
			n++
		}
	default:
		for _, op := range []string{"?//", "//=", "//", "==", "!=", "<=", ">=", "|=", "+=", "-=", "*=", "/=", "%="} {
			if strings.HasPrefix(s, op) {
				return len(op)
			}
		}
		_, n = utf8.DecodeRuneInString(s)
	}
	return n
}

// isMember tells .now and {now: 1} from now.
func isMember(source string, at, width int) bool {
	if c := source[at]; c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
		return false
	}
	before := at > 0 && source[at-1] == '.'
	after := strings.HasPrefix(strings.TrimLeft(source[at+width:], " \t\r\n"), ":")
	return before || after
}

// position is line and column, in characters, of an offset in text.
func position(text string, offset int) (line, column int) {
	before := text[:offset]
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1
}
