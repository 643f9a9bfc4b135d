package mapping

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/itchyny/gojq"
	"github.com/offerlog/offerlog/pkg/offer"
	"golang.org/x/text/unicode/norm"
)

// A normaliser brings one claim into normal form. Its first fault stays; what is read after it does not matter.
type normaliser struct {
	p     *Program
	claim claim
	fault *offer.Fault
}

// normalise makes a row of what the mapping said, or says what is wrong with it. Identity is looked at first: a row that
// names no record has nothing else worth telling.
func (p *Program) normalise(c claim, eventTime offer.Time) (offer.Row, *offer.Fault) {
	n := normaliser{p: p, claim: c}
	if !c.listed { // else Compile has looked at the names
		n.known(c.fields, "", observationFields)
	}
	var row offer.Row
	get := func(name string) any { return n.get(c.fields, name, name) }

	row.Record = n.text(get("source_record"), "source_record")
	if row.Record == "" {
		n.fail(offer.ReasonSchemaInvalid, "source_record_missing", "source_record", "the row names no record")
	}
	if p.spec.Order == OrderVersion {
		row.Version, row.HasVersion = n.version(get("source_version")), true
	}
	row.ObservedAt = n.time(get("observed_at"), eventTime)
	row.Content.Deleted = n.boolean(get("deleted"), "deleted")

	item, path := n.group("item", itemFields)
	part := func(name string) string { return n.text(n.get(item, path, name), "item."+name) }
	content := &row.Content
	content.Item = offer.Item{MPN: part("mpn"), Manufacturer: part("manufacturer"), Revision: part("revision"),
		Packaging: part("packaging"), Condition: part("condition")}
	if gtin := part("gtin"); gtin != "" {
		var ok bool
		if content.Item.GTIN, ok = gtin14(gtin); !ok {
			row.Warnings = append(row.Warnings, "gtin_invalid")
		}
	}
	if content.Item.MPN == "" && content.Item.GTIN == "" && !content.Deleted {
		n.fail(offer.ReasonIdentityUnresolved, "item_identity_missing", "item", "neither item.mpn nor a valid item.gtin is given")
	}

	content.Quantity = n.number(get("quantity"), "quantity", "quantity_invalid")
	n.basis(content)

	content.Currency = n.text(get("currency"), "currency")
	minor, known := minorUnits[content.Currency]
	if content.Currency != "" && !known {
		n.fail(offer.ReasonSchemaInvalid, "currency_unknown", "currency", "%q is no ISO 4217 code, such as EUR", shorten(content.Currency))
	}
	content.Price = n.amount(get("price"), "price", minor)
	content.PriceBreaks = n.breaks(get("price_breaks"), minor)
	if content.Currency == "" && !content.Deleted && (!content.Price.IsZero() || len(content.PriceBreaks) > 0) {
		n.fail(offer.ReasonSchemaInvalid, "currency_missing", "currency", "a price is given without its currency")
	}

	content.MOQ = n.positive(get("moq"), "moq")
	content.OrderMultiple = n.positive(get("order_multiple"), "order_multiple")
	content.LeadTimeDays = n.number(get("lead_time_days"), "lead_time_days", "number_invalid")
	if content.LeadTimeDays.Sign() < 0 || !content.LeadTimeDays.Whole() {
		n.fail(offer.ReasonSchemaInvalid, "number_invalid", "lead_time_days", "%s is no whole number of days from 0 up", content.LeadTimeDays)
	}
	content.Stock = n.stock(get("stock"))
	content.ValidFrom = n.instant(get("valid_from"), "valid_from")
	content.ValidUntil = n.instant(get("valid_until"), "valid_until")
	if !content.ValidFrom.IsZero() && !content.ValidUntil.IsZero() && content.ValidUntil.Nanos <= content.ValidFrom.Nanos {
		n.fail(offer.ReasonSchemaInvalid, "validity_invalid", "valid_until", "%s is not after valid_from, %s", content.ValidUntil, content.ValidFrom)
	}
	return row, n.fault
}

func (n *normaliser) fail(reason, detail, path, format string, args ...any) {
	if n.fault == nil {
		n.fault = rowFault(reason, detail, path, format, args...)
	}
}

// known refuses what is no field, since a misspelt one would be lost without a word.
func (n *normaliser) known(fields map[string]any, path string, names []string) {
	for name := range fields {
		if !slices.Contains(names, name) {
			n.fail(offer.ReasonMappingError, "", path, "%q is not a field of an observation; want %s", shorten(name), strings.Join(names, ", "))
		}
	}
}

func (n *normaliser) get(fields map[string]any, path, name string) any {
	v, err := n.claim.get(fields, name)
	if err != nil {
		if path != name {
			name = path + "." + name
		}
		n.fail(offer.ReasonMappingError, "", name, "%v", err)
	}
	return v
}

// group returns the fields of item or quantity_basis, however the mapping gave them: field by field, or as one value.
func (n *normaliser) group(name string, names []string) (fields map[string]any, path string) {
	v := n.claim.fields[name]
	if list, whole := v.([]any); whole && n.claim.listed {
		if v = n.get(n.claim.fields, name, name); len(list) == 1 {
			v = n.listed(v)
		}
	}
	if v == nil {
		return nil, name
	}
	fields, ok := v.(map[string]any)
	if !ok {
		n.fail(offer.ReasonMappingError, "", name, "is %s; want an object with %s", gojq.TypeOf(v), strings.Join(names, ", "))
		return nil, name
	}
	n.known(fields, name, names)
	return fields, name
}

// listed gives the members of an object that one expression made the shape of those that have an expression each.
func (n *normaliser) listed(v any) any {
	fields, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := make(map[string]any, len(fields))
	for name, value := range fields {
		out[name] = []any{value}
	}
	return out
}

// text reads an identity text: outer white space removed, NFC, at most maxTextBytes; a number keeps its literal. "" is
// absent. With that bound and that of the price breaks an observation is far below the largest record that Kafka takes.
func (n *normaliser) text(v any, path string) string {
	var s string
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		s = v
	case json.Number:
		s = string(v)
	case int:
		s = strconv.Itoa(v)
	case *big.Int:
		s = v.String()
	case float64:
		n.fail(offer.ReasonMappingError, "", path, "%v", errFloat)
	default:
		n.fail(offer.ReasonMappingError, "", path, "is %s; want a text", gojq.TypeOf(v))
	}
	s = trim(s)
	switch {
	case n.p.nullTokens[s]:
		return ""
	case len(s) > maxTextBytes:
		n.tooLong(len(s), path)
		return ""
	case plainASCII(s):
		return s
	case !utf8.ValidString(s):
		n.fail(offer.ReasonInvalidText, "text_invalid_unicode", path, "is no UTF-8")
		return ""
	}
	for _, r := range s {
		if unicode.IsControl(r) && r != '\t' && r != '\r' && r != '\n' {
			n.fail(offer.ReasonInvalidText, "text_control_char", path, "holds the control character U+%04X", r)
			return ""
		}
	}
	if s = norm.NFC.String(s); len(s) > maxTextBytes { // some characters have a longer form only
		n.tooLong(len(s), path)
		return ""
	}
	return s
}

func (n *normaliser) tooLong(bytes int, path string) {
	n.fail(offer.ReasonSchemaInvalid, "row_malformed", path, "%d bytes; a text has at most %d", bytes, maxTextBytes)
}

func plainASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// trim removes outer white space, and what is invisible as it.
func trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || r == '\u200b' || r == '\u2060' || r == '\ufeff'
	})
}

func (n *normaliser) boolean(v any, path string) bool {
	b, ok := v.(bool)
	if !ok && v != nil {
		n.fail(offer.ReasonMappingError, "", path, "is %s; want true or false, such as .del == \"1\"", gojq.TypeOf(v))
	}
	return b
}

// number reads a decimal; detail is what a text that is none is called.
func (n *normaliser) number(v any, path, detail string) offer.Decimal {
	d, err := n.p.decimal(v)
	switch {
	case err == nil:
	case errors.Is(err, errFloat):
		n.fail(offer.ReasonMappingError, "", path, "%v", err)
	case errors.Is(err, offer.ErrOutOfRange):
		n.fail(offer.ReasonNumberOutOfRange, "", path, "%v: at most %d digits, %d of them after the point", err, offer.MaxDigits, offer.MaxScale)
	default:
		n.fail(offer.ReasonSchemaInvalid, detail, path, "%v", err)
	}
	return d
}

// positive reads a decimal above 0.
func (n *normaliser) positive(v any, path string) offer.Decimal {
	d := n.number(v, path, "number_invalid")
	if !d.IsZero() && d.Sign() <= 0 {
		n.fail(offer.ReasonSchemaInvalid, "number_invalid", path, "%s is not above 0", d)
	}
	return d
}

// amount reads a price; minor is the number of places of its currency's minor unit.
func (n *normaliser) amount(v any, path string, minor int) offer.Decimal {
	d := n.number(v, path, "number_invalid")
	if d.Sign() < 0 {
		n.fail(offer.ReasonSchemaInvalid, "price_negative", path, "%s is below 0", d)
	}
	if d.IsZero() || n.p.spec.Numbers.Amounts != AmountsMinor {
		return d
	}
	if !d.Whole() {
		n.fail(offer.ReasonSchemaInvalid, "number_invalid", path, "%s is no whole number of the currency's minor unit", d)
		return d
	}
	d, err := offer.ParseDecimal(fmt.Sprintf("%se-%d", d, minor))
	if err != nil {
		n.fail(offer.ReasonNumberOutOfRange, "", path, "%v", err)
	}
	return d
}

// basis is for how much of which unit a price holds: 1 where nothing is said.
func (n *normaliser) basis(content *offer.Content) {
	fields, path := n.group("quantity_basis", basisFields)
	basis := offer.Basis{
		Unit: n.text(n.get(fields, path, "unit"), "quantity_basis.unit"),
		Per:  n.positive(n.get(fields, path, "per"), "quantity_basis.per"),
	}
	if basis.Unit != "" && len(n.p.units) > 0 && !n.p.units[basis.Unit] {
		n.fail(offer.ReasonSchemaInvalid, "unit_unknown", "quantity_basis.unit", "%q is not among the feed's units", shorten(basis.Unit))
	}
	switch {
	case !basis.Per.IsZero():
	case basis.Unit != "" || !content.Deleted:
		basis.Per = one
	}
	content.Basis = basis
}

var one = offer.MustDecimal("1")

// breaks reads prices from quantities on, by rising quantity.
func (n *normaliser) breaks(v any, minor int) []offer.PriceBreak {
	const path, detail = "price_breaks", "price_breaks_invalid"
	var breaks []offer.PriceBreak
	for at, fields := range n.objects(v, path, detail, "prices", maxPriceBreaks, breakFields) {
		b := offer.PriceBreak{
			MinQty: n.number(fields["min_qty"], at+".min_qty", "number_invalid"),
			Price:  n.amount(fields["price"], at+".price", minor),
		}
		switch {
		case b.MinQty.IsZero() || b.Price.IsZero():
			n.fail(offer.ReasonSchemaInvalid, detail, at, "needs both min_qty and price")
		case b.MinQty.Sign() <= 0:
			n.fail(offer.ReasonSchemaInvalid, detail, at+".min_qty", "%s is not above 0", b.MinQty)
		}
		breaks = append(breaks, b)
	}
	slices.SortStableFunc(breaks, func(a, b offer.PriceBreak) int { return a.MinQty.Compare(b.MinQty) })
	for i := 1; i < len(breaks); i++ {
		if breaks[i].MinQty == breaks[i-1].MinQty {
			n.fail(offer.ReasonSchemaInvalid, detail, path, "the quantity %s has two prices", breaks[i].MinQty)
		}
	}
	return breaks
}

// objects yields those of a list, which has at most so many, each with its path and no other fields than these. Behind one that is
// none it yields nothing.
func (n *normaliser) objects(v any, path, detail, what string, most int, fields []string) iter.Seq2[string, map[string]any] {
	return func(yield func(at string, fields map[string]any) bool) {
		list, ok := v.([]any)
		switch {
		case v == nil:
			return
		case !ok:
			n.fail(offer.ReasonSchemaInvalid, detail, path, "is %s; want a list of {%s}", gojq.TypeOf(v), strings.Join(fields, ", "))
			return
		case len(list) > most:
			n.fail(offer.ReasonSchemaInvalid, detail, path, "%d %s; a row has at most %d", len(list), what, most)
			return
		}
		for i, e := range list {
			at := path + "[" + strconv.Itoa(i) + "]"
			object, ok := e.(map[string]any)
			if !ok {
				n.fail(offer.ReasonSchemaInvalid, detail, at, "is %s; want {%s}", gojq.TypeOf(e), strings.Join(fields, ", "))
				return
			}
			if n.known(object, at, fields); !yield(at, object) {
				return
			}
		}
	}
}

// stock reads quantities at places, by the names of the places.
func (n *normaliser) stock(v any) []offer.LocationStock {
	const path, detail = "stock", "stock_invalid"
	var stock []offer.LocationStock
	for at, fields := range n.objects(v, path, detail, "locations", maxLocations, stockFields) {
		s := offer.LocationStock{
			Location: n.text(fields["location"], at+".location"),
			Quantity: n.number(fields["quantity"], at+".quantity", "quantity_invalid"),
		}
		switch {
		case s.Location == "" || s.Quantity.IsZero():
			n.fail(offer.ReasonSchemaInvalid, detail, at, "needs both location and quantity")
		case len(s.Location) > maxLocationBytes:
			n.fail(offer.ReasonSchemaInvalid, detail, at+".location", "%d bytes; the name of a location has at most %d", len(s.Location), maxLocationBytes)
		}
		stock = append(stock, s)
	}
	slices.SortStableFunc(stock, func(a, b offer.LocationStock) int { return strings.Compare(a.Location, b.Location) })
	for i := 1; i < len(stock); i++ {
		if stock[i].Location == stock[i-1].Location {
			n.fail(offer.ReasonSchemaInvalid, detail, path, "the location %q has two quantities", shorten(stock[i].Location))
		}
	}
	return stock
}

// version reads the source's version: an integer from 0 to 2^63-2, so that there is always a next one.
func (n *normaliser) version(v any) int64 {
	const path = "source_version"
	if s, ok := v.(string); ok {
		if v = json.Number(trim(s)); n.p.nullTokens[trim(s)] {
			v = nil
		}
	}
	if v == nil {
		n.fail(offer.ReasonSchemaInvalid, "version_missing", path, "the row has no version, and the feed's order is version")
		return 0
	}
	d, err := n.p.decimal(v)
	switch {
	case errors.Is(err, errFloat):
		n.fail(offer.ReasonMappingError, "", path, "%v", err)
		return 0
	case errors.Is(err, offer.ErrOutOfRange):
		n.fail(offer.ReasonVersionOutOfRange, "", path, "%v: want 0 to 2^63-2", err)
		return 0
	case err != nil || !d.Whole():
		n.fail(offer.ReasonSchemaInvalid, "version_invalid", path, "%s is no integer", shorten(fmt.Sprint(v)))
		return 0
	}
	version, err := strconv.ParseInt(d.String(), 10, 64)
	if err != nil || version < 0 || version == math.MaxInt64 {
		n.fail(offer.ReasonVersionOutOfRange, "", path, "%s is not within 0 to 2^63-2", d)
	}
	return version
}

// time reads observed_at, or takes the event's.
func (n *normaliser) time(v any, eventTime offer.Time) offer.Time {
	const path = "observed_at"
	t := n.instant(v, path)
	if !t.IsZero() || n.fault != nil {
		return t
	}
	if eventTime.IsZero() {
		n.fail(offer.ReasonSchemaInvalid, "observed_at_missing", path, "neither the row nor the event says when the claim held")
	}
	if len(eventTime.Text) > maxTextBytes { // by the digits of its fraction
		n.tooLong(len(eventTime.Text), path)
	}
	return eventTime
}

// instant reads a time as the feed writes it.
func (n *normaliser) instant(v any, path string) offer.Time {
	text := n.text(v, path)
	if text == "" {
		return offer.Time{}
	}
	read := offer.ParseTime
	if n.p.clock != nil {
		read = n.p.clock.parse
	}
	t, err := read(text)
	switch {
	case errors.Is(err, errAmbiguous):
		n.fail(offer.ReasonSchemaInvalid, "time_ambiguous", path, "%v", err)
	case err != nil:
		n.fail(offer.ReasonSchemaInvalid, "time_invalid", path, "%v", err)
	}
	return t
}

var errAmbiguous = errors.New("two instants have this wall time, one before and one after the clocks go back")

// parse reads a wall time. One that the zone shows twice is ambiguous, one that it never shows is invalid: neither is
// guessed.
func (c *clock) parse(text string) (offer.Time, error) {
	bad := func(why string) (offer.Time, error) {
		return offer.Time{}, fmt.Errorf("%w: %q %s", offer.ErrNotATime, shorten(text), why)
	}
	value := map[byte]int{}
	rest := text
	for _, part := range c.parts {
		if part.unit == 0 {
			after, ok := strings.CutPrefix(rest, part.literal)
			if !ok {
				return bad("is not as the feed's time.layout says")
			}
			rest = after
			continue
		}
		if len(rest) < part.width {
			return bad("is not as the feed's time.layout says")
		}
		for _, c := range []byte(rest[:part.width]) {
			if c < '0' || c > '9' {
				return bad("is not as the feed's time.layout says")
			}
			value[part.unit] = 10*value[part.unit] + int(c-'0')
		}
		rest = rest[part.width:]
	}
	if rest != "" {
		return bad("goes on after what the feed's time.layout says")
	}
	wall := func(zone *time.Location) time.Time {
		return time.Date(value['Y'], time.Month(value['M']), value['D'], value['h'], value['m'], value['s'], 0, zone)
	}
	t, utc := wall(c.zone), wall(time.UTC)
	if utc.Year() != value['Y'] || int(utc.Month()) != value['M'] || utc.Day() != value['D'] || utc.Hour() != value['h'] || utc.Minute() != value['m'] || utc.Second() != value['s'] {
		return bad("is no date")
	}
	if _, offset := t.Zone(); !t.Equal(utc.Add(-time.Duration(offset) * time.Second)) {
		return bad("is skipped when the clocks go forward in " + c.zone.String())
	}
	start, end := t.ZoneBounds()
	if !start.IsZero() {
		before := start.Add(-time.Second)
		if _, offset := before.Zone(); utc.Add(-time.Duration(offset) * time.Second).Before(start) {
			return offer.Time{}, fmt.Errorf("%q: %w in %s", text, errAmbiguous, c.zone)
		}
	}
	if !end.IsZero() {
		if _, offset := end.Zone(); !utc.Add(-time.Duration(offset) * time.Second).Before(end) {
			return offer.Time{}, fmt.Errorf("%q: %w in %s", text, errAmbiguous, c.zone)
		}
	}
	return offer.ParseTime(t.UTC().Format(time.RFC3339))
}

// gtin14 checks a GTIN of 8, 12, 13 or 14 digits and writes it with 14.
func gtin14(s string) (string, bool) {
	switch len(s) {
	case 8, 12, 13, 14:
	default:
		return "", false
	}
	s = strings.Repeat("0", 14-len(s)) + s
	sum := 0
	for i := range len(s) {
		d := int(s[i]) - '0'
		if d < 0 || d > 9 {
			return "", false
		}
		sum += d * (3 - 2*(i%2)) // weights 3 1 3 1 ... and 1 for the check digit
	}
	if sum%10 != 0 || s == strings.Repeat("0", 14) {
		return "", false
	}
	return s, true
}
