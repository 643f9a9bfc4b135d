package feed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/schemas"
)

const schemaID = "https://offerlog.dev/schemas/feed.v1.json"

// schema is the embedded contract. No schema is ever loaded by its URL.
var schema = sync.OnceValue(func() *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemas.Feed))
	if err != nil {
		panic("feed: the embedded schema is not JSON: " + err.Error())
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	if err := c.AddResource(schemaID, doc); err != nil {
		panic("feed: the embedded schema: " + err.Error())
	}
	return c.MustCompile(schemaID)
})

// decode makes a Spec of a feed as JSON values: checked against the schema, with the defaults of the schema filled in,
// and its mapping compiled.
func decode(root any) (Spec, problemList) {
	var problems problemList
	root = plain(root, "", &problems)
	var invalid *jsonschema.ValidationError
	if err := schema().Validate(root); errors.As(err, &invalid) {
		var found problemList
		explain(root, invalid, &found)
		problems.merge(found)
	}
	fill(root, schema())
	b, err := json.Marshal(root)
	if err != nil {
		panic("feed: JSON values that are not JSON: " + err.Error())
	}
	var spec Spec
	// A value of a kind that does not fit is left out; the schema has said so.
	if err := json.Unmarshal(b, &spec); err != nil && len(problems) == 0 {
		problems = problemList{{Message: err.Error()}}
	}
	reading := spec.Reading().WithDefaults() // those that depend on the format
	spec.Format, spec.Fingerprint = reading.Format, reading.Fingerprint
	var found problemList
	for _, s := range []struct {
		setting, text string
		most          int
	}{
		{"connector", spec.Connector, maxNameBytes},
		{"account", spec.Account, maxNameBytes},
		{"accepts.source", spec.Accepts.Source, maxSourceBytes},
	} {
		if len(s.text) > s.most {
			found = append(found, Problem{Setting: s.setting, Message: fmt.Sprintf("has %d bytes; want at most %d", len(s.text), s.most)})
		}
	}
	var unreadable *mapping.SpecError
	if _, err := mapping.Compile(spec.Reading()); errors.As(err, &unreadable) {
		for _, p := range unreadable.Problems {
			if p.Field == "program" || p.Field == "fields" || strings.HasPrefix(p.Field, "fields.") {
				p.Field = "mapping." + p.Field
			}
			found = append(found, Problem{Setting: p.Field, Message: p.Message, within: p.Line > 0, line: p.Line, column: p.Column})
		}
	}
	if spec.Sequential && spec.Order != mapping.OrderVersion {
		found = append(found, Problem{Setting: "sequential", Message: "true needs order: version; without versions there is nothing to count"})
	}
	if spec.Mode == ModeSnapshot && spec.Order != mapping.OrderObservedAt {
		found = append(found, Problem{Setting: "mode", Message: "snapshot needs order: observed_at; a record with a version of its own is never deleted for its absence"})
	}
	if p := spec.Policy.problem(); p != "" {
		found = append(found, Problem{Setting: "policy.tombstone_horizon", Message: p})
	}
	problems.merge(found)
	if len(problems) > 0 {
		return Spec{}, problems
	}
	return spec, nil
}

// Bounds of texts of the outside, which stand in keys. The schema bounds them too, but counts characters; tenant, feed and
// topics are ASCII by its patterns.
const (
	maxNameBytes   = 128
	maxSourceBytes = 1024 // as of any event
)

// plainNumber is the one spelling of numbers in feeds. No setting has a fraction, and a reader of others would have to
// expand exponents.
var plainNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,17})$`)

// plain refuses what no setting can hold, whatever it is: numbers in other spellings, which it leaves out, and U+0000,
// which PostgreSQL does not store.
func plain(v any, setting string, problems *problemList) any {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			v[name] = plain(v[name], join(setting, name), problems)
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i], join(setting, strconv.Itoa(i)), problems)
		}
	case json.Number:
		if !plainNumber.MatchString(string(v)) {
			*problems = append(*problems, Problem{Setting: setting,
				Message: fmt.Sprintf("%s is neither a plain number nor a text; write a number in decimal digits, a text in quotes: %q", shorten(string(v)), shorten(string(v)))})
			return nil
		}
	case string:
		if strings.ContainsRune(v, 0) {
			*problems = append(*problems, Problem{Setting: setting, Message: "holds the character U+0000; want a text without it"})
		}
	}
	return v
}

// explain turns what the schema found into problems that name what is allowed.
func explain(root any, e *jsonschema.ValidationError, problems *problemList) {
	setting := strings.Join(e.InstanceLocation, ".")
	value, rule := find(root, schema(), e.InstanceLocation)
	put := func(format string, args ...any) {
		*problems = append(*problems, Problem{Setting: setting, Message: fmt.Sprintf(format, args...)})
	}
	switch k := e.ErrorKind.(type) {
	case *kind.OneOf:
		return // fields or program: mapping.Compile says what is missing or too much
	case *kind.Required:
		for _, name := range k.Missing {
			*problems = append(*problems, Problem{Setting: join(setting, name), name: true, Message: "is missing; want " + title(rule.Properties[name])})
		}
	case *kind.AdditionalProperties:
		known := slices.Sorted(maps.Keys(rule.Properties))
		for _, name := range k.Properties {
			hint := ""
			if near := nearest(name, known); near != "" {
				hint = fmt.Sprintf("did you mean %s? ", near)
			}
			*problems = append(*problems, Problem{Setting: join(setting, name), name: true,
				Message: fmt.Sprintf("is not a setting; %sknown here: %s", hint, strings.Join(known, ", "))})
		}
	case *kind.Type:
		switch v := value.(type) {
		case nil:
			put("has no value; want %s", title(rule))
		case json.Number, bool:
			quotes := ""
			if slices.Contains(k.Want, "string") {
				quotes = fmt.Sprintf("; a text needs quotes: \"%v\"", v)
			}
			put("%v does not fit; want %s%s", v, title(rule), quotes)
		default:
			put("is %s; want %s", kinds[k.Got], title(rule))
		}
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
	default:
		switch v := value.(type) {
		case nil:
			put("has no value; want %s", title(rule))
		case string:
			put("%q does not fit; want %s", shorten(v), title(rule))
		case json.Number, bool:
			put("%v does not fit; want %s", v, title(rule))
		default:
			put("does not fit; want %s", title(rule))
		}
	}
	for _, cause := range e.Causes {
		explain(root, cause, problems)
	}
}

// kinds are the words of people for those of JSON.
var kinds = map[string]string{"array": "a list", "object": "a group of settings", "string": "a text"}

// find returns the value at a location and the rule for it; nil where the location leads nowhere.
func find(v any, rule *jsonschema.Schema, location []string) (any, *jsonschema.Schema) {
	for _, name := range location {
		if rule == nil {
			return nil, nil
		}
		switch parent := v.(type) {
		case map[string]any:
			v, rule = parent[name], rule.Properties[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(parent) {
				return nil, nil
			}
			v, rule = parent[i], rule.Items2020
		default:
			return nil, nil
		}
	}
	return v, rule
}

// title says in a few words what a rule allows.
func title(rule *jsonschema.Schema) string {
	if rule.Title == "" && rule.Ref != nil {
		return rule.Ref.Title
	}
	return rule.Title
}

// fill gives settings that are absent the defaults of the schema, so that the file that says a default and the one that
// leaves it out are one spec.
func fill(v any, rule *jsonschema.Schema) {
	settings, ok := v.(map[string]any)
	if !ok {
		return
	}
	for name, sub := range rule.Properties {
		switch _, given := settings[name]; {
		case given:
			fill(settings[name], sub)
		case sub.Default != nil:
			settings[name] = *sub.Default
		case len(sub.Properties) > 0:
			group := map[string]any{}
			if fill(group, sub); len(group) > 0 {
				settings[name] = group
			}
		}
	}
}

func join(setting, name string) string {
	if setting == "" {
		return name
	}
	return setting + "." + name
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "..."
	}
	return s
}

// nearest is the known name that was probably meant, "" where none is near.
func nearest(name string, known []string) string {
	best, least := "", max(2, len(name)/3)+1
	if len(name) > 64 {
		return ""
	}
	for _, k := range known {
		if d := Distance(strings.ToLower(strings.ReplaceAll(name, "-", "_")), k); d < least && d < len(k) {
			best, least = k, d
		}
	}
	return best
}

// Distance counts the bytes to insert, delete or replace that make b of a (Levenshtein): how probably the one was meant with the other.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
