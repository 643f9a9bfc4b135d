package offer

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestKeyText(t *testing.T) {
	for want, key := range map[string]Key{
		"t1/ACC-1/A-1":                   {"t1", "ACC-1", "A-1"},
		"t1/ACC-1/a%2520b":               {"t1", "ACC-1", "a%20b"},
		"t1/a%2Fb/c%2Fd":                 {"t1", "a/b", "c/d"},
		"//":                             {},
		"t1/ACC-1/Gr%C3%B6%C3%9Fe":       {"t1", "ACC-1", "Größe"},
		"t%00/%FF/-._~":                  {"t\x00", "\xff", "-._~"},
		"t1/ACC-1/%2B%20%3A%3B%22%27%25": {"t1", "ACC-1", `+ :;"'%`},
	} {
		if got := key.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got, err := ParseKey(want); err != nil || got != key {
			t.Errorf("%s: got %q, %v; want %q", want, got, err, key)
		}
	}
	for _, text := range []string{"", "a", "a/b", "a/b/c/d", "a/b/%", "a/b/%4", "a/b/%zz"} {
		if got, err := ParseKey(text); err == nil {
			t.Errorf("%q: got %q, want an error", text, got)
		}
	}
}

func TestKeysDifferInTextAndIDAsTheyDo(t *testing.T) {
	part := rapid.StringMatching(`[a/%2F]{0,3}`)
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) Key {
			return Key{part.Draw(t, label+" tenant"), part.Draw(t, label+" account"), part.Draw(t, label+" record")}
		}
		a, b := draw("a"), draw("b")
		if same := a == b; (a.String() == b.String()) != same || (a.ID() == b.ID()) != same {
			t.Errorf("%q and %q: texts %s and %s, ids %s and %s", a, b, a, b, a.ID(), b.ID())
		}
		if got, err := ParseKey(a.String()); err != nil || got != a {
			t.Errorf("%q becomes %q: %v", a, got, err)
		}
		r := ReplayKey{Source: Source{a.Tenant, a.Account, a.Record}, EventSource: b.Tenant, EventID: b.Account}
		s := ReplayKey{Source: Source{b.Tenant, b.Account, b.Record}, EventSource: a.Tenant, EventID: a.Account}
		if same := r == s; (r.String() == s.String()) != same || (r.ID() == s.ID()) != same {
			t.Errorf("%q and %q do not differ as their ids", r, s)
		}
	})
}

func TestWhatADeliveryDeclaresIsTakenForNothingElse(t *testing.T) {
	text := rapid.StringMatching(`[a=&:%/]{1,3}`)
	names := rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "fallback"}), text)
	rapid.Check(t, func(t *rapid.T) {
		values, others := names.Draw(t, "values"), names.Draw(t, "others")
		keys := map[string]ReplayKey{
			"id":       {EventID: text.Draw(t, "id")},
			"fields":   {Declared: DeclareFields(values)},
			"others":   {Declared: DeclareFields(others)},
			"fallback": {Declared: DeclareFallback(values)},
			"weak":     {Declared: DeclareFallback(others)},
		}
		same := func(a, b string) bool {
			return maps.Equal(values, others) && (a+b == "fieldsothers" || a+b == "othersfields" || a+b == "fallbackweak" || a+b == "weakfallback")
		}
		for a, k := range keys {
			for b, l := range keys {
				if a != b && k.Declared+k.EventID != "" && ((k.ID() == l.ID()) != same(a, b) || (k.String() == l.String()) != same(a, b)) {
					t.Errorf("%s %s and %s %s: ids %s and %s", a, k, b, l, k.ID(), l.ID())
				}
			}
			if k.Weak() != (a == "fallback" || a == "weak") {
				t.Errorf("%s %s: got weak %t", a, k, k.Weak())
			}
		}
	})
}

func TestDerivedIDsAreFixed(t *testing.T) {
	id := Key{"t1", "ACC-1", "A-1"}.ID()
	if text := id.String(); text[14] != '8' || !strings.ContainsRune("89ab", rune(text[19])) {
		t.Errorf("%s is no version 8 UUID", text)
	}
	if id.Observe("7", 1) == id.Observe("71", 1) || id.Observe("7", 1) == id.Observe("7", 11) || id.Observe("7", 11) == id.Observe("71", 1) {
		t.Error("observations of different revisions or mappings share an id")
	}
	if Derive("offer", "a", "b") == Derive("delivery", "a", "b") || Derive("offer", "a", "b") == Derive("offer", "ab") {
		t.Error("ids of different things are equal")
	}
}

func TestDigestText(t *testing.T) {
	d := Sum([]byte("abc"))
	if got := d.String(); got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("got %s", got)
	}
	text, err := d.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var again Digest
	if err := again.UnmarshalText(text); err != nil || again != d {
		t.Errorf("got %s and error %v, want %s again", again, err, d)
	}
	for _, bad := range []string{"", "ba78", d.String() + "00", "zz" + d.String()[2:]} {
		if again.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}

func TestS_000_35_the_item_tells_apart_what_two_offers_are_of(t *testing.T) {
	reel := Item{MPN: "AX-440-R2", Manufacturer: "Axon", Packaging: "reel", Condition: "new"}
	cut := reel
	cut.Packaging = "cut"
	here, there := Key{"t1", "ACC-1", "AX-440-R2"}, Key{"t1", "ACC-2", "4711"}
	for what, c := range map[string]struct {
		a, b      Item
		keys      [2]Key
		sameItem  bool
		sameOffer bool
	}{
		"on a reel and cut from it, two lines of a range": {reel, cut, [2]Key{here, {"t1", "ACC-1", "AX-440-R2-CT"}}, false, false},
		"one line, cut from the reel today":               {reel, cut, [2]Key{here, here}, false, true},
		"two suppliers of one thing":                      {reel, reel, [2]Key{here, there}, true, false},
		"a part that is left out is no wildcard":          {reel, Item{MPN: "AX-440-R2", Manufacturer: "Axon", Packaging: "reel"}, [2]Key{here, there}, false, false},
	} {
		if got := c.a == c.b; got != c.sameItem {
			t.Errorf("%s: got the same item %t, want %t", what, got, c.sameItem)
		}
		if got := c.keys[0].ID() == c.keys[1].ID(); got != c.sameOffer {
			t.Errorf("%s: got the same offer %t, want %t", what, got, c.sameOffer)
		}
		a, b := Content{Item: c.a}, Content{Item: c.b}
		if got := a.Digest() == b.Digest(); got != c.sameItem {
			t.Errorf("%s: got the same content %t, want %t", what, got, c.sameItem)
		}
	}
}

// anyContent has few values for each field, so that two draws often agree.
func anyContent(t *rapid.T, label string) Content {
	text := rapid.SampledFrom([]string{"", "a", "b", "a\n3:b"})
	number := rapid.SampledFrom([]Decimal{{}, MustDecimal("0"), MustDecimal("1"), MustDecimal("10")})
	draw := func(name string) string { return text.Draw(t, label+name) }
	count := func(name string) Decimal { return number.Draw(t, label+name) }
	c := Content{
		Item:     Item{MPN: draw("mpn"), Manufacturer: draw("manufacturer"), Revision: draw("revision"), Packaging: draw("packaging"), Condition: draw("condition"), GTIN: draw("gtin")},
		Quantity: count("quantity"), Basis: Basis{Unit: draw("unit"), Per: count("per")}, Price: count("price"), Currency: draw("currency"),
		MOQ: count("moq"), OrderMultiple: count("multiple"), LeadTimeDays: count("lead"), ValidFrom: Time{Text: draw("from")}, ValidUntil: Time{Text: draw("until")}, Deleted: rapid.Bool().Draw(t, label+"deleted"),
	}
	for i := range rapid.IntRange(0, 2).Draw(t, label+"breaks") {
		c.PriceBreaks = append(c.PriceBreaks, PriceBreak{MustDecimal(strconv.Itoa(i + 1)), count("break")}) // each has a quantity
	}
	for range rapid.IntRange(0, 2).Draw(t, label+"stock") {
		c.Stock = append(c.Stock, LocationStock{"a" + draw("location"), MustDecimal(rapid.SampledFrom([]string{"0", "1"}).Draw(t, label+"there"))})
	}
	return c
}

func TestContentsDifferInDigestAsTheyDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyContent(t, "a ")
		b := a
		b.PriceBreaks, b.Stock = slices.Clone(a.PriceBreaks), slices.Clone(a.Stock)
		if a.Digest() != b.Digest() {
			t.Error("equal contents differ in digest")
		}
		other := anyContent(t, "b ")
		// One field changes: the nearest that two contents can be without being equal.
		fields := []func(){
			func() { b.Item.MPN = other.Item.MPN }, func() { b.Item.Manufacturer = other.Item.Manufacturer }, func() { b.Item.Revision = other.Item.Revision },
			func() { b.Item.Packaging = other.Item.Packaging }, func() { b.Item.Condition = other.Item.Condition }, func() { b.Item.GTIN = other.Item.GTIN },
			func() { b.Quantity = other.Quantity }, func() { b.Basis.Unit = other.Basis.Unit }, func() { b.Basis.Per = other.Basis.Per },
			func() { b.Price = other.Price }, func() { b.Currency = other.Currency }, func() { b.MOQ = other.MOQ },
			func() { b.LeadTimeDays = other.LeadTimeDays }, func() { b.Deleted = other.Deleted }, func() { b.PriceBreaks = other.PriceBreaks },
			func() { b.OrderMultiple = other.OrderMultiple }, func() { b.Stock = other.Stock },
			func() { b.ValidFrom = other.ValidFrom }, func() { b.ValidUntil = other.ValidUntil },
		}
		rapid.SampledFrom(fields).Draw(t, "field")()
		same := a.Item == b.Item && a.Quantity == b.Quantity && a.Basis == b.Basis && a.Price == b.Price && a.Currency == b.Currency &&
			slices.Equal(a.PriceBreaks, b.PriceBreaks) && a.MOQ == b.MOQ && a.LeadTimeDays == b.LeadTimeDays && a.Deleted == b.Deleted &&
			a.OrderMultiple == b.OrderMultiple && slices.Equal(a.Stock, b.Stock) && a.ValidFrom == b.ValidFrom && a.ValidUntil == b.ValidUntil
		if (a.Digest() == b.Digest()) != same {
			t.Errorf("%+v and %+v: same %v", a, b, same)
		}
	})
}

func TestRankIsATotalOrder(t *testing.T) {
	rank := rapid.Custom(func(t *rapid.T) Rank {
		few := rapid.IntRange(0, 2)
		return Rank{
			Strong: rapid.Bool().Draw(t, "strong"), Order: int64(few.Draw(t, "order")) - 1, Mapping: few.Draw(t, "mapping"),
			Content: Digest{rapid.ByteMax(2).Draw(t, "content")}, ID: ObservationID{rapid.ByteMax(2).Draw(t, "id")},
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := rank.Draw(t, "a"), rank.Draw(t, "b"), rank.Draw(t, "c")
		if a.Compare(b) != -b.Compare(a) {
			t.Errorf("%v and %v: %d, and the other way round %d", a, b, a.Compare(b), b.Compare(a))
		}
		if (a.Compare(b) == 0) != (a == b) {
			t.Errorf("%v and %v are neither the same nor in order", a, b)
		}
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
			t.Errorf("%v, %v, %v go round", a, b, c)
		}
		if byOrder := a.CompareOrder(b); byOrder != 0 && byOrder != a.Compare(b) {
			t.Errorf("%v and %v: a tie-breaker beats the order", a, b)
		}
		if a.Strong && !b.Strong && a.Compare(b) <= 0 {
			t.Errorf("the weak %v beats the strong %v", b, a)
		}
	})
}

func TestFaultText(t *testing.T) {
	f := &Fault{Reason: ReasonSchemaInvalid, Detail: "number_invalid", Message: `not a number: "x"`, Row: 2, Line: 3, Column: 4, Path: "price_breaks[2].price"}
	if got, want := f.Error(), `schema_invalid (number_invalid), row 2, line 3, column 4, price_breaks[2].price: not a number: "x"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := (&Fault{Reason: ReasonCrashLoop}).Error(); got != ReasonCrashLoop || f.Code() != f.Reason {
		t.Errorf("got %s", got)
	}
}
