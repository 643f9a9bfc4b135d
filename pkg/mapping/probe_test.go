package mapping

import (
	"fmt"
	"slices"
	"testing"
)

func TestProbesFindFloatsThatHideInTexts(t *testing.T) {
	const head = `{source_record: (.sku["#text"]? // .sku), item: {mpn: "M"}, currency: "EUR", `
	for name, tc := range map[string]struct {
		spec    Spec
		program string
		payload string
		want    []string // row, field and path
	}{
		"numbers as they are":       {Spec{}, `quantity: .n, price: .p}`, `{"sku":"A","n":7,"p":0.0150}`, nil},
		"texts as they are":         {Spec{Numbers: Numbers{Decimal: ",", Group: "."}}, `quantity: .n, price: .p}`, `{"sku":"A","n":"1.234","p":"0,5"}`, nil},
		"exact arithmetic":          {Spec{}, `price: dmul(.p; "1.19")}`, `{"sku":"A","p":"12.5"}`, nil},
		"a declared rounding":       {Spec{}, `price: dround(.p; 2)}`, `{"sku":"A","p":12.345}`, nil},
		"constants and comparisons": {Spec{}, `quantity: (if dec(.n) > 5 then "10" else "0" end), price: "1"}`, `{"sku":"A","n":7}`, nil},
		"a number in a list":        {Spec{}, `price_breaks: [.b[] | {min_qty: .q, price: .p}]}`, `{"sku":"A","b":[{"q":1,"p":2.5},{"q":10,"p":2.25}]}`, nil},
		"whole numbers alone":       {Spec{Numbers: Numbers{Amounts: AmountsMinor}}, `price: .p, lead_time_days: .l}`, `{"sku":"A","p":100,"l":"14"}`, nil},
		"a number through a text":   {Spec{}, `price: (.p | floattext)}`, `[{"sku":"A","p":0.0150},{"sku":"B","p":"x"}]`, []string{"1 price .p"}},
		"deep in the row":           {Spec{}, `price_breaks: [.["the breaks"][] | {min_qty: .q, price: (.p | floattext)}]}`, `{"sku":"A","the breaks":[{"q":1,"p":2.5},{"q":10,"p":2.25}]}`, []string{`1 price_breaks[0].price .["the breaks"][].p`, `1 price_breaks[1].price .["the breaks"][].p`}},
		"in a part number":          {Spec{}, `item: {mpn: (.n | floattext)}}`, `{"sku":"A","n":603}`, []string{"1 item.mpn .n"}},
		"a number of a clock":       {Spec{}, `price: (.p | gmtime | mktime | tostring)}`, `{"sku":"A","p":1.5}`, []string{"1 price .p"}},
		"a number in XML":           {Spec{Format: Format{Kind: KindXML, Rows: "f"}}, `price: (.p["#text"] | tostring | dec(.) | floattext)}`, `<f><sku>A</sku><p>1.5</p></f>`, []string{`1 price .p["#text"]`}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := tc.spec
			spec.Order, spec.Program = OrderObservedAt, floatText+head+tc.program
			got := lossesOf(t, spec, Request{Payload: []byte(tc.payload), HasData: true, EventTime: noon})
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// floatText defines a way to a binary float that no look at the program finds: range adds its step as one.
const floatText = `def floattext: [range(0; dadd(.; .); .)][1] | tostring; `

// lossesOf are the losses of a delivery, each once.
func lossesOf(t *testing.T, spec Spec, r Request) (found []string) {
	t.Helper()
	p := mustCompile(t, spec)
	read := func(p *Program, r Request) *Result {
		res, err := p.Map(t.Context(), &r)
		if err != nil {
			t.Fatal(err)
		}
		return &res
	}
	plain := read(p, r)
	probes, err := p.Probes(t.Context(), &r)
	if err != nil || plain.Fault != nil {
		t.Fatal(err, plain.Fault)
	}
	for _, probe := range probes {
		var twins [2]*Result
		for i := range twins {
			twin := r
			twin.Payload, twin.ContentType = probe.Payloads[i], ""
			twins[i] = read(mustCompile(t, probe.Spec), twin)
			if twins[i].Fault != nil && twins[i].Fault.Detail == "payload_malformed" {
				t.Fatal(twins[i].Fault)
			}
		}
		for _, l := range probe.Losses(plain, twins[0], twins[1]) {
			if text := fmt.Sprintf("%d %s %s", l.Row, l.Field, l.Path); !slices.Contains(found, text) {
				found = append(found, text)
			}
		}
	}
	return found
}
