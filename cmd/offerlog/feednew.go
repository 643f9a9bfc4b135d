package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/text/encoding/htmlindex"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/offer"
)

func (a *app) feedNewCommand() *cobra.Command {
	var name, output string
	cmd := &cobra.Command{
		Use:   "new SAMPLE",
		Short: "Draft a feed file from a sample of what the supplier sends",
		Long: "Looks at a payload (JSON, NDJSON, CSV, TSV or XML) and writes a feed file with guesses: format, delimiter, charset, marks of\n" +
			"numbers, and the fields whose names are common. What it cannot guess, or what does not read the sample, is left as a comment\n" +
			"with the next step. The draft reads the sample: offerlog feed test FILE SAMPLE shows how.",
		Example: "  offerlog feed new export.csv --name acme-eu --output acme-eu/feed.yaml\n  offerlog feed new export.xml",
		Args:    oneArg("SAMPLE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			payload, err := os.ReadFile(args[0])
			if err != nil {
				return usage("check the name of the file", "%w", err)
			}
			if name == "" {
				name = feedName(args[0])
			}
			text, err := draftFeed(cmd.Context(), filepath.Base(args[0]), payload, name, cmp.Or(a.settings.Tenant, "demo"))
			if err != nil {
				return err
			}
			if output == "" {
				_, err = io.WriteString(a.stdout, text)
				return err
			}
			f, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if err != nil {
				return usage("name a file that is not there yet", "%w", err)
			}
			_, err = f.WriteString(text)
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
			fmt.Fprintf(a.stderr, "next: read %s, then run offerlog feed test %s %s\n", output, output, args[0])
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the feed; default: that of the sample")
	cmd.Flags().StringVar(&output, "output", "", "file to write; default: standard output")
	return cmd
}

var notInNames = regexp.MustCompile(`[^a-z0-9._-]+`)

// feedName makes a feed's name of a file's.
func feedName(file string) string {
	base, _, _ := strings.Cut(filepath.Base(file), ".")
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(base), "-"), "-._")
	return cmp.Or(name[:min(len(name), 64)], "feed")
}

// commonNames are what suppliers call the fields of an observation, lower case and without marks, the best first.
var commonNames = []struct {
	field string
	names []string
}{
	{"source_record", []string{"sku", "supplieraid", "supplierpartid", "supplierpid", "supplierpartnumber", "articlenumber", "articleno", "artikelnummer", "artikelnr", "artnr", "itemnumber", "itemno", "itemid", "itemcode", "productid", "productcode", "recordid", "id", "code"}},
	{"item.mpn", []string{"mpn", "manufacturerpartnumber", "manufacturerpartid", "manufactureraid", "manufacturerpid", "mfrpartnumber", "mfgpartnumber", "mfpn", "partnumber", "partno", "herstellernummer", "herstellerartikelnummer"}},
	{"item.manufacturer", []string{"manufacturer", "manufacturername", "maker", "mfr", "mfg", "brand", "hersteller", "marke"}},
	{"item.packaging", []string{"packaging", "pack", "package", "verpackung"}},
	{"item.condition", []string{"condition", "cond", "zustand"}},
	{"item.gtin", []string{"gtin", "ean", "ean13", "gtin13", "gtin14", "upc", "barcode", "internationalpid"}},
	{"quantity", []string{"quantity", "qty", "stock", "stockqty", "stocklevel", "onhand", "qtyonhand", "available", "quantityavailable", "inventory", "instock", "bestand", "lagerbestand", "menge"}},
	{"quantity_basis.unit", []string{"unit", "uom", "unitofmeasure", "orderunit", "priceunit", "einheit", "mengeneinheit"}},
	{"quantity_basis.per", []string{"per", "pricequantity", "pricebasis", "pricebasisquantity", "preiseinheit", "priceper"}},
	{"price", []string{"price", "unitprice", "netprice", "priceamount", "money", "preis", "nettopreis", "einkaufspreis", "cost", "listprice"}},
	{"currency", []string{"currency", "cur", "currencycode", "pricecurrency", "moneycurrency", "waehrung", "währung"}},
	{"moq", []string{"moq", "minqty", "minorderqty", "minimumorderquantity", "quantitymin", "mindestmenge", "mindestbestellmenge"}},
	{"order_multiple", []string{"ordermultiple", "multiple", "packquantity", "packqty", "quantityinterval", "verpackungseinheit"}},
	{"lead_time_days", []string{"leadtimedays", "leaddays", "leadtime", "deliverytime", "lieferzeit"}},
	{"valid_from", []string{"validfrom", "validstart", "validstartdate", "gueltigab", "gültigab"}},
	{"valid_until", []string{"validuntil", "validto", "validend", "validenddate", "gueltigbis", "gültigbis"}},
	{"observed_at", []string{"observedat", "timestamp", "ts", "updatedat", "updated", "lastmodified", "modified"}},
}

// A draft is a feed file on its way.
type draft struct {
	sample, name, tenant string

	format  mapping.Format
	numbers mapping.Numbers
	columns []*column
	fields  map[string]string // of an observation: jq
	notes   map[string]string // to a field: what to look at
	left    map[string]string // fields that stay out: why, and what to do
}

// A column is one path with a value in the rows of a sample.
type column struct {
	path   string
	names  []string // by which it may be known, without marks
	values []string // that are not blank
}

// draftFeed returns the text of a feed file that reads the sample.
func draftFeed(ctx context.Context, sample string, payload []byte, name, tenant string) (string, error) {
	d := &draft{sample: sample, name: name, tenant: tenant, fields: map[string]string{}, notes: map[string]string{}, left: map[string]string{}}
	if err := d.guessFormat(payload); err != nil {
		return "", err
	}
	request := mapping.Request{Payload: payload, HasData: true}
	var err error
	if request.EventTime, err = offer.ParseTime(fixtureTime); err != nil {
		return "", err
	}
	reader, err := mapping.Compile(mapping.Spec{Format: d.format, Order: mapping.OrderObservedAt, Program: "."})
	if err != nil {
		return "", fmt.Errorf("draft a feed: %w", err)
	}
	rows, err := reader.Values(ctx, &request)
	switch {
	case err != nil:
		return "", &exitError{exitConflict, "unreadable_sample", "mend the sample, or write format by hand: the settings are in schemas/feed.v1.json", fmt.Errorf("read %s as %s: %w", sample, d.format.Kind, err)}
	case len(rows) == 0:
		return "", &exitError{exitConflict, "no_rows", "take a sample with a few rows", fmt.Errorf("%s has no rows", sample)}
	}
	for _, row := range rows {
		d.collect(row, ".", nil)
	}
	if err := d.guessFields(len(rows)); err != nil {
		return "", err
	}
	return d.settle(ctx, &request)
}

// guessFormat tells the payload's format by how it begins.
func (d *draft) guessFormat(payload []byte) error {
	text := bytes.TrimSpace(bytes.TrimPrefix(payload, []byte("\ufeff")))
	f := &d.format
	switch {
	case bytes.HasPrefix(payload, []byte("\x1f\x8b")):
		return usage("unpack it, draft the feed from what is in it, and set format.compression: gzip", "%s is packed with gzip", d.sample)
	case len(text) == 0:
		return usage("take a sample with a few rows", "%s is empty", d.sample)
	case text[0] == '<':
		f.Kind = mapping.KindXML
		var err error
		if f.Rows, err = xmlRows(text); err != nil {
			return usage("mend the sample", "%s is no XML: %w", d.sample, err)
		}
		if bytes.Contains(text[:min(len(text), 4096)], []byte("<!DOCTYPE")) {
			f.Doctype = mapping.DoctypeName
		}
		return nil
	case text[0] == '{' || text[0] == '[':
		f.Kind = mapping.KindJSON
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		var document any
		if err := dec.Decode(&document); err != nil {
			return usage("mend the sample", "%s is no JSON: %w", d.sample, err)
		}
		if dec.More() {
			f.Kind = mapping.KindNDJSON
		} else {
			f.Rows = jsonRows(document, ".", 3)
		}
	default:
		f.Kind = mapping.KindCSV
		header, _, _ := bytes.Cut(text, []byte("\n"))
		most := 0
		for _, mark := range []string{",", ";", "\t", "|"} {
			if n := bytes.Count(header, []byte(mark)); n > most {
				most, f.Delimiter = n, mark
			}
		}
	}
	if !utf8.Valid(payload) && !bytes.HasPrefix(payload, []byte("\xff\xfe")) && !bytes.HasPrefix(payload, []byte("\xfe\xff")) {
		f.Charset = "windows-1252"
	}
	return nil
}

// jsonRows is the path of the first list of objects in a document that is an object; "" where there is none.
func jsonRows(v any, path string, depth int) string {
	object, ok := v.(map[string]any)
	if !ok || depth == 0 {
		return ""
	}
	names := slices.Sorted(maps.Keys(object))
	for _, name := range names {
		if list, isList := object[name].([]any); isList && len(list) > 0 {
			if _, ofObjects := list[0].(map[string]any); ofObjects {
				return mapping.Member(path, name) + "[]"
			}
		}
	}
	for _, name := range names {
		if rows := jsonRows(object[name], mapping.Member(path, name), depth-1); rows != "" {
			return rows
		}
	}
	return ""
}

// xmlRows is the path of the elements that look like rows: those that come often and have the most kinds of children.
func xmlRows(text []byte) (string, error) {
	dec := xml.NewDecoder(bytes.NewReader(text))
	dec.CharsetReader = func(label string, in io.Reader) (io.Reader, error) {
		charset, err := htmlindex.Get(label)
		if err != nil {
			return nil, err
		}
		return charset.NewDecoder().Reader(in), nil
	}
	type kind struct {
		count    int
		children map[string]bool
	}
	kinds := map[string]*kind{}
	var open []string
	for {
		token, err := dec.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		switch token := token.(type) {
		case xml.StartElement:
			name := token.Name.Local
			if token.Name.Space != "" {
				name = token.Name.Space + ":" + name
			}
			if parent := kinds[strings.Join(open, "/")]; parent != nil {
				parent.children[name] = true
			}
			open = append(open, name)
			path := strings.Join(open, "/")
			if kinds[path] == nil {
				kinds[path] = &kind{children: map[string]bool{}}
			}
			kinds[path].count++
			for _, a := range token.Attr {
				kinds[path].children["@"+a.Name.Local] = true
			}
		case xml.EndElement:
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
		}
	}
	best, score := "", -1
	for _, path := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[path]
		points := len(k.children)
		if k.count > 1 {
			points += 1000 - 100*strings.Count(path, "/") // of those that come often the outermost
		}
		if len(k.children) > 1 && points > score {
			best, score = path, points
		}
	}
	if best == "" {
		return "", errors.New("no element of it looks like a row")
	}
	return best, nil
}

// collect takes the values of a row. Lists are for people.
func (d *draft) collect(value any, path string, names []string) {
	var text string
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			inner := names
			if name != "#text" {
				_, local, prefixed := strings.Cut(name, ":")
				if !prefixed {
					local = name
				}
				inner = append(slices.Clone(names), withoutMarks(local))
			}
			d.collect(v[name], mapping.Member(path, name), inner)
		}
		return
	case json.Number:
		text = v.String()
	case string:
		text = strings.TrimSpace(v)
	default:
		return
	}
	i := slices.IndexFunc(d.columns, func(c *column) bool { return c.path == path })
	if i < 0 {
		c := &column{path: path}
		if len(names) > 0 {
			c.names = append(c.names, names[len(names)-1])
		}
		if len(names) > 1 {
			c.names = append(c.names, names[len(names)-2]+names[len(names)-1])
		}
		i = len(d.columns)
		d.columns = append(d.columns, c)
	}
	if text != "" {
		d.columns[i].values = append(d.columns[i].values, text)
	}
}

func withoutMarks(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// guessFields finds columns by their names, and the marks of numbers by the values.
func (d *draft) guessFields(rows int) error {
	taken := map[*column]bool{}
	for _, common := range commonNames {
		for _, name := range common.names {
			for _, c := range d.columns {
				fits := common.field != "source_record" || c.identifies(rows)
				if d.fields[common.field] == "" && !taken[c] && slices.Contains(c.names, name) && len(c.values) > 0 && fits {
					d.fields[common.field], taken[c] = c.path, true
				}
			}
		}
		if d.fields[common.field] == "" {
			d.left[common.field] = "no column of a name that is common for it; write its path"
		}
	}
	if d.fields["source_record"] == "" {
		i := slices.IndexFunc(d.columns, func(c *column) bool { return c.identifies(rows) })
		if i < 0 {
			return &exitError{exitConflict, "no_record", "take a sample in which a column names each line, or write the feed file by hand: several columns can be joined",
				fmt.Errorf("no column of %s has another value in each row", d.sample)}
		}
		d.fields["source_record"] = d.columns[i].path
		d.notes["source_record"] = "a guess: the first column with another value in each row. Is it the supplier's own number of the line?"
		delete(d.left, "source_record")
	}
	if d.fields["item.mpn"] == "" && d.fields["item.gtin"] == "" {
		d.useRecordAsPart()
	}
	d.guessMarks()
	return nil
}

// identifies reports a column with another value in each row.
func (c *column) identifies(rows int) bool {
	different := map[string]bool{}
	for _, v := range c.values {
		different[v] = true
	}
	return len(different) == rows
}

var (
	commaIsDecimal = regexp.MustCompile(`^-?[0-9. \x{a0}\x{2009}\x{202f}]*[0-9],(?:[0-9]{1,2}|[0-9]{4,})$`)
	dotIsDecimal   = regexp.MustCompile(`^-?[0-9, \x{a0}\x{2009}\x{202f}]*[0-9]\.(?:[0-9]{1,2}|[0-9]{4,})$`)
	grouped        = regexp.MustCompile(`[0-9]([., \x{a0}\x{2009}\x{202f}])[0-9]{3}(?:[.,]|$)`)
)

func (d *draft) guessMarks() {
	comma, dot := false, false
	groups := map[string]bool{}
	for _, c := range d.columns {
		if c.path != d.fields["price"] && c.path != d.fields["quantity"] && c.path != d.fields["moq"] {
			continue
		}
		for _, v := range c.values {
			comma, dot = comma || commaIsDecimal.MatchString(v), dot || dotIsDecimal.MatchString(v)
			if m := grouped.FindStringSubmatch(v); m != nil {
				groups[m[1]] = true
			}
		}
	}
	switch {
	case comma && !dot:
		d.numbers.Decimal = ","
		if groups["."] {
			d.numbers.Group = "."
		}
	case dot && groups[","]:
		d.numbers.Group = ","
	}
	if d.numbers.Group == "" && (groups[" "] || groups["\u00a0"] || groups["\u2009"] || groups["\u202f"]) {
		d.numbers.Group = mapping.GroupSpace
	}
}

// settle reads the sample under the draft, and leaves out each field that rows are rejected for, until none is.
func (d *draft) settle(ctx context.Context, request *mapping.Request) (string, error) {
	for {
		text := d.String()
		spec, err := feed.ParseYAML(d.name+".yaml", []byte(text))
		if err != nil {
			return "", usage("choose another --name, or look at --tenant", "draft a feed: %w", err)
		}
		program, err := mapping.Compile(spec.Reading())
		if err != nil {
			return "", fmt.Errorf("draft a feed: %w", err)
		}
		res, err := program.Map(ctx, request)
		if err != nil {
			return "", err
		}
		rejected := res.Rejected
		if res.Fault != nil && len(rejected) == 0 {
			rejected = []offer.Fault{*res.Fault}
		}
		if !d.leaveOut(rejected, res.RowCount) {
			return text, nil
		}
	}
}

// tolerated is the part of the rows that may be rejected for a field, in hundredths: so few are the supplier's, and feed test
// names them.
const tolerated = 20

// leaveOut drops the field that more than a few rows are rejected for, and reports whether there was one.
func (d *draft) leaveOut(rejected []offer.Fault, rows int) bool {
	count := map[string]int{}
	for i := range rejected {
		f := &rejected[i]
		field := f.Path
		switch f.Detail {
		case "currency_missing":
			field = "price" // which needs one
		case "item_identity_missing":
			field = "item.gtin" // which is not valid everywhere
		}
		if count[field]++; count[field]*100 <= tolerated*rows || d.fields[field] == "" || field == "source_record" {
			continue
		}
		if field == "item.gtin" && d.fields["item.mpn"] == "" {
			d.useRecordAsPart()
			return true
		}
		d.left[field] = fmt.Sprintf("%s does not read the sample (row %d: %s)", d.fields[field], f.Row, strings.Map(printable, f.Message))
		delete(d.fields, field)
		return true
	}
	return false
}

// useRecordAsPart takes the supplier's number for the manufacturer's.
func (d *draft) useRecordAsPart() {
	d.fields["item.mpn"] = d.fields["source_record"]
	d.notes["item.mpn"] = "a guess: no column is called so. Where the supplier's number is not the manufacturer's, map that one"
	delete(d.left, "item.mpn")
}

// hints are next steps for fields that are left out.
var hints = map[string]string{
	"currency":       `a constant is written '"EUR"'`,
	"price":          "a price needs a currency",
	"observed_at":    "without it the event's time counts; times that are not RFC 3339 need time: {layout, zone}",
	"source_version": "where the supplier numbers its versions, map it and set order: version",
	"deleted":        "true where the line is gone",
	"price_breaks":   "such as '[.breaks[] | {min_qty: .qty, price: .price}]'",
	"item.revision":  "where the supplier tells revisions of a part",
}

// String is the feed file.
func (d *draft) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Drafted by offerlog feed new from %s. Every line is a guess: look at each. What begins with # could not be", quoted(d.sample))
	line("# guessed and says what to do. Next: offerlog feed test FILE SAMPLE, then offerlog feed apply FILE --dry-run.")
	line("feed: %s", quoted(d.name))
	line("tenant: %s # whose data it is", quoted(d.tenant))
	line("connector: %s # the program that fetches it; stays", quoted(d.name))
	line("account: ACC-1 # your login at the supplier; stays")
	line("accepts: {topics: [deliveries], source: %s} # the CloudEvents source of its events", quoted("/"+d.name))
	line("format:")
	line("  kind: %s", d.format.Kind)
	for _, s := range []struct{ name, value, note string }{
		{"rows", d.format.Rows, ""},
		{"delimiter", d.format.Delimiter, ""},
		{"charset", d.format.Charset, " # the bytes are no UTF-8; is it this one?"},
		{"doctype", d.format.Doctype, " # documents may name a DTD, which is never fetched"},
	} {
		if s.value != "" {
			line("  %s: %s%s", s.name, quoted(s.value), s.note)
		}
	}
	if d.numbers != (mapping.Numbers{}) {
		line("numbers:")
		if d.numbers.Decimal != "" {
			line("  decimal: %s", quoted(d.numbers.Decimal))
		}
		if d.numbers.Group != "" {
			line("  group: %s", quoted(d.numbers.Group))
		}
	}
	line("order: observed_at # the later claim is newer; version where the supplier numbers its versions")
	line("mapping:")
	line("  version: 1")
	line("  fields: # each a jq expression over one row")
	group := ""
	for _, field := range []string{"source_record", "source_version", "item.mpn", "item.manufacturer", "item.revision", "item.packaging", "item.condition", "item.gtin",
		"quantity", "quantity_basis.unit", "quantity_basis.per", "price", "currency", "price_breaks", "moq", "order_multiple", "lead_time_days",
		"stock", "valid_from", "valid_until", "observed_at", "deleted"} {
		name, indent := field, "    "
		if of, part, nested := strings.Cut(field, "."); nested {
			name, indent = part, "      "
			if of != group && d.any(of) {
				line("    %s:", of)
			}
			if group = of; !d.any(of) {
				name, indent = field, "    "
			}
		}
		why := d.left[field]
		if hint := hints[field]; hint != "" {
			why = strings.TrimPrefix(why+"; "+hint, "; ")
		}
		switch expression := d.fields[field]; {
		case expression != "" && d.notes[field] != "":
			line("%s%s: %s # %s", indent, name, quoted(expression), d.notes[field])
		case expression != "":
			line("%s%s: %s", indent, name, quoted(expression))
		default:
			line("%s# %s: # %s", indent, name, why)
		}
	}
	used := slices.Collect(maps.Values(d.fields))
	var unused []string
	for _, c := range d.columns {
		if !slices.Contains(used, c.path) {
			unused = append(unused, strings.Map(printable, c.path))
		}
	}
	if len(unused) > 0 {
		line("# Not used: %s", strings.Join(unused[:min(len(unused), 50)], " "))
	}
	return b.String()
}

// any reports a field of the group that is mapped.
func (d *draft) any(group string) bool {
	for field := range d.fields {
		if strings.HasPrefix(field, group+".") {
			return true
		}
	}
	return false
}

// quoted is a text in YAML.
func quoted(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return string(encode(s)) // which YAML reads, too
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}
