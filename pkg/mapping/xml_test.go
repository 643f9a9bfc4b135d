package mapping

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/offerlog/offerlog/pkg/offer"
	"pgregory.net/rapid"
)

// readXML reads all rows on a path; doctype lets a DOCTYPE stand.
func readXML(src io.Reader, path string, doctype bool) (rows []row, err error) {
	x := newXMLReader(src, strings.Split(path, "/"), defaultMaxDepth, doctype)
	for {
		row, err := x.next()
		switch {
		case errors.Is(err, io.EOF):
			return rows, nil
		case err != nil:
			return rows, err
		}
		rows = append(rows, row)
	}
}

func TestXMLRows(t *testing.T) {
	for name, tc := range map[string]struct{ path, text, want string }{
		"an element is an object":           {"f/o", `<f><o><a>1</a></o></f>`, `[{"a":{"#text":"1"}}]`},
		"attributes and text":               {"f/o", `<f><o id="7" b='x"y'> t </o></f>`, `[{"@id":"7","@b":"x\"y","#text":"t"}]`},
		"an empty element":                  {"f/o", `<f><o/><o></o><o> </o></f>`, `[{},{},{}]`},
		"one of a name, and several":        {"f/o", `<f><o><p>1</p></o><o><p>1</p><q/><p>2</p><p/></o></f>`, `[{"p":{"#text":"1"}},{"p":[{"#text":"1"},{"#text":"2"},{}],"q":{}}]`},
		"text around children is joined":    {"f", `<f>a<b>x</b>c<![CDATA[ <d> ]]>&amp;<b>y</b> </f>`, `[{"#text":"ac <d> &","b":[{"#text":"x"},{"#text":"y"}]}]`},
		"prefixes stay":                     {"n:f/n:o", `<n:f xmlns:n="urn:x"><n:o n:a="1"><m:p/></n:o><o/></n:f>`, `[{"@n:a":"1","m:p":{}}]`},
		"names differ by case":              {"f/o", `<f><O/><o><Sku>1</Sku><sku>2</sku></o></f>`, `[{"Sku":{"#text":"1"},"sku":{"#text":"2"}}]`},
		"rows at the path's depth alone":    {"f/o", `<f><x><o><a/></o></x><o><o><o/></o></o></f>`, `[{"o":{"o":{}}}]`},
		"a path goes on after another one":  {"f/g/o", `<f><h><o/></h><g><o>1</o></g><o/><g><h/><o>2</o></g></f>`, `[{"#text":"1"},{"#text":"2"}]`},
		"the document is a row":             {"o", `<o><o>1</o></o>`, `[{"o":{"#text":"1"}}]`},
		"no rows":                           {"f/o", `<f/>`, `[]`},
		"references":                        {"f", `<f a="&lt;&gt;&amp;&apos;&quot;&#228;&#xE4;&#10;">&lt;&#x1F600;&#9;.</f>`, `[{"@a":"<>&'\"ää\n","#text":"<😀\t."}]`},
		"white space in attributes":         {"f", "<f a='1\n2\t3\r\n4'/>", `[{"@a":"1 2 3 4"}]`},
		"line ends are line feeds":          {"f", "<f>a\r\nb\rc\n\r\nd</f>", `[{"#text":"a\nb\nc\n\nd"}]`},
		"only XML's white space is trimmed": {"f", "<f>\t \u00a0 007 \u00a0\r\n</f>", "[{\"#text\":\"\u00a0 007 \u00a0\"}]"},
		"CDATA with brackets":               {"f", `<f><![CDATA[]]]]><![CDATA[>]]]></f>`, `[{"#text":"]]>]"}]`},
		"comments and instructions":         {"f/o", `<?xml version="1.0"?><!-- <o/> --><?a?><?b <o/>?><f><o><!---->1<?c d?>2<!-- - --></o></f><!--x--> `, `[{"#text":"12"}]`},
		"a declaration with everything":     {"f", `<?xml version='1.1'  encoding="utf-8" standalone = 'no' ?><f/>`, `[{}]`},
		"letters of other alphabets":        {"каталог/товар", `<каталог><товар цена="1">ő</товар></каталог>`, `[{"@цена":"1","#text":"ő"}]`},
		"blanks where tags bear them":       {"f/o", "<f\n><o\ta = '1'\nb\r\n=\"2\" / ></o\n></f >", ""},
		"blanks where tags bear them, too":  {"f/o", "<f\n><o\ta = '1'\nb\r\n=\"2\" ></o\n></f >", `[{"@a":"1","@b":"2"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			for how, src := range map[string]io.Reader{"at once": strings.NewReader(tc.text), "byte by byte": iotest.OneByteReader(strings.NewReader(tc.text))} {
				rows, err := readXML(src, tc.path, false)
				values := []any{}
				for _, r := range rows {
					values = append(values, r.value)
				}
				got := string(appendCanonical(nil, values))
				switch {
				case tc.want == "" && err == nil:
					t.Errorf("%s: got %s, want a fault", how, got)
				case tc.want != "" && (err != nil || got != canonicalOf(t, json.RawMessage(tc.want))):
					t.Errorf("%s: got %s, %v; want %s", how, got, err, tc.want)
				}
			}
		})
	}
}

func TestXMLFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		text, detail string
		line, column int
	}{
		"nothing":                             {"", "payload_malformed", 1, 1},
		"white space alone":                   {"\n ", "payload_malformed", 2, 2},
		"no XML":                              {"sku,mpn\n", "payload_malformed", 1, 1},
		"JSON":                                {"\n{}", "payload_malformed", 2, 1},
		"a document cut off in a text":        {"<f>\n<o>ä1", "payload_malformed", 2, 6},
		"a document cut off in a tag":         {"<f>\n<o a='1' ", "payload_malformed", 2, 10},
		"a document cut off in a value":       {"<f>\n<o a='1", "payload_malformed", 2, 6},
		"a document cut off in CDATA":         {"<f><![CDATA[]]", "payload_malformed", 1, 4},
		"a document cut off in a comment":     {"<f><!-- -", "payload_malformed", 1, 8},
		"another end tag":                     {"<f>\n <o></p></f>", "payload_malformed", 2, 5},
		"end tags the wrong way round":        {"<f><o></f></o>", "payload_malformed", 1, 7},
		"an end tag alone":                    {"<f/>\n</f>", "payload_malformed", 2, 1},
		"a second document":                   {"<f/>\n<f/>", "payload_malformed", 2, 1},
		"text after the document":             {"<f/>\n x", "payload_malformed", 2, 2},
		"CDATA after the document":            {"<f/><![CDATA[x]]>", "payload_malformed", 1, 5},
		"an attribute twice":                  {"<f>\n<o a='1' b='' a='2'/></f>", "payload_malformed", 2, 15},
		"an attribute twice outside the rows": {"<f a='1' a='1'/>", "payload_malformed", 1, 10},
		"an attribute without a value":        {"<f><o a/></f>", "payload_malformed", 1, 8},
		"an attribute without quotes":         {"<f><o a=1/></f>", "payload_malformed", 1, 9},
		"attributes without white space":      {"<f><o a='1'b='2'/></f>", "payload_malformed", 1, 12},
		"a < in an attribute":                 {"<f><o a='<'/></f>", "payload_malformed", 1, 10},
		"a bare ampersand":                    {"<f><o>\nA & B</o></f>", "payload_malformed", 2, 3},
		"a bare ampersand outside the rows":   {"<f>A & B</f>", "payload_malformed", 1, 6},
		"a bare ampersand in an attribute":    {"<f a='x?a=1&b=2'/>", "payload_malformed", 1, 12},
		"an entity of HTML":                   {"<f><o>&nbsp;</o></f>", "payload_malformed", 1, 7},
		"a reference to no character":         {"<f><o>&#0;</o></f>", "payload_malformed", 1, 7},
		"a reference to half a pair":          {"<f><o>&#xD800;</o></f>", "payload_malformed", 1, 7},
		"a reference beyond all characters":   {"<f><o>&#x110000;</o></f>", "payload_malformed", 1, 7},
		"a reference with a sign":             {"<f><o>&#-1;</o></f>", "payload_malformed", 1, 7},
		"a reference without digits":          {"<f><o>&#x;</o></f>", "payload_malformed", 1, 7},
		"a reference without an end":          {"<f><o>&" + strings.Repeat("a", 1000), "payload_malformed", 1, 7},
		"a control character":                 {"<f><o>a\x00</o></f>", "payload_malformed", 1, 8},
		"U+FFFE":                              {"<f><o>a\ufffe</o></f>", "payload_malformed", 1, 9},
		"]]> in a text":                       {"<f><o>a]]></o></f>", "payload_malformed", 1, 10},
		"-- in a comment":                     {"<f><!-- a -- b --></f>", "payload_malformed", 1, 13},
		"a tag without a name":                {"<f>1 < 2</f>", "payload_malformed", 1, 7},
		"a name that begins with a digit":     {"<f><1a/></f>", "payload_malformed", 1, 5},
		"a name of more than a kilobyte":      {"<f><" + strings.Repeat("a", 1<<20), "payload_malformed", 1, 5},
		"markup of no kind":                   {"<f><!ELEMENT a></f>", "payload_malformed", 1, 4},
		"white space before the declaration":  {"\n<?xml version=\"1.0\"?><f/>", "payload_malformed", 2, 1},
		"a declaration that is none":          {"<?xml version='2.0'?><f/>", "payload_malformed", 1, 1},
		"a declaration without an end":        {"<?xml " + strings.Repeat(" ", 1<<20), "payload_malformed", 1, 1},
		"nested too deep":                     {strings.Repeat("<f>", 201), "payload_malformed", 1, 601},
		"a value without an end":              {"<f><o a='" + strings.Repeat("b", 1<<20), "payload_malformed", 1, 9},
		"a DOCTYPE":                           {"<?xml version='1.0'?>\n<!DOCTYPE f><f/>", "xml_doctype_forbidden", 2, 1},
		"a DOCTYPE in the document":           {"<f><!DOCTYPE f></f>", "xml_doctype_forbidden", 1, 4},
		"an entity":                           {"<!DOCTYPE f [<!ENTITY a \"b\">]><f>&a;</f>", "xml_doctype_forbidden", 1, 1},
		"another document":                    {"<html><body>", "", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for how, src := range map[string]io.Reader{"at once": strings.NewReader(tc.text), "byte by byte": iotest.OneByteReader(strings.NewReader(tc.text))} {
				_, err := readXML(src, "f/o", false)
				fault, _ := errors.AsType[*offer.Fault](err)
				if fault == nil || fault.Detail != tc.detail || fault.Line != tc.line || fault.Column != tc.column {
					t.Errorf("%s: got %v, want %s at %d:%d", how, err, tc.detail, tc.line, tc.column)
				}
			}
		})
	}
}

func TestXMLDoctypes(t *testing.T) {
	for name, tc := range map[string]struct{ doctype, detail string }{
		"a name":                       {`<!DOCTYPE f>`, ""},
		"a DTD":                        {`<!DOCTYPE f SYSTEM "http://dtd.invalid/f.dtd">`, ""},
		"a public DTD":                 {"<!DOCTYPE\nf PUBLIC '-//X//Y' \"http://dtd.invalid/]>.dtd\" >", ""},
		"a DTD after a comment":        {`<!--x--><!DOCTYPE f SYSTEM ''>`, ""},
		"an entity":                    {`<!DOCTYPE f [<!ENTITY a "b">]>`, "xml_entity_forbidden"},
		"an entity beside a DTD":       {`<!DOCTYPE f SYSTEM "f.dtd" [ <!--x--> <!ENTITY % a SYSTEM "http://dtd.invalid/a"> %a; ]>`, "xml_entity_forbidden"},
		"a billion laughs":             {`<!DOCTYPE f [<!ELEMENT f (#PCDATA)><!ENTITY a "` + strings.Repeat("&b;", 1000) + `">]>`, "xml_entity_forbidden"},
		"declarations of other kinds":  {`<!DOCTYPE f [<!ATTLIST f a CDATA "b">]>`, "xml_doctype_forbidden"},
		"declarations of none":         {`<!DOCTYPE f []>`, "xml_doctype_forbidden"},
		"half a declaration":           {`<!DOCTYPE f [<]>`, "xml_doctype_forbidden"},
		"declarations without an end":  {`<!DOCTYPE f [`, "payload_malformed"},
		"no name":                      {`<!DOCTYPE>`, "payload_malformed"},
		"a DTD without a name":         {`<!DOCTYPE f SYSTEM>`, "payload_malformed"},
		"a public DTD without a place": {`<!DOCTYPE f PUBLIC "x">`, "payload_malformed"},
		"a DTD without an end":         {`<!DOCTYPE f SYSTEM "x`, "payload_malformed"},
		"two":                          {`<!DOCTYPE f><!DOCTYPE f>`, "payload_malformed"},
		"one of HTML":                  {`<!doctype html>`, "payload_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := readXML(strings.NewReader(tc.doctype+"<f/>"), "f", true)
			fault, _ := errors.AsType[*offer.Fault](err)
			switch {
			case tc.detail == "" && (err != nil || len(rows) != 1):
				t.Errorf("got %v, %v; want a row", rows, err)
			case tc.detail != "" && (fault == nil || fault.Detail != tc.detail || fault.Line == 0):
				t.Errorf("got %v, want %s", err, tc.detail)
			}
		})
	}
}

func TestXMLRowsHaveTheirPlaces(t *testing.T) {
	rows, err := readXML(strings.NewReader("<f>\r\n  <o/><o>\r</o>\n<ä>ää</ä><o/></f>"), "f/o", false)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%d:%d", r.line, r.column))
	}
	if want := []string{"2:3", "2:7", "4:10"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAnXMLRowThatIsTooLargeIsTheOnlyOneRejected(t *testing.T) {
	huge := strings.Repeat("x", maxXMLRow)
	for name, row := range map[string]string{
		"a text":     "<o><sku>1</sku>" + huge + "</o>",
		"a child":    "<o><a><b>" + huge + "</b><c>2</c></a></o>",
		"CDATA":      "<o><a><![CDATA[" + huge + "]]></a></o>",
		"children":   "<o><a>" + strings.Repeat("<b/>", maxXMLRow/4) + "</a><o/></o>",
		"attributes": "<o>" + strings.Repeat(`<b c="1"/>`, maxXMLRow/8) + "</o>",
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := readXML(strings.NewReader("<f><o>1</o>"+row+"<o>3<p/></o></f>"), "f/o", false)
			if err != nil || len(rows) != 3 || rows[0].fault != nil || rows[2].fault != nil {
				t.Fatalf("got %d rows, %v; want 3", len(rows), err)
			}
			if f := rows[1].fault; f == nil || f.Detail != "row_malformed" || rows[1].value != nil {
				t.Errorf("got %v, want row_malformed", f)
			}
			if got, _ := rows[2].value.(map[string]any); got["#text"] != "3" || len(got) != 2 {
				t.Errorf("the row after it is %v", rows[2].value)
			}
		})
	}
}

// repeated is a text without an end, which is never held.
type repeated struct {
	head, again string
	rest        int // bytes
	at          int
}

func (r *repeated) Read(b []byte) (n int, err error) {
	for n < len(b) && r.rest > 0 {
		source := r.head
		if source == "" {
			source = r.again[r.at%len(r.again):]
		}
		m := copy(b[n:], source[:min(len(source), r.rest)])
		if r.head != "" {
			r.head = r.head[m:]
		} else {
			r.at += m
		}
		n, r.rest = n+m, r.rest-m
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func TestHostileXMLEndsInANamedFaultAndHoldsNothing(t *testing.T) {
	const size = 8 << 20
	for name, tc := range map[string]struct{ head, again, detail string }{
		"depth":                    {"<f>", "<f>", "payload_malformed"},
		"depth in a row":           {"<f><o>", "<o>", "payload_malformed"},
		"attributes":               {"<f ", "a='' b='' ", "payload_malformed"},
		"a value":                  {"<f a='", "b", "payload_malformed"},
		"a name":                   {"<", "f", "payload_malformed"},
		"a text":                   {"<f><o>", "x", "payload_malformed"},
		"a text outside the rows":  {"<f>", "x", "payload_malformed"},
		"CDATA":                    {"<f><o><![CDATA[", "]", "payload_malformed"},
		"a comment":                {"<f><!--", "-x", "payload_malformed"},
		"an instruction":           {"<f><?x ", "?", "payload_malformed"},
		"a DOCTYPE":                {"<!DOCTYPE f [", "<!ELEMENT f ANY>", "payload_malformed"},
		"a billion laughs":         {"<!DOCTYPE f [", `<!ENTITY a "&a;&a;">`, "xml_entity_forbidden"},
		"one row":                  {"<f><o>", "<a b='1'/>", "payload_malformed"},
		"rows without an end":      {"<f>", "<o><a>1</a></o>", "payload_malformed"},
		"elements outside the row": {"<f>", "<p q='1'/>", "payload_malformed"},
		"white space":              {"", " ", "payload_malformed"},
		"references":               {"<f><o>", "&#65;", "payload_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			x := newXMLReader(&repeated{head: tc.head, again: tc.again, rest: size}, []string{"f", "o"}, defaultMaxDepth, true)
			runtime.GC()
			runtime.ReadMemStats(&before)
			var err error
			for err == nil {
				_, err = x.next()
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if fault, _ := errors.AsType[*offer.Fault](err); fault == nil || fault.Detail != tc.detail {
				t.Errorf("got %v, want %s", err, tc.detail)
			}
			if held := max(after.HeapAlloc, before.HeapAlloc) - before.HeapAlloc; held > 4<<20 {
				t.Errorf("%d bytes are held of %d", held, size)
			}
			runtime.KeepAlive(x)
		})
	}
}

func TestXMLNamesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("<f>")
	for i := range 2 * maxXMLKnown {
		fmt.Fprintf(&b, "<o><a%d/></o>", i)
	}
	b.WriteString("</f>")
	x := newXMLReader(strings.NewReader(b.String()), []string{"f", "o"}, defaultMaxDepth, false)
	n := 0
	for {
		if _, err := x.next(); err != nil {
			break
		}
		n++
	}
	if n != 2*maxXMLKnown || len(x.known) > maxXMLKnown {
		t.Errorf("got %d rows and %d names", n, len(x.known))
	}
}

func TestXMLPaths(t *testing.T) {
	for rows, ok := range map[string]bool{
		"f": true, "BMECAT/T_NEW_CATALOG/ARTICLE": true, "n:f/n:o": true, "каталог/товар": true,
		"": false, "/f": false, "f/": false, "f//o": false, ".offers[]": false, "f/@a": false, "f/*": false, "f/o[1]": false, "f o": false,
	} {
		if path, err := xmlPath(rows); (err == nil) != ok || ok && strings.Join(path, "/") != rows {
			t.Errorf("%q: got %q, %v", rows, path, err)
		}
	}
}

func TestXMLCharset(t *testing.T) {
	for name, tc := range map[string]struct{ payload, outer, want string }{
		"no word":                      {"<f/>", "", ""},
		"the declaration":              {`<?xml version="1.0" encoding="ISO-8859-1"?>`, "utf-8", "ISO-8859-1"},
		"the declaration, in ticks":    {`<?xml version='1.0' encoding='windows-1250'?>`, "", "windows-1250"},
		"a declaration of the version": {`<?xml version="1.0"?>`, "windows-1252", "windows-1252"},
		"a mark before a declaration":  {"\ufeff" + `<?xml version="1.0" encoding="ISO-8859-1"?>`, "windows-1252", ""},
		"a mark of UTF-16":             {"\xff\xfe<\x00", "windows-1252", ""},
		"UTF-16 without a mark":        {"<\x00f\x00", "utf-8", "utf-16le"},
		"UTF-16, the other way round":  {"\x00<\x00f", "", "utf-16be"},
		"UTF-16 declared in bytes":     {`<?xml version="1.0" encoding="UTF-16"?>`, "windows-1252", "windows-1252"},
		"a declaration further down":   {"<f/>\n" + `<?xml version="1.0" encoding="ISO-8859-1"?>`, "", ""},
	} {
		if got := xmlCharset([]byte(tc.payload), tc.outer); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// A xmlTree is an element to write.
type xmlTree struct {
	name       string
	attributes map[string]string
	parts      []any // string or *xmlTree
}

var (
	xmlNames = rapid.SampledFrom([]string{"a", "b", "n:c", "D-1.x", "_", "ü"})
	xmlTexts = rapid.StringOfN(rapid.SampledFrom([]rune("ab 0\n\t<>&'\"]-?é\u00a0\U0001F600")), 0, 12, -1)
)

func drawTree(t *rapid.T, name string, depth int) *xmlTree {
	e := &xmlTree{name: name, attributes: rapid.MapOfN(xmlNames, xmlTexts, 0, 3).Draw(t, "attributes")}
	for range rapid.IntRange(0, 4).Draw(t, "parts") {
		if depth > 0 && rapid.Bool().Draw(t, "element") {
			e.parts = append(e.parts, drawTree(t, xmlNames.Draw(t, "name"), depth-1))
		} else {
			e.parts = append(e.parts, xmlTexts.Draw(t, "text"))
		}
	}
	return e
}

// value is what a mapping sees of the element.
func (e *xmlTree) value() map[string]any {
	v := map[string]any{}
	for name, text := range e.attributes {
		v["@"+name] = text
	}
	own := ""
	children := map[string][]any{}
	for _, part := range e.parts {
		switch part := part.(type) {
		case string:
			own += part
		case *xmlTree:
			children[part.name] = append(children[part.name], part.value())
		}
	}
	if own = strings.Trim(own, " \t\r\n"); own != "" {
		v["#text"] = own
	}
	for name, list := range children {
		if v[name] = list; len(list) == 1 {
			v[name] = list[0]
		}
	}
	return v
}

// write renders the element in one of the many ways to write it.
func (e *xmlTree) write(t *rapid.T, b *bytes.Buffer) {
	blank := func(texts ...string) { b.WriteString(rapid.SampledFrom(texts).Draw(t, "blank")) }
	fmt.Fprintf(b, "<%s", e.name)
	for _, name := range slices.Sorted(maps.Keys(e.attributes)) {
		blank(" ", "\n", "\t ")
		quote := rapid.SampledFrom([]string{`"`, `'`}).Draw(t, "quote")
		b.WriteString(name)
		blank("=", " =\n")
		b.WriteString(quote)
		for _, r := range e.attributes[name] {
			if strings.ContainsRune("<&\n\t"+quote, r) || rapid.IntRange(0, 9).Draw(t, "reference") == 0 {
				fmt.Fprintf(b, "&#x%x;", r)
			} else {
				b.WriteRune(r)
			}
		}
		b.WriteString(quote)
	}
	blank("", " ")
	if len(e.parts) == 0 && rapid.Bool().Draw(t, "empty") {
		b.WriteString("/>")
		return
	}
	b.WriteString(">")
	for _, part := range e.parts {
		blank("", "", "<!-- <a> -->", "<?a <b> ?>")
		switch part := part.(type) {
		case *xmlTree:
			part.write(t, b)
		case string:
			if !strings.Contains(part, "]]>") && rapid.Bool().Draw(t, "CDATA") {
				fmt.Fprintf(b, "<![CDATA[%s]]>", part)
				continue
			}
			for _, r := range part {
				switch {
				case strings.ContainsRune("<&>", r):
					fmt.Fprintf(b, "&#%d;", r)
				case r == '\n':
					blank("\n", "\r\n", "&#10;")
				default:
					b.WriteRune(r)
				}
			}
		}
	}
	fmt.Fprintf(b, "</%s", e.name)
	blank("", "\n")
	b.WriteString(">")
}

func TestATreeThatIsWrittenAsXMLIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root := &xmlTree{name: "f"}
		var want []any
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			e := drawTree(t, rapid.SampledFrom([]string{"o", "other"}).Draw(t, "name"), 3)
			if e.name == "o" {
				want = append(want, e.value())
			}
			root.parts = append(root.parts, e)
		}
		var b bytes.Buffer
		b.WriteString(rapid.SampledFrom([]string{"", "\n", `<?xml version="1.0"?>`}).Draw(t, "head"))
		root.write(t, &b)
		rows, err := readXML(&b, "f/o", false)
		var got []any
		for _, r := range rows {
			got = append(got, r.value)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, %v; want %v", got, err, want)
		}
	})
}

// FuzzXML compares what is read with what encoding/xml reads of it, which bears more.
func FuzzXML(f *testing.F) {
	for _, seed := range []string{
		`<f><o a="1">x<p/>y<![CDATA[z]]></o><o/></f>`, `<?xml version="1.0" encoding="utf-8"?><!DOCTYPE f SYSTEM "x"><f><n:o xmlns:n="y"/></f>`,
		`<!DOCTYPE f [<!ENTITY a "b">]><f>&a;</f>`, "<f>\r\n<o>&#x41;&lt;]]&gt;</o>\r</f>", `<f><o a='&#10;' b="'"/><!-- - --><?p q?></f>`, "<f><o>\xc3\xa4</o></f>", "<f", "</f>", "<f><o></f>",
	} {
		f.Add([]byte(seed))
	}
	p := mustCompile(f, acmeXML)
	f.Fuzz(func(t *testing.T, payload []byte) {
		src, err := p.text(&Request{Payload: payload}, bytes.NewReader(payload))
		if err != nil {
			return
		}
		text, err := io.ReadAll(src)
		if err != nil {
			return
		}
		rows, err := readXML(bytes.NewReader(text), "f/o", true)
		if err != nil {
			if fault, _ := errors.AsType[*offer.Fault](err); fault == nil || fault.Line < 1 || fault.Column < 1 || fault.Message == "" {
				t.Errorf("a fault without a place: %v", err)
			}
			return
		}
		want, ok := readByStandardLibrary(text)
		if !ok {
			return
		}
		if len(rows) != len(want) {
			t.Fatalf("got %d rows, want %d", len(rows), len(want))
		}
		for i, r := range rows {
			got := string(appendCanonical(nil, r.value))
			if want := string(appendCanonical(nil, want[i])); r.fault == nil && got != want {
				t.Errorf("row %d: got %s, want %s", i+1, got, want)
			}
		}
	})
}

// readByStandardLibrary is the rows f/o by encoding/xml; not ok where it knows another XML: no version but 1.0, no names
// of the fifth edition.
func readByStandardLibrary(text []byte) (rows []any, ok bool) {
	d := xml.NewDecoder(bytes.NewReader(text))
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	name := func(n xml.Name) string {
		if n.Space != "" {
			return n.Space + ":" + n.Local
		}
		return n.Local
	}
	root := &xmlTree{}
	open := []*xmlTree{root}
	for {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, false
		}
		last := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			e := &xmlTree{name: name(token.Name), attributes: map[string]string{}}
			for _, a := range token.Attr {
				e.attributes[name(a.Name)] = a.Value
			}
			last.parts = append(last.parts, e)
			open = append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			last.parts = append(last.parts, string(token))
		}
	}
	for _, document := range root.parts {
		if f, isElement := document.(*xmlTree); isElement {
			for _, part := range f.parts {
				if e, isElement := part.(*xmlTree); isElement && e.name == "o" {
					rows = append(rows, e.value())
				}
			}
		}
	}
	return rows, true
}

// acmeXML is the feed of acme as XML.
var acmeXML = Spec{
	Format: Format{Kind: KindXML, Rows: "feed/offer"},
	Order:  OrderVersion,
	Fields: map[string]any{
		"source_record":  `.sku["#text"]`,
		"source_version": `.rev["#text"]`,
		"item":           map[string]any{"mpn": `.mpn["#text"]`, "revision": `.rev_code["#text"]`, "packaging": `.pack["#text"]`, "condition": `.cond["#text"] // "new"`},
		"quantity":       `.qty["#text"]`,
		"quantity_basis": map[string]any{"unit": `.unit["#text"]`, "per": `.per["#text"]`},
		"price":          `.price["#text"]`,
		"currency":       `.price["@cur"]`,
		"price_breaks":   `[.break | if type == "array" then .[] else . // empty end | {min_qty: .["@qty"], price: .["#text"]}]`,
		"observed_at":    `.ts["#text"]`,
	},
}

func acmeXMLPage(rows int) []byte {
	var b bytes.Buffer
	b.WriteString("<?xml version=\"1.0\"?>\n<feed>\n")
	for i := range rows {
		fmt.Fprintf(&b, "<offer><sku>AX-%d</sku><rev>%d</rev><mpn>RC0603FR-%d</mpn><rev_code>C</rev_code><pack>reel</pack><qty>%d</qty><unit>C62</unit><per>1</per>"+
			"<price cur=\"EUR\">0.%04d</price><break qty=\"10\">0.0150</break><break qty=\"100\">0.0099</break><ts>2025-03-01T10:00:00.250Z</ts></offer>\n",
			i, i%9+1, i, i*7, i%9000+100)
	}
	b.WriteString("</feed>\n")
	return b.Bytes()
}

func TestXMLAndJSONSayTheSame(t *testing.T) {
	asXML, err := mustCompile(t, acmeXML).Map(t.Context(), &Request{Payload: acmeXMLPage(50), HasData: true, ContentType: "application/xml"})
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := mustCompile(t, acme).Map(t.Context(), &Request{Payload: acmePage(50), HasData: true})
	if err != nil {
		t.Fatal(err)
	}
	if asXML.Fault != nil || len(asXML.Rows) != 50 || !reflect.DeepEqual(asXML.Rows, asJSON.Rows) {
		t.Errorf("got %v, %+v; want %+v", asXML.Fault, asXML.Rows, asJSON.Rows)
	}
}

func TestXMLFaultsOfRowsHaveTheirPlaces(t *testing.T) {
	page := strings.ReplaceAll(string(acmeXMLPage(4)), "<qty>7<", "<qty>seven<")
	res := mapText(t, acmeXML, strings.ReplaceAll(page, "0.0102", "1,5"))
	var got []string
	for _, f := range res.Rejected {
		got = append(got, fmt.Sprintf("%d %s %d:%d %s", f.Row, f.Detail, f.Line, f.Column, f.Path))
	}
	if want := []string{"2 quantity_invalid 4:1 quantity", "3 number_invalid 5:1 price"}; !slices.Equal(got, want) || len(res.Rows) != 2 {
		t.Errorf("got %q and %d rows, want %q and 2", got, len(res.Rows), want)
	}
}

func TestXMLSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Spec)
		field  string // "": it can stand
	}{
		"as it is":             {func(*Spec) {}, ""},
		"a DTD may be named":   {func(s *Spec) { s.Format.Doctype = DoctypeName }, ""},
		"rows in any order":    {func(s *Spec) { s.Fingerprint = FingerprintRows }, ""},
		"no path":              {func(s *Spec) { s.Format.Rows = "" }, "format.rows"},
		"a path of jq":         {func(s *Spec) { s.Format.Rows = ".offers[]" }, "format.rows"},
		"another DOCTYPE rule": {func(s *Spec) { s.Format.Doctype = "fetch" }, "format.doctype"},
		"json/1 of XML":        {func(s *Spec) { s.Fingerprint = FingerprintJSON }, "fingerprint"},
		"a DOCTYPE in JSON":    {func(s *Spec) { s.Format = Format{Doctype: DoctypeName} }, "format.doctype"},
	} {
		err := with(acmeXML, tc.change).Validate()
		spec, _ := errors.AsType[*SpecError](err)
		if tc.field == "" && err != nil || tc.field != "" && (spec == nil || len(spec.Problems) != 1 || spec.Problems[0].Field != tc.field) {
			t.Errorf("%s: got %v, want a problem of %q", name, err, tc.field)
		}
	}
}

func TestS_000_18_FingerprintsOfXML(t *testing.T) {
	const one = `<feed><offer a="1" b="2"><sku>A</sku></offer><offer/></feed>`
	byRows := with(acmeXML, func(s *Spec) { s.Fingerprint = FingerprintRows })
	fingerprint := func(s Spec, payload, asked string) offer.Fingerprint {
		res, err := mustCompile(t, s).Map(t.Context(), &Request{Payload: []byte(payload), HasData: true, Canonicalization: asked})
		if err != nil {
			t.Fatal(err)
		}
		return res.Fingerprint
	}
	if got, want := fingerprint(acmeXML, one, ""), unreadable(t, &Request{Payload: []byte(one), HasData: true}); got != want {
		t.Errorf("got %v, want the bytes' %v", got, want)
	}
	if got := fingerprint(acmeXML, one, offer.CanonicalJSON); got.Canonicalization != offer.CanonicalBytes {
		t.Errorf("json/1 of XML: got %v, want bytes/1", got)
	}
	same := fingerprint(byRows, "<?xml version='1.0'?><feed>\n<offer></offer><offer b='2' a='1'>\n<sku>A</sku> </offer></feed>", "")
	if first := fingerprint(byRows, one, ""); first != same || first.Canonicalization != offer.CanonicalRows {
		t.Errorf("rows in another order and spelling: got %v, want %v", same, first)
	}
	large := func(end string) string {
		return "<feed><offer>" + strings.Repeat("x", maxXMLRow) + end + "</offer><offer/></feed>"
	}
	if a, b := fingerprint(byRows, large("a"), ""), fingerprint(byRows, large("b"), ""); a == b || a.Canonicalization != offer.CanonicalBytes {
		t.Errorf("a row that is not held has no form: got %v and %v, want bytes/1", a, b)
	}
}

// Under the limit of a mapper process, whose memory holds the payload itself twice.
func TestChildNamesWhatIsWrongWithHostileXML(t *testing.T) {
	if err := canLimitMemory(); err != nil {
		t.Skip(err)
	}
	spec := with(acmeXML, func(s *Spec) { s.Format.Doctype = DoctypeName })
	payloads := map[string][]byte{}
	for name, tc := range map[string]struct{ head, again, end, detail string }{
		"depth":            {"<feed>", "<a>", "", "payload_malformed"},
		"attributes":       {"<feed><offer ", "a%07d='' ", "/></feed>", "payload_malformed"},
		"a billion laughs": {"<!DOCTYPE feed [", "<!ENTITY a%07d '&b;&b;'>", "]><feed/>", "xml_entity_forbidden"},
		"a row":            {"<feed><offer>", "<a b%07d='1'/>", "</offer></feed>", "row_malformed"},
		"a text":           {"<feed><offer>", "x%07d", "</offer></feed>", "row_malformed"},
		"names":            {"<feed>", "<a%07d/>", "", "payload_malformed"},
	} {
		b := []byte(tc.head)
		for i := range 1_000_000 {
			if len(b) > defaultMaxBytes-64 {
				break
			}
			if strings.Contains(tc.again, "%") {
				b = fmt.Appendf(b, tc.again, i)
			} else {
				b = append(b, tc.again...)
			}
		}
		payloads[tc.detail+" "+name] = append(b, tc.end...)
	}
	var reqs []Request
	names := sortedKeys(payloads)
	for _, name := range names {
		reqs = append(reqs, Request{Spec: spec.Digest(), Payload: payloads[name], HasData: true},
			Request{Spec: spec.Digest(), Payload: acmeXMLPage(3), HasData: true})
	}
	results, err := newChild(t, Config{Processes: 1}).Map(t.Context(), map[offer.Digest]Spec{spec.Digest(): spec}, reqs)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		want, _, _ := strings.Cut(name, " ")
		if fault := results[2*i].Fault; fault == nil || fault.Detail != want {
			t.Errorf("%s: got %v", name, fault)
		}
		if neighbour := results[2*i+1]; len(neighbour.Rows) != 3 {
			t.Errorf("beside %s: got %v", name, neighbour.Fault)
		}
	}
}

func BenchmarkMapXML(b *testing.B) {
	p := mustCompile(b, acmeXML)
	r := Request{Payload: acmeXMLPage(100), HasData: true}
	b.SetBytes(int64(len(r.Payload)))
	for b.Loop() {
		if res, _ := p.Map(b.Context(), &r); len(res.Rows) != 100 {
			b.Fatal(res.Fault, res.Rejected)
		}
	}
	b.ReportMetric(float64(100*b.N)/b.Elapsed().Seconds(), "rows/s")
}
