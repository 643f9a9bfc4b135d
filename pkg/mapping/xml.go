package mapping

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/offerlog/offerlog/pkg/offer"
)

// Bounds of XML that hold while it is read. A row beyond them is rejected, a tag beyond them is a fault of the document.
const (
	maxXMLRow        = 1 << 20 // bytes of a row's element
	maxXMLName       = 1 << 10 // bytes of a name
	maxXMLAttributes = 1000    // of an element
	maxXMLKnown      = 4096    // names that are kept, so that each is allocated once
)

// An xmlReader yields the elements on one path of an XML 1.0 document as the values that jq works on: an object for an
// element, in which attributes are @name, its own text and CDATA, joined and trimmed, are #text, and children go by their
// names as written, several of one name as a list. It holds the names of the open elements and one row, never the
// document.
//
// Names keep their prefixes, which stand for nothing here. There are no entities but the five of XML itself, and nothing is
// ever fetched. What is no XML is a fault with its place. encoding/xml would not do: it bears repeated attributes and several documents in one,
// holds a token whole however long it is, and no longer tells a line feed in an attribute from &#10;.
type xmlReader struct {
	src      io.Reader // of UTF-8 text without mark; nil: it has ended
	buf      []byte
	r, w     int    // what is left of it
	at       xmlAt  // of the next byte
	before   uint32 // the bytes before it, the last one lowest
	failed   error  // the first thing wrong; reading has ended then
	path     []string
	maxDepth int
	doctype  bool // may stand there, and name an external DTD

	open    []xmlElement
	matched int    // so many of the open elements are the beginning of the path
	rooted  bool   // the document's element has begun
	typed   bool   // a DOCTYPE has been read
	text    []byte // own text of the open elements of a row, one after the other
	name    []byte // scratch
	known   map[string]string
	spare   map[string]any // attributes of an element outside rows

	row  row
	stop int64 // where the row is too large; beyond all bytes where nothing is held
}

// An xmlAt is a place: a number of bytes, and a line and a column in characters, both from 1.
type xmlAt struct {
	offset       int64
	line, column int
}

// An xmlElement is an open element.
type xmlElement struct {
	name   string
	line   int
	object map[string]any // nil where nothing is held of it
	text   int            // where its own text begins
}

func newXMLReader(src io.Reader, path []string, maxDepth int, doctype bool) *xmlReader {
	return &xmlReader{src: src, buf: make([]byte, 32<<10), at: xmlAt{line: 1, column: 1}, path: path, maxDepth: maxDepth, doctype: doctype,
		known: map[string]string{}, spare: map[string]any{}, stop: math.MaxInt64}
}

// xmlPath reads format.rows of an XML feed: names with / between them, the document's element first.
func xmlPath(rows string) ([]string, error) {
	if rows == "" {
		return nil, errors.New("is needed for XML: the path of the elements that are rows, such as catalog/article")
	}
	path := strings.Split(rows, "/")
	for _, name := range path {
		if !validXMLName(name) {
			return nil, fmt.Errorf("%q is no name of an element; want names with / between them, the document's own first, such as catalog/article", shorten(name))
		}
	}
	return path, nil
}

func (x *xmlReader) next() (row, error) {
	for {
		done := false
		switch x.peek() {
		case end:
			switch {
			case len(x.open) > 0:
				last := x.open[len(x.open)-1]
				x.fail(x.at, "the document ends inside <%s> of line %d", shorten(last.name), last.line)
			case !x.rooted:
				x.fail(x.at, "the document has no element")
			}
			if x.failed != nil {
				return row{}, x.failed
			}
			return row{}, io.EOF
		case '<':
			done = x.markup()
		default:
			x.characters()
		}
		if done {
			return x.row, nil
		}
	}
}

// markup reads what begins with <, and reports whether it ended a row.
func (x *xmlReader) markup() bool {
	at := x.at
	x.skip()
	switch x.peek() {
	case '/':
		x.skip()
		return x.endTag(at)
	case '?':
		x.skip()
		x.instruction(at)
	case '!':
		x.skip()
		switch x.peek() {
		case '-':
			x.want("--", "a comment")
			x.through("--", "a comment")
			x.want(">", "a comment, which holds no --")
		case '[':
			x.want("[CDATA[", "a CDATA section")
			x.cdata(at)
		case 'D':
			x.documentType(at)
		default:
			x.fail(at, "<! begins a comment, a CDATA section or a DOCTYPE, and here none of them")
		}
	default:
		return x.startTag(at)
	}
	return false
}

func (x *xmlReader) startTag(at xmlAt) bool {
	name := x.readName("")
	depth := len(x.open)
	switch {
	case x.failed != nil:
		return false
	case depth == x.maxDepth:
		x.fail(at, "%v: more than %d levels", errTooDeep, x.maxDepth)
		return false
	case depth == 0 && x.rooted:
		x.fail(at, "<%s> stands after the document's element; a document has one", shorten(name))
		return false
	case depth == 0 && name != x.path[0]:
		x.failWith(at, deliveryFault(offer.ReasonMappingError, "", "format.rows: the document is a <%s>, and the path begins with %s", shorten(name), x.path[0]))
		return false
	}
	x.rooted = true
	e := xmlElement{name: name, line: at.line, text: len(x.text)}
	if depth > 0 && x.open[depth-1].object != nil {
		e.object = map[string]any{}
	}
	if x.matched == depth && depth < len(x.path) && name == x.path[depth] {
		if x.matched++; x.matched == len(x.path) {
			e.object = map[string]any{}
			x.row = row{value: e.object, line: at.line, column: at.column, begin: at.offset}
			x.stop = at.offset + maxXMLRow
		}
	}
	x.open = append(x.open, e)
	empty := x.attributes(e)
	if x.at.offset > x.stop {
		x.letGo()
	}
	return empty && x.closeElement()
}

// attributes reads a start tag after its name, and reports whether it is an end tag, too.
func (x *xmlReader) attributes(e xmlElement) (empty bool) {
	object := e.object
	if object == nil {
		clear(x.spare)
		object = x.spare
	}
	for {
		spaced := x.space()
		at := x.at
		switch c := x.peek(); {
		case c == '>':
			x.skip()
			return false
		case c == '/':
			x.want("/>", "a tag")
			return true
		case c == end:
			x.fail(at, "the document ends inside the tag <%s> of line %d", shorten(e.name), e.line)
			return false
		case !spaced:
			x.fail(at, "the tag <%s> wants white space, > or /> here", shorten(e.name))
			return false
		case len(object) == maxXMLAttributes:
			x.fail(at, "<%s> has more than %d attributes", shorten(e.name), maxXMLAttributes)
			return false
		}
		name := x.readName("@")
		x.space()
		x.want("=", "the attribute "+name)
		x.space()
		from := len(x.text)
		x.quoted(name)
		if x.failed != nil {
			return false
		}
		if _, twice := object[name]; twice {
			x.fail(at, "<%s> has the attribute %s twice", shorten(e.name), shorten(name[1:]))
			return false
		}
		value := ""
		if e.object != nil {
			value = string(x.text[from:])
		}
		object[name] = value
		x.text = x.text[:from]
	}
}

// quoted reads the value of an attribute, and appends it to the text.
func (x *xmlReader) quoted(name string) {
	from := len(x.text)
	quote := x.peek()
	if quote != '"' && quote != '\'' {
		x.fail(x.at, "the value of the attribute %s wants quotes", shorten(name[1:]))
		return
	}
	begin := x.at
	x.skip()
	for {
		switch c := x.peek(); c {
		case quote:
			x.skip()
			return
		case end:
			x.fail(begin, "the value of the attribute %s has no end", shorten(name[1:]))
			return
		case '<':
			x.fail(x.at, "a < in the value of the attribute %s; it is written &lt;", shorten(name[1:]))
			return
		case '&':
			x.text = utf8.AppendRune(x.text, x.reference())
		case '\t', '\n':
			x.text = append(x.text, ' ')
			x.skip()
		default:
			x.text = append(x.text, c)
			x.skip()
		}
		if len(x.text)-from > maxFieldBytes {
			x.fail(begin, "the value of the attribute %s has more than %d bytes", shorten(name[1:]), maxFieldBytes)
			return
		}
	}
}

func (x *xmlReader) endTag(at xmlAt) bool {
	name := x.readName("")
	x.space()
	x.want(">", "an end tag")
	switch {
	case x.failed != nil:
		return false
	case len(x.open) == 0:
		x.fail(at, "</%s> closes nothing", shorten(name))
		return false
	}
	if e := x.open[len(x.open)-1]; e.name != name {
		x.fail(at, "</%s> stands where the <%s> of line %d is open", shorten(name), shorten(e.name), e.line)
		return false
	}
	return x.closeElement()
}

// closeElement ends the innermost element, and reports whether it was a row.
func (x *xmlReader) closeElement() bool {
	depth := len(x.open) - 1
	e := x.open[depth]
	x.open = x.open[:depth]
	if e.object != nil {
		if own := bytes.Trim(x.text[e.text:], " \t\n\r"); len(own) > 0 {
			e.object["#text"] = string(own)
		}
	}
	x.text = x.text[:min(e.text, len(x.text))]
	if x.matched > depth { // it is on the path
		x.matched = depth
		if depth+1 == len(x.path) {
			x.stop, x.row.end = math.MaxInt64, x.at.offset
			return x.failed == nil
		}
		return false
	}
	if e.object == nil {
		return false
	}
	parent := x.open[depth-1].object
	switch before := parent[e.name].(type) {
	case nil:
		parent[e.name] = e.object
	case []any:
		parent[e.name] = append(before, e.object)
	default:
		parent[e.name] = []any{before, e.object}
	}
	return false
}

// letGo drops what is held of a row that is too large; its end is still looked for.
func (x *xmlReader) letGo() {
	x.stop = math.MaxInt64
	x.text = x.text[:0]
	for i := range x.open {
		x.open[i].object = nil
	}
	x.row.value = nil
	x.row.fault = rowFault(offer.ReasonSchemaInvalid, "row_malformed", "", "the element has more than %d bytes", maxXMLRow)
}

// characters reads text until the next <.
func (x *xmlReader) characters() {
	held, inside := x.held(), len(x.open) > 0
	for {
		var add rune
		switch c := x.peek(); {
		case c == '<' || c == end:
			return
		case !inside && c != ' ' && c != '\t' && c != '\n':
			x.fail(x.at, "text outside the document's element")
			return
		case c == '&':
			add = x.reference()
		case c == '>' && x.before&0xffff == ']'<<8|']':
			x.fail(x.at, "]]> in a text; its > is written &gt;")
			return
		default:
			x.skip()
			if held {
				x.text = append(x.text, c)
			}
		}
		if held && add != 0 {
			x.text = utf8.AppendRune(x.text, add)
		}
		if x.at.offset > x.stop {
			x.letGo()
			held = false
		}
	}
}

func (x *xmlReader) cdata(at xmlAt) {
	if len(x.open) == 0 {
		x.fail(at, "text outside the document's element")
		return
	}
	from, held := len(x.text), x.held()
	for {
		c := x.peek()
		if c == end {
			x.fail(at, "the CDATA section has no end")
			return
		}
		ends := c == '>' && x.before&0xffff == ']'<<8|']'
		x.skip()
		if ends {
			x.text = x.text[:max(from, len(x.text)-len("]]"))]
			return
		}
		if held {
			x.text = append(x.text, c)
		}
		if x.at.offset > x.stop {
			x.letGo()
			from, held = 0, false
		}
	}
}

// held reports whether the innermost element's text is kept.
func (x *xmlReader) held() bool {
	return len(x.open) > 0 && x.open[len(x.open)-1].object != nil
}

// xmlDeclaration is <?xml ...?>. Any version 1.x is read by the rules of 1.0, as those say.
var xmlDeclaration = regexp.MustCompile(`^<\?xml[ \t\r\n]+version[ \t\r\n]*=[ \t\r\n]*(?:"1\.[0-9]+"|'1\.[0-9]+')` +
	`(?:[ \t\r\n]+encoding[ \t\r\n]*=[ \t\r\n]*(?:"([A-Za-z][A-Za-z0-9._-]*)"|'([A-Za-z][A-Za-z0-9._-]*)'))?` +
	`(?:[ \t\r\n]+standalone[ \t\r\n]*=[ \t\r\n]*(?:"(?:yes|no)"|'(?:yes|no)'))?[ \t\r\n]*\?>`)

// instruction reads a processing instruction, of which the declaration is one.
func (x *xmlReader) instruction(at xmlAt) {
	name := x.readName("")
	switch {
	case x.failed != nil:
	case !strings.EqualFold(name, "xml"):
		if !x.space() && x.peek() != '?' {
			x.fail(x.at, "the processing instruction %s wants white space or ?> here", shorten(name))
			return
		}
		x.through("?>", "a processing instruction")
	case at.offset > 0:
		x.fail(at, "the XML declaration may only stand at the very beginning, without white space before it")
	default:
		text := []byte("<?" + name)
		for !bytes.HasSuffix(text, []byte("?>")) && len(text) < maxXMLName && x.peek() != end {
			text = append(text, x.peek())
			x.skip()
		}
		if !xmlDeclaration.Match(text) {
			x.fail(at, `the XML declaration is none; it is written <?xml version="1.0" encoding="UTF-8"?>`)
		}
	}
}

// documentType reads a DOCTYPE, or refuses it.
func (x *xmlReader) documentType(at xmlAt) {
	x.want("DOCTYPE", "a DOCTYPE")
	switch {
	case x.failed != nil:
		return
	case !x.doctype:
		x.forbid(at, "xml_doctype_forbidden", "the document has a DOCTYPE; where a supplier's documents name an external DTD, the feed sets format.doctype: name, and nothing is fetched")
		return
	case x.rooted || x.typed:
		x.fail(at, "a DOCTYPE stands once, before the document's element")
		return
	}
	x.typed = true
	if !x.space() {
		x.fail(x.at, "the DOCTYPE wants white space and a name here")
		return
	}
	x.readName("")
	x.space()
	literals := 0
	switch x.peek() {
	case 'S':
		x.want("SYSTEM", "a DOCTYPE")
		literals = 1
	case 'P':
		x.want("PUBLIC", "a DOCTYPE")
		literals = 2
	}
	for range literals {
		spaced := x.space()
		quote := x.peek()
		if !spaced || quote != '"' && quote != '\'' {
			x.fail(x.at, "the DOCTYPE wants white space and a quoted name here")
			return
		}
		x.skip()
		x.through(string(quote), "a DOCTYPE")
	}
	x.space()
	if x.peek() != '[' {
		x.want(">", "a DOCTYPE")
		return
	}
	subset := x.at
	for x.peek() != end && x.peek() != ']' {
		declaration := x.at
		if x.lookingAt("<!ENTITY") {
			x.forbid(declaration, "xml_entity_forbidden", "the document declares an entity")
			return
		}
		if x.at == declaration {
			x.skip()
		}
	}
	if x.peek() == ']' {
		x.forbid(subset, "xml_doctype_forbidden", "the DOCTYPE holds declarations; format.doctype: name lets it name an external DTD, and no more")
		return
	}
	x.fail(at, "the DOCTYPE has no end")
}

// reference reads &...; and returns its character.
func (x *xmlReader) reference() rune {
	at := x.at
	x.skip()
	b := x.name[:0]
	for c := x.peek(); (c == '#' || xmlNameByte[c]) && len(b) < 64; c = x.peek() {
		b = append(b, c)
		x.skip()
	}
	x.name = b
	if x.peek() != ';' {
		x.fail(at, "an & that begins no reference; the character itself is written &amp;")
		return utf8.RuneError
	}
	x.skip()
	switch name := string(b); name {
	case "lt":
		return '<'
	case "gt":
		return '>'
	case "amp":
		return '&'
	case "apos":
		return '\''
	case "quot":
		return '"'
	default:
		number, isNumber := strings.CutPrefix(name, "#")
		if !isNumber {
			x.fail(at, "&%s; is none of &lt; &gt; &amp; &apos; &quot;, and no other entities are known", shorten(name))
			return utf8.RuneError
		}
		base := 10
		if hex, isHex := strings.CutPrefix(number, "x"); isHex {
			number, base = hex, 16
		}
		n, err := strconv.ParseUint(number, base, 31)
		if err != nil || !xmlCharacter(rune(n)) {
			x.fail(at, "&%s; names no character that XML may hold", shorten(name))
			return utf8.RuneError
		}
		return rune(n)
	}
}

// xmlCharacter reports the Char of XML 1.0.
func xmlCharacter(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || r >= ' ' && r < 0xd800 || r > 0xdfff && r < 0xfffe || r > 0xffff && r <= utf8.MaxRune
}

// readName reads a name and returns it after the prefix.
func (x *xmlReader) readName(prefix string) string {
	at := x.at
	b := append(x.name[:0], prefix...)
	for c := x.peek(); xmlNameByte[c] && len(b) <= maxXMLName; c = x.peek() {
		b = append(b, c)
		x.skip()
	}
	x.name = b
	if name, known := x.known[string(b)]; known {
		return name
	}
	name := string(b)
	switch {
	case len(b) > maxXMLName:
		x.fail(at, "a name of more than %d bytes", maxXMLName)
	case !validXMLName(name[len(prefix):]):
		x.fail(at, "a name is wanted here; a < in a text is written &lt;")
	case len(x.known) < maxXMLKnown:
		x.known[name] = name
	}
	return name
}

// xmlNameByte tells the bytes of names.
var xmlNameByte = func() (is [256]bool) {
	for c := range is {
		is[c] = c >= utf8.RuneSelf || c == ':' || c == '_' || c == '-' || c == '.' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
	}
	return is
}()

// xmlNameStart are the characters of NameStartChar beyond ASCII.
var xmlNameStart = [][2]rune{{0xc0, 0xd6}, {0xd8, 0xf6}, {0xf8, 0x2ff}, {0x370, 0x37d}, {0x37f, 0x1fff}, {0x200c, 0x200d}, {0x2070, 0x218f},
	{0x2c00, 0x2fef}, {0x3001, 0xd7ff}, {0xf900, 0xfdcf}, {0xfdf0, 0xfffd}, {0x10000, 0xeffff}}

func validXMLName(name string) bool {
	for i, r := range name {
		ok := r < utf8.RuneSelf && xmlNameByte[r] && (i > 0 || r != '-' && r != '.' && (r < '0' || r > '9')) ||
			i > 0 && (r == 0xb7 || r >= 0x300 && r <= 0x36f || r == 0x203f || r == 0x2040)
		for _, span := range xmlNameStart {
			ok = ok || r >= span[0] && r <= span[1]
		}
		if !ok {
			return false
		}
	}
	return name != ""
}

// want reads a text that must stand there.
func (x *xmlReader) want(text, of string) {
	at := x.at
	for i := range len(text) {
		if x.peek() != text[i] {
			x.fail(at, "%s wants %s here", of, text)
			return
		}
		x.skip()
	}
}

// lookingAt reads text as long as it agrees, and reports whether all of it was there.
func (x *xmlReader) lookingAt(text string) bool {
	for i := range len(text) {
		if x.peek() != text[i] {
			return false
		}
		x.skip()
	}
	return true
}

// through reads up to a mark of one or two bytes and past it.
func (x *xmlReader) through(mark, of string) {
	at := x.at
	last, first := mark[len(mark)-1], mark[0]
	for {
		c := x.peek()
		if c == end {
			x.fail(at, "%s has no end", of)
			return
		}
		found := c == last && (len(mark) == 1 || x.before&0xff == uint32(first) && x.at.offset > at.offset)
		x.skip()
		if found {
			return
		}
	}
}

// space reads white space, and reports whether there was any.
func (x *xmlReader) space() (any bool) {
	for {
		switch x.peek() {
		case ' ', '\t', '\n':
			x.skip()
			any = true
		default:
			return any
		}
	}
}

// end is what peek returns where the text has ended, or cannot be read further: a character that XML does not have.
const end = 0

// peek returns the next byte; a line's end, however written, is a line feed.
func (x *xmlReader) peek() byte {
	if x.r == x.w && !x.fill() {
		return end
	}
	c := x.buf[x.r]
	if c >= ' ' {
		return c
	}
	switch c {
	case '\t', '\n':
		return c
	case '\r':
		return '\n'
	}
	x.fail(x.at, "the control character U+%04X, which XML may not hold", c)
	return end
}

// skip reads the byte that peek has returned; it must not be end.
func (x *xmlReader) skip() {
	if x.r == x.w {
		return // a failure has emptied it
	}
	c := x.buf[x.r]
	x.r++
	x.at.offset++
	x.before = x.before<<8 | uint32(c)
	switch {
	case c == '\n', c == '\r':
		if c == '\r' && (x.r < x.w || x.fill()) && x.buf[x.r] == '\n' {
			x.r++
			x.at.offset++
		}
		x.at.line++
		x.at.column = 1
	case c < utf8.RuneSelf:
		x.at.column++
	case c >= 0xc0:
		x.at.column++
	case x.before&0xffffff == 0xefbfbe, x.before&0xffffff == 0xefbfbf:
		x.fail(x.at, "the character U+FFF%X, which XML may not hold", c&0xf)
	}
}

func (x *xmlReader) fill() bool {
	if x.failed != nil {
		return false
	}
	for x.src != nil {
		n, err := x.src.Read(x.buf)
		x.r, x.w = 0, n
		if err != nil {
			x.src = nil
			if !errors.Is(err, io.EOF) {
				x.failed, x.w = err, 0
				return false
			}
		}
		if n > 0 {
			return true
		}
	}
	return false
}

// fail ends reading: what stands at the place is no XML. Only the first failure counts.
func (x *xmlReader) fail(at xmlAt, format string, args ...any) {
	x.failWith(at, deliveryFault(offer.ReasonSchemaInvalid, "payload_malformed", format, args...))
}

func (x *xmlReader) forbid(at xmlAt, detail, message string) {
	x.failWith(at, deliveryFault(offer.ReasonXMLForbidden, detail, "%s", message))
}

func (x *xmlReader) failWith(at xmlAt, fault *offer.Fault) {
	if x.failed == nil {
		fault.Line, fault.Column = at.line, at.column
		x.failed = fault
	}
	x.r, x.w = 0, 0
}

// xmlCharset is the charset that XML with this beginning is to be read in; "" for UTF-16 by its mark, else UTF-8. A mark goes before
// the declaration, and the declaration before what is said around the payload (outer). A document that says UTF-16 in
// bytes that are none cannot be believed, so it has said nothing.
func xmlCharset(head []byte, outer string) string {
	for _, mark := range []string{"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(head, []byte(mark)) {
			return ""
		}
	}
	switch {
	case bytes.HasPrefix(head, []byte("<\x00")):
		return "utf-16le"
	case bytes.HasPrefix(head, []byte("\x00<")):
		return "utf-16be"
	}
	declared := ""
	if m := xmlDeclaration.FindSubmatch(head); m != nil {
		declared = string(m[1]) + string(m[2])
	}
	if declared == "" || strings.HasPrefix(strings.ToLower(declared), "utf-16") {
		return outer
	}
	return declared
}
