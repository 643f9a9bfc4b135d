package offer

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"strconv"
)

// An Item says what is offered, apart from who offers it and under which record. Two offers are of one item where their
// Items are equal (==): each part counts as it was claimed, so the same part number on a reel and as cut tape is two items,
// and what a source leaves out equals nothing that another one gives. An item compares offers; it never merges them.
type Item struct {
	MPN          string `json:"mpn,omitempty"`
	Manufacturer string `json:"manufacturer,omitempty"`
	Revision     string `json:"revision,omitempty"`
	Packaging    string `json:"packaging,omitempty"`
	Condition    string `json:"condition,omitempty"`
	GTIN         string `json:"gtin,omitempty"` // 14 digits
}

// Fields are the parts of the item in the order of its members, "" for what is absent.
func (i Item) Fields() []string {
	return []string{i.MPN, i.Manufacturer, i.Revision, i.Packaging, i.Condition, i.GTIN}
}

// ItemOf is the item of Fields; of nil the zero item.
func ItemOf(fields []string) Item {
	if len(fields) != 6 {
		return Item{}
	}
	return Item{MPN: fields[0], Manufacturer: fields[1], Revision: fields[2], Packaging: fields[3], Condition: fields[4], GTIN: fields[5]}
}

// Change gives the item the parts that change has.
func (i *Item) Change(change Item) {
	have := i.Fields()
	for n, part := range change.Fields() {
		have[n] = cmp.Or(part, have[n])
	}
	*i = ItemOf(have)
}

// Resolved reports whether the item names one product of one manufacturer: by its GTIN, or by part number and manufacturer.
func (i Item) Resolved() bool { return i.GTIN != "" || i.MPN != "" && i.Manufacturer != "" }

// A Basis says what one price is for: Per of Unit.
type Basis struct {
	Unit string  `json:"unit,omitempty"`
	Per  Decimal `json:"per,omitzero"`
}

// A PriceBreak is the price from a quantity on.
type PriceBreak struct {
	MinQty Decimal `json:"min_qty"`
	Price  Decimal `json:"price"`
}

// A LocationStock is the part of the quantity that is at one place, as claimed: nothing says that parts add up.
type LocationStock struct {
	Location string  `json:"location"`
	Quantity Decimal `json:"quantity"` // also negative
}

// Content is what was claimed, without when and in which version: two claims with equal content say the same thing.
type Content struct {
	Item          Item            `json:"item,omitzero"`
	Quantity      Decimal         `json:"quantity,omitzero"` // as claimed, also negative
	Basis         Basis           `json:"quantity_basis,omitzero"`
	Price         Decimal         `json:"price,omitzero"` // for Basis.Per of Basis.Unit, never divided
	Currency      string          `json:"currency,omitempty"`
	PriceBreaks   []PriceBreak    `json:"price_breaks,omitempty"` // by rising quantity
	MOQ           Decimal         `json:"moq,omitzero"`
	OrderMultiple Decimal         `json:"order_multiple,omitzero"` // what an order's quantity must be a multiple of
	LeadTimeDays  Decimal         `json:"lead_time_days,omitzero"`
	Stock         []LocationStock `json:"stock,omitempty"`      // by location
	ValidFrom     Time            `json:"valid_from,omitzero"`  // the claim holds from then on,
	ValidUntil    Time            `json:"valid_until,omitzero"` // and no more from then on
	Deleted       bool            `json:"deleted"`
}

// Ended reports whether the content's validity has ended by then, in nanoseconds since 1970 UTC.
func (c *Content) Ended(by int64) bool { return !c.ValidUntil.IsZero() && c.ValidUntil.Nanos <= by }

// Digest covers every field, each with its name and length, so that no two contents share a form.
func (c *Content) Digest() Digest {
	b := make([]byte, 0, 256)
	put := func(name, value string) {
		if value == "" {
			return // absent and empty are equal
		}
		b = append(b, name...)
		b = append(b, '=')
		b = strconv.AppendInt(b, int64(len(value)), 10)
		b = append(b, ':')
		b = append(b, value...)
		b = append(b, '\n')
	}
	put("mpn", c.Item.MPN)
	put("manufacturer", c.Item.Manufacturer)
	put("revision", c.Item.Revision)
	put("packaging", c.Item.Packaging)
	put("condition", c.Item.Condition)
	put("gtin", c.Item.GTIN)
	put("quantity", c.Quantity.String())
	put("unit", c.Basis.Unit)
	put("per", c.Basis.Per.String())
	put("price", c.Price.String())
	put("currency", c.Currency)
	for _, p := range c.PriceBreaks {
		put("price_break", p.MinQty.String()+" "+p.Price.String()) // as one, so that a list says how long it is
	}
	put("moq", c.MOQ.String())
	put("order_multiple", c.OrderMultiple.String())
	put("lead_time_days", c.LeadTimeDays.String())
	for _, s := range c.Stock {
		put("stock", s.Quantity.String()+" "+s.Location) // no quantity holds a blank
	}
	put("valid_from", c.ValidFrom.Text)
	put("valid_until", c.ValidUntil.Text)
	if c.Deleted {
		put("deleted", "true")
	}
	return sha256.Sum256(b)
}

// A Row is one valid row of a delivery in normal form: what it claims about one record.
type Row struct {
	Number     int    // in the delivery, from 1
	Record     string // the supplier's own identifier
	Version    int64  // the source's version; meaningful where HasVersion
	HasVersion bool
	ObservedAt Time
	Content    Content
	Warnings   []string // such as gtin_invalid
}

// A Rank orders the observations of one offer; the highest is the one shown. Arrival is no part of it.
type Rank struct {
	Strong  bool  // the source gave a version; strong claims rank before weak ones
	Order   int64 // the source version, or observed_at in nanoseconds
	Mapping int   // mapping version: of two readings of one claim the later one
	Content Digest
	ID      ObservationID
}

// Compare is the one definition of "newer", and total: the SQL of package view agrees with it, and a test holds the two
// together. The members after Order only settle ties, the same way whatever arrived first.
func (r Rank) Compare(s Rank) int {
	return cmp.Or(
		r.CompareOrder(s),
		cmp.Compare(r.Mapping, s.Mapping),
		bytes.Compare(r.Content[:], s.Content[:]),
		bytes.Compare(r.ID[:], s.ID[:]),
	)
}

// CompareOrder compares strength and order alone: equal means that the sources do not say which is newer.
func (r Rank) CompareOrder(s Rank) int {
	if r.Strong != s.Strong {
		if r.Strong {
			return 1
		}
		return -1
	}
	return cmp.Compare(r.Order, s.Order)
}
