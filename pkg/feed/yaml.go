package feed

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// A document is a YAML file as JSON values, with the place of each.
type document struct {
	name     string
	lines    []string
	root     any
	places   map[string]place // by setting
	problems problemList
}

// A place is where a setting stands.
type place struct {
	name, value position
	style       style
	file        string // of the value, where it is another one
}

type position struct{ line, column int }

// A style says how the text at a value's position becomes the value.
type style int

const (
	stylePlain  style = iota // the text itself, or a value that is no text
	styleQuoted              // one mark before it
	styleBlock               // it begins in the line after
)

// maxNesting bounds how deep lists and objects of a file nest: the reader recurses.
const maxNesting = 32

// readYAML reads a file. The error is an *InvalidError: what is not YAML, or not the part of it that feed files use, is
// not looked at any further.
func readYAML(name string, b []byte) (*document, error) {
	text, err := readText(name, b)
	if err != nil {
		return nil, err
	}
	d := &document{name: name, lines: strings.Split(text, "\n"), places: map[string]place{}}
	tokens := lexer.Tokenize(text)
	if p := refuse(tokens); p != nil {
		p.File = name
		return nil, problemList{*p}.err()
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		p := Problem{File: name, Line: 1, Column: 1, Message: "this is not YAML: " + err.Error()}
		if syntax, ok := errors.AsType[*yaml.SyntaxError](err); ok {
			p.Message = "this is not YAML: " + syntax.Message
			p.Line, p.Column = syntax.Token.Position.Line, syntax.Token.Position.Column
		}
		return nil, problemList{p}.err()
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil {
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 1:
		d.root = d.read(bodies[0], "") // the parser has refused names given twice
		return d, nil
	case 0:
		return nil, problemList{{File: name, Line: 1, Column: 1, Message: "the file is empty; a feed begins with: feed: NAME"}}.err()
	}
	at := bodies[1].GetToken().Position
	return nil, problemList{{File: name, Line: at.Line, Column: 1, Message: "a second document begins; want one feed a file"}}.err()
}

// readText checks what no YAML reader should have to: size, encoding, line ends.
func readText(name string, b []byte) (string, error) {
	if len(b) > maxFileBytes {
		return "", problemList{{File: name, Line: 1, Column: 1, Message: fmt.Sprintf("the file has more than %d bytes; want less, for a long program in a file of its own", maxFileBytes)}}.err()
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(b), "\ufeff"), "\r\n", "\n")
	for i, line := range strings.Split(text, "\n") {
		for j, r := range []rune(line) {
			if r == utf8.RuneError || r < ' ' && r != '\t' {
				return "", problemList{{File: name, Line: i + 1, Column: j + 1, Message: "want UTF-8 text without control characters"}}.err()
			}
		}
	}
	return text, nil
}

// refuse looks for what feed files do not use, before the parser would follow it.
func refuse(tokens token.Tokens) *Problem {
	depth, opened, line := 0, 0, 0
	for _, t := range tokens {
		problem := func(format string, args ...any) *Problem {
			return &Problem{Line: t.Position.Line, Column: t.Position.Column, Message: fmt.Sprintf(format, args...)}
		}
		if t.Position.Line != line {
			opened, line = 0, t.Position.Line
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return problem("anchors and aliases have no place in a feed file; write the value out")
		case token.TagType, token.DirectiveType, token.MappingKeyType:
			return problem("%s has no place in a feed file; want names, values and lists alone", t.Value)
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.SequenceEntryType:
			opened++
		}
		if depth > maxNesting || opened > maxNesting {
			return problem("nested more than %d deep; no setting is", maxNesting)
		}
	}
	return nil
}

// read makes JSON values of a node.
func (d *document) read(n ast.Node, setting string) any {
	at := d.places[setting]
	if setting == "" {
		at.name = position{1, 1}
	}
	if t := n.GetToken(); t != nil {
		at.value = position{t.Position.Line, t.Position.Column}
		if t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType {
			at.style = styleQuoted
		}
	}
	defer func() { d.places[setting] = at }()
	switch n := n.(type) {
	case *ast.MappingNode:
		object := make(map[string]any, len(n.Values))
		for _, member := range n.Values {
			d.member(object, member, setting)
		}
		at.value = at.name // the reader's own is the first colon
		return object
	case *ast.MappingValueNode:
		object := map[string]any{}
		d.member(object, n, setting)
		at.value = at.name
		return object
	case *ast.SequenceNode:
		list := make([]any, len(n.Values))
		for i, element := range n.Values {
			s := join(setting, strconv.Itoa(i))
			t := element.GetToken().Position
			d.places[s] = place{name: position{t.Line, t.Column}}
			list[i] = d.read(element, s)
		}
		return list
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		at.style = styleBlock
		return n.Value.Value
	case *ast.BoolNode:
		return n.Value
	case *ast.NullNode:
		at.value = at.name
		return nil
	default: // a number of any kind: its spelling is what counts
		return json.Number(n.GetToken().Value)
	}
}

func (d *document) member(object map[string]any, member *ast.MappingValueNode, setting string) {
	name := member.Key.GetToken()
	s := join(setting, name.Value)
	d.places[s] = place{name: position{name.Position.Line, name.Position.Column}}
	object[name.Value] = d.read(member.Value, s)
}

// inlineProgram puts the text of a program that is a file into the document. folder is where such a file lies, "" where
// there is none.
func (d *document) inlineProgram(folder string) error {
	const setting = "mapping.program"
	value, _ := find(d.root, schema(), strings.Split(setting, "."))
	name, ok := value.(string)
	if !ok || !programFile.MatchString(name) {
		return nil
	}
	if folder == "" {
		d.report(Problem{Setting: setting, Message: fmt.Sprintf("names the file %s, which lies beside no file; write the program itself", name)})
		return d.problems.err()
	}
	path := filepath.Join(folder, name)
	b, err := readFile(path)
	if err != nil {
		d.report(Problem{Setting: setting, Message: fmt.Sprintf("cannot be read: %v", err)})
		return d.problems.err()
	}
	text, err := readText(path, b)
	if err != nil {
		return err
	}
	d.root.(map[string]any)["mapping"].(map[string]any)["program"] = text
	at := d.places[setting]
	at.file = path
	d.places[setting] = at
	return nil
}

// report adds a problem, with its place in the file.
func (d *document) report(p Problem) {
	at, found := d.places[p.Setting]
	for setting := p.Setting; !found; at, found = d.places[setting] {
		i := strings.LastIndexByte(setting, '.')
		setting = setting[:max(i, 0)]
		p.name = true // what is missing is missed where its parent stands
	}
	p.File, p.Line, p.Column = d.name, at.value.line, at.value.column
	switch {
	case p.name:
		p.Line, p.Column = at.name.line, at.name.column
	case at.file != "" && p.within:
		p.File, p.Line, p.Column = at.file, p.line, p.column
	case p.within:
		p.Line, p.Column = d.inside(p, at)
	}
	d.problems = append(d.problems, p)
}

// inside is where line and column of a setting's text stand in the file: exactly, where the file has the text as it is,
// else (escapes, folded lines) where the text begins.
func (d *document) inside(p Problem, at place) (line, column int) {
	value, _ := find(d.root, schema(), strings.Split(p.Setting, "."))
	text, _ := value.(string)
	parts := strings.Split(text, "\n")
	if p.line > len(parts) || at.value.line > len(d.lines) {
		return at.value.line, at.value.column
	}
	part := parts[p.line-1]
	switch at.style {
	case styleBlock:
		if n := at.value.line + p.line; n <= len(d.lines) && strings.HasSuffix(d.lines[n-1], part) {
			return n, utf8.RuneCountInString(d.lines[n-1]) - utf8.RuneCountInString(part) + p.column
		}
	case stylePlain, styleQuoted:
		start := at.value.column - 1 + int(at.style)
		if source := []rune(d.lines[at.value.line-1]); len(parts) == 1 && start <= len(source) && strings.HasPrefix(string(source[start:]), part) {
			return at.value.line, start + p.column
		}
	}
	return at.value.line, at.value.column
}
