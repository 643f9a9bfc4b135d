package mapping

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/offerlog/offerlog/pkg/offer"
)

// program is a spec with one more field beside the needed ones.
func program(field, expression string) Spec {
	s := Spec{Order: OrderObservedAt, Fields: map[string]any{"source_record": ".sku", "item": map[string]any{"mpn": ".sku"}, "currency": `"EUR"`}}
	s.Fields[field] = expression
	return s
}

func mustCompile(t testing.TB, s Spec) *Program {
	t.Helper()
	p, err := Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var noon = offer.Time{Nanos: 1740823200e9, Text: "2025-03-01T10:00:00Z"}

func mapText(t testing.TB, s Spec, payload string) Result {
	t.Helper()
	r := Request{Payload: []byte(payload), HasData: true, EventTime: noon}
	res, err := mustCompile(t, s).Map(t.Context(), &r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestCompileRefusesWhatIsImpure(t *testing.T) {
	for _, expression := range []string{
		"now", "localtime", "now | strflocaltime(\"%Y\")", "env", "env.HOME", "$ENV", "$ENV.HOME", "{$ENV}", "input", "[inputs]", "input_filename", "debug", "debug(.)", "stderr",
		"halt", "halt_error", "$__loc__", "{$__loc__}", "get_search_list", "modulemeta", "builtins", `import "a" as a; .`, `include "a"; .`, `_plus`, `_exact(.)`, "def add: 1; add", "def _x: 1; _x",
		`"\(now)"`, "if now then 1 else 2 end", "reduce .[] as $x (0; now)", "foreach .[] as $x (0; 1; now)", "label $f | now", "try now", "try 1 catch now", "{a: {b: [now]}}",
		"{(now): 1}", "{\"\\(now)\": 1}", ".a[now]", ".[now:]", ".[:now]", "def f(x): x; f(now)", ". as {(now): $x} | $x", "-now", "@text \"\\(now)\"", ".a |= now",
	} {
		if _, err := Compile(program("price", expression)); err == nil {
			t.Errorf("%s: compiled", expression)
		}
	}
}

func TestCompileRefusesWhatMakesAFloat(t *testing.T) {
	for name, tc := range map[string]struct {
		expression string
		hint       string
		column     int
	}{
		"a product with a number":        {".price * 2", "dmul(x; y)", 8},
		"a product of unknowns":          {".price * .qty", "dmul(x; y)", 8},
		"a sum with a number":            {".price + 1", "dadd(x; y)", 8},
		"a difference":                   {".price - .discount", "dsub(x; y)", 8},
		"the second of two differences":  {"([1] - [.x]) | .price - .y", "dsub(x; y)", 23},
		"a quotient":                     {".price / 100", "ddiv(x; y)", 8},
		"a rest":                         {".price % 100", "dround", 8},
		"a literal with a fraction":      {"0.5", `"0.5"`, 1},
		"a literal with an exponent":     {"[.a] | 1e3", `"1e3"`, 8},
		"a fraction without whole":       {"if .a then .5 else 1 end", `".5"`, 12},
		"a fraction among arguments":     {`dmul(.price; 1.19)`, `"1.19"`, 14},
		"tonumber":                       {".price | tonumber", "dec(...)", 10},
		"a member named tonumber before": {".tonumber | tonumber", "dec(...)", 13},
		"a text with tonumber before":    {`"tonumber" | tonumber`, "dec(...)", 14},
		"a comment with tonumber before": {"# tonumber\n tonumber", "dec(...)", 2},
		"inside a text":                  {`"a\("b\(tonumber)")"`, "dec(...)", 9},
		"add":                            {"[.a, .b] | add", "dadd", 12},
		"floor":                          {".price | floor", "dround", 10},
		"pow":                            {"pow(.a; 2)", "dmul", 1},
		"infinite":                       {"infinite", "dec", 1},
		"an update":                      {`.price *= 2 | .price`, "dmul", 8},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compile(program("price", tc.expression))
			spec, ok := errors.AsType[*SpecError](err)
			if !ok || len(spec.Problems) == 0 {
				t.Fatalf("got %v, want a *SpecError", err)
			}
			p := spec.Problems[0]
			if p.Field != "fields.price" || p.Column != tc.column || !strings.Contains(p.Message, tc.hint) {
				t.Errorf("got %v, want fields.price, column %d, %s", p, tc.column, tc.hint)
			}
		})
	}
}

func TestCompileLetsTextsListsAndIntegersBe(t *testing.T) {
	for expression, want := range map[string]string{
		`.sku + "-" + .pack`:                   "A-1-reel",
		`[.sku] + ["x"] | join("/")`:           "A-1/x",
		`({a: .sku} + {b: 1}) | .a`:            "A-1",
		`({a: 1} * {a: .sku}) | .a`:            "A-1",
		`(["x", .sku] - ["x"])[0]`:             "A-1",
		`.sku[(.sku | length) - 1:]`:           "1",
		`.pack as $p | "\($p).\(.sku)"`:        "reel.A-1",
		`.none + .sku`:                         "A-1",
		`{now: .sku} | .now`:                   "A-1",
		`1 + 2 * 3 - 1 | tostring`:             "6",
		`.sku | split("-") | .[0]`:             "A",
		`.sku | ascii_downcase`:                "a-1",
		`dmul(.price; "1.19") | tostring`:      "14.636999881",
		`.big`:                                 "12345678901234567890.123456789",
		`-.big | tostring`:                     "-12345678901234567890.123456789",
		`.big | tojson | fromjson`:             "12345678901234567890.123456789",
		`[.big] | max | tostring`:              "12345678901234567890.123456789",
		`.at | todate`:                         "2023-11-14T22:13:20Z",
		`reduce ("a", "b") as $x (""; . + $x)`: "ab",
	} {
		t.Run(expression, func(t *testing.T) {
			s := program("source_record", expression)
			res := mapText(t, s, `{"sku":"A-1","pack":"reel","price":12.2999999,"big":12345678901234567890.123456789,"at":1700000000}`)
			if res.Fault != nil || res.Rows[0].Record != want {
				t.Errorf("got %+v, %v; want %s", res.Rows, res.Fault, want)
			}
		})
	}
}

func TestAFloatThatArisesAnyhowIsAnErrorWithItsPath(t *testing.T) {
	for name, tc := range map[string]struct{ field, expression string }{
		"a sum of two members":       {"price", ".a + .b"},
		"a sum hidden in a text":     {"price", `"\(.a + .b)"`},
		"an absolute rest":           {"price", "(.a | length) + 1"},
		"seconds since 1970":         {"quantity", `"2025-03-01T10:00:00Z" | fromdate`},
		"a float as identity":        {"source_record", `"2025-03-01T10:00:00Z" | fromdate`},
		"a float among price breaks": {"price_breaks", `[{min_qty: 1, price: ("2025-03-01T10:00:00Z" | fromdate)}]`},
		"a float as version":         {"quantity", `"2025-03-01T10:00:00Z" | strptime("%Y-%m-%dT%H:%M:%SZ") | mktime`},
	} {
		t.Run(name, func(t *testing.T) {
			res := mapText(t, program(tc.field, tc.expression), `{"sku":"A-1","a":0.1,"b":0.2}`)
			if res.Fault == nil || res.Fault.Reason != offer.ReasonMappingError || !strings.HasPrefix(res.Fault.Path, tc.field) || !strings.Contains(res.Fault.Message, "dadd") {
				t.Errorf("got %v, want %s at %s with the functions to use", res.Fault, offer.ReasonMappingError, tc.field)
			}
		})
	}
}

func TestExactFunctions(t *testing.T) {
	for expression, want := range map[string]string{
		`dec(.p)`:                              "0.1",
		`dec("1e2")`:                           "100",
		`dadd(.p; .q)`:                         "0.3",
		`dsub(.p; .q)`:                         "-0.1",
		`dmul(.p; .q)`:                         "0.02",
		`dmul("19.99"; "1.19")`:                "23.7881",
		`ddiv(1; 8)`:                           "0.125",
		`ddiv(1; 3; 4)`:                        "0.3333",
		`ddiv(2; 3; 0)`:                        "1",
		`ddiv(-2; 3; 2)`:                       "-0.67",
		`ddiv("1e18"; "1e-18"; 0)`:             "1000000000000000000000000000000000000",
		`dround("2.345"; 2)`:                   "2.35",
		`dround("-2.345"; 2)`:                  "-2.35",
		`dround("2.3449999999999"; 2)`:         "2.34",
		`dround(.p; 18)`:                       "0.1",
		`dmul(.none; 2)`:                       "",
		`dmul("" ; 2)`:                         "",
		`dec(12345678901234567890)`:            "12345678901234567890",
		`reduce .l[] as $x ("0"; dadd(.; $x))`: "0.6",
	} {
		res := mapText(t, program("quantity", expression), `{"sku":"A-1","p":0.1,"q":0.2,"l":[0.1,"0.2",0.3]}`)
		if res.Fault != nil || res.Rows[0].Content.Quantity.String() != want {
			t.Errorf("%s: got %+v, %v; want %s", expression, res.Rows, res.Fault, want)
		}
	}
	for expression, reason := range map[string]string{
		`ddiv(1; 3)`:           offer.ReasonMappingError,
		`ddiv(1; 0)`:           offer.ReasonMappingError,
		`ddiv(1; 0; 2)`:        offer.ReasonMappingError,
		`dround(1; -1)`:        offer.ReasonMappingError,
		`dround(1; "0.5")`:     offer.ReasonMappingError,
		`dec([1])`:             offer.ReasonMappingError,
		`dec("a lot")`:         offer.ReasonSchemaInvalid,
		`dec(.huge)`:           offer.ReasonNumberOutOfRange,
		`dmul("1e20"; "1e20")`: offer.ReasonNumberOutOfRange,
	} {
		res := mapText(t, program("quantity", expression), `{"sku":"A-1","huge":1e1000000000}`)
		if res.Fault == nil || res.Fault.Reason != reason || res.Fault.Path != "quantity" {
			t.Errorf("%s: got %v, want %s at quantity", expression, res.Fault, reason)
		}
	}
}

func TestExactFunctionsReadTheFeedsMarksOnce(t *testing.T) {
	s := program("price", `dmul(.price; "2")`)
	s.Numbers = Numbers{Decimal: ",", Group: "."}
	res := mapText(t, s, `{"sku":"A-1","price":"1.234,25"}`)
	if res.Fault != nil || res.Rows[0].Content.Price.String() != "2468.5" {
		t.Errorf("got %+v, %v; want 2468.5", res.Rows, res.Fault)
	}
}

func TestCompileNamesAllProblemsAndTheirPlace(t *testing.T) {
	_, err := Compile(Spec{
		Format: Format{Kind: "edi", Charset: "ebcdic-nowhere"}, Fingerprint: "md5", Order: "arrival", NoData: "skip",
		Numbers: Numbers{Decimal: ";", Group: ";", Amounts: "cents"}, Time: TimeFormat{Layout: "DD/MM/YYYY"}, Limits: Limits{MaxRows: -1, MaxDepth: 100_000},
		Fields: map[string]any{"prize": ".price", "price": ".price |\n  now", "currency": "EUR", "deleted": true, "moq": map[string]any{"a": ".b"}, "item": map[string]any{"colour": ".c"}, "quantity": ".a["},
	})
	spec, ok := errors.AsType[*SpecError](err)
	if !ok {
		t.Fatalf("got %v, want a *SpecError", err)
	}
	for field, words := range map[string]string{
		"format.kind": "json", "format.charset": "utf-8", "fingerprint": "bytes or json or rows", "order": "arrival says nothing", "no_data": "refuse or map", "numbers.decimal": ".",
		"numbers.group": "decimal mark", "numbers.amounts": "minor", "time.zone": "Europe/Berlin", "limits.max_rows": "1 or more", "limits.max_depth": "too deep",
		"fields.prize": "not a field", "fields.price": "depends on when", "fields.currency": `'"EUR"'`, "fields.deleted": "as a text", "fields.moq": "no parts", "fields.item.colour": "mpn", "fields.quantity": "unexpected",
	} {
		if !slices.ContainsFunc(spec.Problems, func(p Problem) bool { return p.Field == field && strings.Contains(p.Message, words) }) {
			t.Errorf("no problem %s with %q among\n%v", field, words, err)
		}
	}
	if !strings.Contains(err.Error(), "fields.price: line 2, column 3: now: ") {
		t.Errorf("got %v, want the place of now", err)
	}
}

func TestCompileWantsOneOfFieldsAndProgram(t *testing.T) {
	for name, s := range map[string]Spec{
		"neither":                           {Order: OrderVersion},
		"both":                              {Order: OrderVersion, Program: ".", Fields: map[string]any{"price": "."}},
		"rows that depend on the event":     {Order: OrderVersion, Program: ".", Format: Format{Rows: "$ce.subject"}},
		"a zone without layout":             {Order: OrderVersion, Program: ".", Time: TimeFormat{Zone: "UTC"}},
		"the machine's zone":                {Order: OrderVersion, Program: ".", Time: TimeFormat{Layout: "YYYY-MM-DD", Zone: "Local"}},
		"an unknown zone":                   {Order: OrderVersion, Program: ".", Time: TimeFormat{Layout: "YYYY-MM-DD", Zone: "Mars/Olympus"}},
		"a layout without a year":           {Order: OrderVersion, Program: ".", Time: TimeFormat{Layout: "MM-DD", Zone: "UTC"}},
		"a layout with two months":          {Order: OrderVersion, Program: ".", Time: TimeFormat{Layout: "YYYY-MM-MM-DD", Zone: "UTC"}},
		"a layout with half a year's width": {Order: OrderVersion, Program: ".", Time: TimeFormat{Layout: "YY-MM-DD", Zone: "UTC"}},
	} {
		if s.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestS_004_06_AVersionNeverComesFromArrival(t *testing.T) {
	for name, s := range map[string]Spec{
		"retrieved_at as an expression": {Order: OrderVersion, Fields: map[string]any{"source_record": ".sku", "source_version": "retrieved_at"}},
		"the time of arrival":           {Order: OrderVersion, Fields: map[string]any{"source_record": ".sku", "source_version": "$ce.recordedtime"}},
		"its index form":                {Order: OrderVersion, Fields: map[string]any{"source_record": ".sku", "source_version": `$ce["recordedtime"]`}},
		"inside a program":              {Order: OrderVersion, Program: `$ce.recordedtime as $t | {source_record: .sku, source_version: $t}`},
		"an offset":                     {Order: OrderVersion, Fields: map[string]any{"source_record": ".sku", "source_version": "$offset"}},
		"the trace":                     {Order: OrderVersion, Program: `{source_record: .sku, source_version: $ce.traceparent}`},
		"arrival as the order":          {Order: "retrieved_at", Program: `{source_record: .sku}`},
		"the offset as the order":       {Order: "offset", Program: `{source_record: .sku}`},
	} {
		if err := s.Validate(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	// What cannot be seen at load is not there at run time.
	s := Spec{Order: OrderVersion, Program: `{source_record: .sku, item: {mpn: .sku}, source_version: ($ce | to_entries | map(select(.key | startswith("recorded")))[0].value)}`}
	r := Request{Payload: []byte(`{"sku":"A-1"}`), HasData: true, EventTime: noon, Attributes: map[string]string{"recordedtime": "7"}}
	res, err := mustCompile(t, s).Map(t.Context(), &r)
	if err != nil || res.Fault == nil || res.Fault.Detail != "version_missing" {
		t.Errorf("got %v, %v; want version_missing", res.Fault, err)
	}
}

func TestSpecDigest(t *testing.T) {
	base := Spec{Order: OrderVersion, Program: "."}
	full := base
	full.Format.Kind, full.Fingerprint, full.NoData, full.NullTokens = "json", "json", "refuse", []string{""}
	full.Numbers = Numbers{Decimal: ".", Amounts: "major"}
	full.Limits = Limits{MaxBytes: 16777216, MaxRows: 2000000, MaxDepth: 200}
	if base.Digest() != full.Digest() {
		t.Error("defaults written out change the digest")
	}
	b, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	var again Spec
	if err := json.Unmarshal(b, &again); err != nil || again.Digest() != base.Digest() {
		t.Errorf("a round through JSON changes the digest: %v", err)
	}
	seen := map[offer.Digest]string{base.Digest(): "base"}
	for name, change := range map[string]func(*Spec){
		"order":          func(s *Spec) { s.Order = OrderObservedAt },
		"program":        func(s *Spec) { s.Program = ".a" },
		"rows":           func(s *Spec) { s.Format.Rows = ".[]" },
		"no null tokens": func(s *Spec) { s.NullTokens = []string{} },
		"units":          func(s *Spec) { s.Units = []string{"C62"} },
		"decimal mark":   func(s *Spec) { s.Numbers.Decimal = "," },
		"zone":           func(s *Spec) { s.Time.Zone = "UTC" },
		"limit":          func(s *Spec) { s.Limits.MaxRows = 5 },
	} {
		s := base
		change(&s)
		if other, taken := seen[s.Digest()]; taken {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[s.Digest()] = name
	}
}

// Each shape has as many bytes as a spec may have, or nearly. A stack that overflows would end the process, and not this test alone.
func TestCompileBearsWhateverShapeAnExpressionHas(t *testing.T) {
	fill := func(open, middle, end string) string {
		n := (maxSourceBytes - len(middle)) / (len(open) + len(end))
		return strings.Repeat(open, n) + middle + strings.Repeat(end, n)
	}
	for name, tc := range map[string]struct {
		program string
		problem string // "": it compiles
	}{
		"lists in lists":         {fill("[", ".", "]"), "is nested"},
		"parentheses":            {fill("(", ".", ")"), "is nested"},
		"objects in objects":     {fill("{a:", ".", "}"), "is nested"},
		"texts in texts":         {fill(`"\(`, ".", `)"`), "is nested"},
		"patterns in patterns":   {". as " + strings.Repeat("[", 30_000) + "$x" + strings.Repeat("]", 30_000) + "|.", "is nested"},
		"calls in calls":         {fill("first(", ".", ")"), "is nested"},
		"functions in functions": {fill("def f:", ".", ";."), "is nested"},
		"conditions in ifs":      {fill("if . then . else ", ".", " end"), "is nested"},
		"an if in its condition": {fill("if ", ".", " then . end"), "is nested"},
		"reduce":                 {fill("reduce . as $x (.;", ".", ")"), "is nested"},
		"foreach":                {fill("foreach ", ".", " as $x (.;.;.)"), "is nested"},
		"labels":                 {fill("label $x|", ".", ""), "is nested"},
		"variables":              {fill(". as $x|", ".", ""), "is nested"},
		"alternative patterns":   {fill(". as [$x]?//$x|", ".", ""), "is nested"},
		"updates":                {fill(".|=(", ".", ")"), "is nested"},
		"try":                    {fill("try ", ".", ""), "is nested"},
		"minus":                  {fill("-", ".", ""), "is nested"},
		"sums":                   {fill(".+", ".", ""), "is nested"},
		"sums in parentheses":    {fill(".+(", ".", ")"), "is nested"},
		"alternatives":           {fill(".//", ".", ""), "is nested"},
		"not after not":          {fill("not|", ".", ""), "is nested"},
		"indices":                {fill("", ".", "[.]"), "is nested"},
		"question marks":         {fill("", ".", "?"), "is nested"},
		"parameters":             {"def f(" + strings.Repeat("$a;", 20_000) + "$a): .; .", "is nested"},
		"faults":                 {"{" + strings.Repeat("a:now,", 10_000) + "a:1}", "now: depends on when"},
		"members of a list":      {"[" + strings.Repeat("1,", 30_000) + "1]", ""},
		"members of an object":   {"{" + strings.Repeat("a:1,", 15_000) + "a:1}", ""},
		"branches":               {"if . then . " + strings.Repeat("elif . then . ", 4_000) + "end", ""},
		"patterns to choose":     {". as " + strings.Repeat("[$x]?//", 9_000) + "[$x]|.", ""},
		"functions":              {fill("def f:.;", ".", ""), ""},
		"a byte too many":        {strings.Repeat(" ", maxSourceBytes) + ".", "the jq expressions have 65537 bytes together; want at most 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			_, err := Compile(Spec{Order: OrderObservedAt, Program: tc.program})
			if took := time.Since(began); took > 5*time.Second { // milliseconds, on a machine that does nothing else
				t.Errorf("took %v", took)
			}
			switch {
			case tc.problem == "" && err != nil:
				t.Error(err)
			case tc.problem != "" && (err == nil || !strings.Contains(err.Error(), tc.problem)):
				t.Errorf("got %.200v, want that it %s", err, tc.problem)
			}
		})
	}
}

func TestCompileBoundsAllExpressionsTogether(t *testing.T) {
	s := program("price", strings.Repeat(" ", maxSourceBytes/2)+".")
	if _, err := Compile(s); err != nil {
		t.Fatal(err)
	}
	s.Fields["item"].(map[string]any)["revision"] = strings.Repeat(" ", maxSourceBytes/4) + "."
	s.Format.Rows = strings.Repeat(" ", maxSourceBytes/4) + "."
	if _, err := Compile(s); err == nil || !strings.Contains(err.Error(), "fields: the jq expressions have") {
		t.Errorf("got %v, want that they are too long", err)
	}
}
