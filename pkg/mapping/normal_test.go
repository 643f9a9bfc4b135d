package mapping

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/offerlog/offerlog/pkg/offer"
	"pgregory.net/rapid"
)

// plain maps each field from the member of its name.
var plain = Spec{Order: OrderObservedAt, Program: `{source_record, item, quantity, quantity_basis, price, currency, price_breaks, moq, order_multiple, lead_time_days, stock, valid_from, valid_until, observed_at, deleted}`}

// withVersion is plain for a source that numbers its versions.
var withVersion = Spec{Order: OrderVersion, Program: strings.Replace(plain.Program, "{", "{source_version, ", 1)}

func TestNormalForm(t *testing.T) {
	const head = `{"source_record":"A-1","item":{"mpn":"M-1"},`
	for name, tc := range map[string]struct {
		spec    Spec
		payload string
		want    string // observation, without source_record, item and observed_at
	}{
		"nothing but identity":               {plain, head + `"price":null}`, `{"quantity_basis":{"per":"1"}}`},
		"a price keeps its value":            {plain, head + `"price":1234567.8900,"currency":"EUR"}`, `{"price":"1234567.89","currency":"EUR","quantity_basis":{"per":"1"}}`},
		"zero is a price":                    {plain, head + `"price":"0.00","currency":"EUR"}`, `{"price":"0","currency":"EUR","quantity_basis":{"per":"1"}}`},
		"blank is no price":                  {plain, head + `"price":" "}`, `{"quantity_basis":{"per":"1"}}`},
		"a plus sign and leading zeros":      {plain, head + `"quantity":"+007.50"}`, `{"quantity":"7.5","quantity_basis":{"per":"1"}}`},
		"a negative quantity stays":          {plain, head + `"quantity":-9}`, `{"quantity":"-9","quantity_basis":{"per":"1"}}`},
		"minus zero is zero":                 {plain, head + `"quantity":-0.0}`, `{"quantity":"0","quantity_basis":{"per":"1"}}`},
		"a basis without per is for one":     {plain, head + `"quantity_basis":{"unit":"MTR"}}`, `{"quantity_basis":{"unit":"MTR","per":"1"}}`},
		"a basis for a hundred":              {plain, head + `"quantity_basis":{"unit":"MTR","per":"100"}}`, `{"quantity_basis":{"unit":"MTR","per":"100"}}`},
		"breaks by rising quantity":          {plain, head + `"currency":"EUR","price_breaks":[{"min_qty":"10","price":"2"},{"min_qty":9,"price":3}]}`, `{"currency":"EUR","price_breaks":[{"min_qty":"9","price":"3"},{"min_qty":"10","price":"2"}],"quantity_basis":{"per":"1"}}`},
		"a delete needs no item":             {plain, `{"source_record":"A-1","deleted":true}`, `{"deleted":true}`},
		"moq and lead time":                  {plain, head + `"moq":"5","lead_time_days":0}`, `{"moq":"5","lead_time_days":"0","quantity_basis":{"per":"1"}}`},
		"sold in fives":                      {plain, head + `"order_multiple":"5.0"}`, `{"order_multiple":"5","quantity_basis":{"per":"1"}}`},
		"stock by the names of locations":    {plain, head + `"stock":[{"location":" MUC ","quantity":"0"},{"location":"HAM","quantity":-2.50}]}`, `{"quantity_basis":{"per":"1"},"stock":[{"location":"HAM","quantity":"-2.5"},{"location":"MUC","quantity":"0"}]}`},
		"a price for some time":              {plain, head + `"valid_from":"2025-03-01T01:00:00.50+01:00","valid_until":"2025-04-01T00:00:00Z"}`, `{"quantity_basis":{"per":"1"},"valid_from":"2025-03-01T00:00:00.5Z","valid_until":"2025-04-01T00:00:00Z"}`},
		"a price until a day of the feed's":  {with(plain, func(s *Spec) { s.Time = TimeFormat{Layout: "DD.MM.YYYY", Zone: "Europe/Berlin"} }), head + `"observed_at":"02.03.2025","valid_until":"01.07.2025"}`, `{"quantity_basis":{"per":"1"},"valid_until":"2025-06-30T22:00:00Z"}`},
		"decimal comma and groups of three":  {with(plain, func(s *Spec) { s.Numbers = Numbers{Decimal: ",", Group: "."} }), head + `"quantity":"1.234.567,89"}`, `{"quantity":"1234567.89","quantity_basis":{"per":"1"}}`},
		"marks do not concern JSON numbers":  {with(plain, func(s *Spec) { s.Numbers = Numbers{Decimal: ",", Group: "."} }), head + `"quantity":1.234}`, `{"quantity":"1.234","quantity_basis":{"per":"1"}}`},
		"a narrow space between groups":      {with(plain, func(s *Spec) { s.Numbers = Numbers{Group: "space"} }), head + `"quantity":"12\u202f345.6"}`, `{"quantity":"12345.6","quantity_basis":{"per":"1"}}`},
		"a group mark that is not needed":    {with(plain, func(s *Spec) { s.Numbers = Numbers{Group: "'"} }), head + `"quantity":"1000"}`, `{"quantity":"1000","quantity_basis":{"per":"1"}}`},
		"cents":                              {with(plain, func(s *Spec) { s.Numbers.Amounts = "minor" }), head + `"price":1250,"currency":"EUR"}`, `{"price":"12.5","currency":"EUR","quantity_basis":{"per":"1"}}`},
		"yen have no minor unit":             {with(plain, func(s *Spec) { s.Numbers.Amounts = "minor" }), head + `"price":"1200","currency":"JPY"}`, `{"price":"1200","currency":"JPY","quantity_basis":{"per":"1"}}`},
		"fils are thousandths":               {with(plain, func(s *Spec) { s.Numbers.Amounts = "minor" }), head + `"price":"1250","currency":"KWD"}`, `{"price":"1.25","currency":"KWD","quantity_basis":{"per":"1"}}`},
		"a null token of the feed's own":     {with(plain, func(s *Spec) { s.NullTokens = []string{"", "n/a"} }), head + `"price":"n/a","moq":""}`, `{"quantity_basis":{"per":"1"}}`},
		"a unit that the feed knows":         {with(plain, func(s *Spec) { s.Units = []string{"C62"} }), head + `"quantity_basis":{"unit":"C62"}}`, `{"quantity_basis":{"unit":"C62","per":"1"}}`},
		"the greatest version":               {withVersion, head + `"source_version":9223372036854775806}`, `{"source_version":"9223372036854775806","quantity_basis":{"per":"1"}}`},
		"a version as a text":                {withVersion, head + `"source_version":" 007 "}`, `{"source_version":"7","quantity_basis":{"per":"1"}}`},
		"a version in exponent notation":     {withVersion, head + `"source_version":1e3}`, `{"source_version":"1000","quantity_basis":{"per":"1"}}`},
		"a version that the order lets be":   {plain, head + `"source_version":"v7"}`, `{"quantity_basis":{"per":"1"}}`},
		"a mapping of one item as one value": {Spec{Order: OrderObservedAt, Fields: map[string]any{"source_record": ".source_record", "item": "{mpn: .item.mpn}"}}, head + `"x":1}`, `{"quantity_basis":{"per":"1"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			res := mapText(t, tc.spec, tc.payload)
			if res.Fault != nil {
				t.Fatal(res.Fault)
			}
			o := observationOf(&res.Rows[0])
			for _, name := range []string{"source_record", "item", "observed_at"} {
				delete(o, name)
			}
			var want map[string]any
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if got, want := canonicalOf(t, o), canonicalOf(t, want); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func with(s Spec, change func(*Spec)) Spec {
	change(&s)
	return s
}

func TestRowFaults(t *testing.T) {
	const head = `{"source_record":"A-1","item":{"mpn":"M-1"},`
	minor := with(plain, func(s *Spec) { s.Numbers.Amounts = "minor" })
	comma := with(plain, func(s *Spec) { s.Numbers = Numbers{Decimal: ",", Group: "."} })
	units := with(plain, func(s *Spec) { s.Units = []string{"C62"} })
	for name, tc := range map[string]struct {
		spec                 Spec
		payload              string
		reason, detail, path string
	}{
		"no record":                         {plain, `{"item":{"mpn":"M-1"}}`, offer.ReasonSchemaInvalid, "source_record_missing", "source_record"},
		"a record of invisible blanks":      {plain, `{"source_record":"\u200b\ufeff \u2060","item":{"mpn":"M-1"}}`, offer.ReasonSchemaInvalid, "source_record_missing", "source_record"},
		"no item":                           {plain, `{"source_record":"A-1","price":-1}`, offer.ReasonIdentityUnresolved, "item_identity_missing", "item"},
		"only a wrong gtin":                 {plain, `{"source_record":"A-1","item":{"gtin":"4012345678902"}}`, offer.ReasonIdentityUnresolved, "item_identity_missing", "item"},
		"a control character":               {plain, `{"source_record":"A-1","item":{"mpn":"M\u0000-1"}}`, offer.ReasonInvalidText, "text_control_char", "item.mpn"},
		"a text that is a list":             {plain, `{"source_record":["A-1"],"item":{"mpn":"M-1"}}`, offer.ReasonMappingError, "", "source_record"},
		"an item that is a text":            {plain, `{"source_record":"A-1","item":"M-1"}`, offer.ReasonMappingError, "", "item"},
		"a misspelt field":                  {Spec{Order: OrderObservedAt, Program: `{source_record, prize}`}, head + `"prize":1}`, offer.ReasonMappingError, "", ""},
		"a misspelt part of the item":       {plain, `{"source_record":"A-1","item":{"mpm":"M-1"}}`, offer.ReasonMappingError, "", "item"},
		"an observation that is none":       {Spec{Order: OrderObservedAt, Program: `.source_record`}, head + `"a":1}`, offer.ReasonMappingError, "", ""},
		"no observation":                    {Spec{Order: OrderObservedAt, Program: `empty`}, head + `"a":1}`, offer.ReasonMappingError, "", ""},
		"two observations":                  {Spec{Order: OrderObservedAt, Program: `., .`}, head + `"a":1}`, offer.ReasonMappingError, "", ""},
		"an expression with two values":     {program("price", "1, 2"), `{"sku":"A-1"}`, offer.ReasonMappingError, "", "price"},
		"an expression that fails":          {program("price", ".sku.a"), `{"sku":"A-1"}`, offer.ReasonMappingError, "", "price"},
		"a raised error":                    {program("price", `error("no")`), `{"sku":"A-1"}`, offer.ReasonMappingError, "", "price"},
		"an error without words":            {program("price", `error(null)`), `{"sku":"A-1"}`, offer.ReasonMappingError, "", "price"},
		"a row that is a number":            {program("price", ".a"), `7`, offer.ReasonMappingError, "", "item.mpn"},
		"a decimal comma not declared":      {plain, head + `"price":"4,20","currency":"EUR"}`, offer.ReasonSchemaInvalid, "number_invalid", "price"},
		"a point where a comma is declared": {comma, head + `"price":"4.20","currency":"EUR"}`, offer.ReasonSchemaInvalid, "number_invalid", "price"},
		"groups of two":                     {comma, head + `"price":"1.23.456","currency":"EUR"}`, offer.ReasonSchemaInvalid, "number_invalid", "price"},
		"a group mark in front":             {comma, head + `"price":".123","currency":"EUR"}`, offer.ReasonSchemaInvalid, "number_invalid", "price"},
		"a doubled group mark":              {comma, head + `"price":"1..234","currency":"EUR"}`, offer.ReasonSchemaInvalid, "number_invalid", "price"},
		"a group mark in the fraction":      {comma, head + `"price":"1,234.567","currency":"EUR"}`, offer.ReasonSchemaInvalid, "number_invalid", "price"},
		"two signs":                         {plain, head + `"price":"+-1","currency":"EUR"}`, offer.ReasonSchemaInvalid, "number_invalid", "price"},
		"no digit after the point":          {plain, head + `"price":"1.","currency":"EUR"}`, offer.ReasonSchemaInvalid, "number_invalid", "price"},
		"a price that is true":              {plain, head + `"price":true,"currency":"EUR"}`, offer.ReasonSchemaInvalid, "number_invalid", "price"},
		"a quantity in words":               {plain, head + `"quantity":"plenty"}`, offer.ReasonSchemaInvalid, "quantity_invalid", "quantity"},
		"a huge exponent":                   {plain, head + `"price":1e1000000000,"currency":"EUR"}`, offer.ReasonNumberOutOfRange, "", "price"},
		"an exponent of many digits":        {plain, head + `"price":1e99999999999999999999999,"currency":"EUR"}`, offer.ReasonNumberOutOfRange, "", "price"},
		"39 digits":                         {plain, head + `"quantity":123456789012345678901234567890123456789}`, offer.ReasonNumberOutOfRange, "", "quantity"},
		"a negative price":                  {plain, head + `"price":"-1","currency":"EUR"}`, offer.ReasonSchemaInvalid, "price_negative", "price"},
		"a price without currency":          {plain, head + `"price":"1"}`, offer.ReasonSchemaInvalid, "currency_missing", "currency"},
		"breaks without currency":           {plain, head + `"price_breaks":[{"min_qty":1,"price":1}]}`, offer.ReasonSchemaInvalid, "currency_missing", "currency"},
		"no currency code":                  {plain, head + `"price":"1","currency":"Euro"}`, offer.ReasonSchemaInvalid, "currency_unknown", "currency"},
		"a fraction of a cent":              {minor, head + `"price":"12.5","currency":"EUR"}`, offer.ReasonSchemaInvalid, "number_invalid", "price"},
		"breaks that are no list":           {plain, head + `"currency":"EUR","price_breaks":{"min_qty":1}}`, offer.ReasonSchemaInvalid, "price_breaks_invalid", "price_breaks"},
		"a break without price":             {plain, head + `"currency":"EUR","price_breaks":[{"min_qty":1}]}`, offer.ReasonSchemaInvalid, "price_breaks_invalid", "price_breaks[0]"},
		"a break from zero":                 {plain, head + `"currency":"EUR","price_breaks":[{"min_qty":0,"price":1}]}`, offer.ReasonSchemaInvalid, "price_breaks_invalid", "price_breaks[0].min_qty"},
		"two prices from one quantity":      {plain, head + `"currency":"EUR","price_breaks":[{"min_qty":1,"price":1},{"min_qty":"1.0","price":2}]}`, offer.ReasonSchemaInvalid, "price_breaks_invalid", "price_breaks"},
		"a negative price in a break":       {plain, head + `"currency":"EUR","price_breaks":[{"min_qty":1,"price":1},{"min_qty":2,"price":-2}]}`, offer.ReasonSchemaInvalid, "price_negative", "price_breaks[1].price"},
		"a minimum of nothing":              {plain, head + `"moq":0}`, offer.ReasonSchemaInvalid, "number_invalid", "moq"},
		"a multiple of nothing":             {plain, head + `"order_multiple":0}`, offer.ReasonSchemaInvalid, "number_invalid", "order_multiple"},
		"stock in one number":               {plain, head + `"stock":5}`, offer.ReasonSchemaInvalid, "stock_invalid", "stock"},
		"a location that is no object":      {plain, head + `"stock":["HAM"]}`, offer.ReasonSchemaInvalid, "stock_invalid", "stock[0]"},
		"a location without a quantity":     {plain, head + `"stock":[{"location":"HAM","quantity":1},{"location":"MUC"}]}`, offer.ReasonSchemaInvalid, "stock_invalid", "stock[1]"},
		"a quantity nowhere":                {plain, head + `"stock":[{"quantity":1}]}`, offer.ReasonSchemaInvalid, "stock_invalid", "stock[0]"},
		"a location with two quantities":    {plain, head + `"stock":[{"location":"HAM","quantity":1},{"location":" HAM","quantity":1}]}`, offer.ReasonSchemaInvalid, "stock_invalid", "stock"},
		"some stock in words":               {plain, head + `"stock":[{"location":"HAM","quantity":"many"}]}`, offer.ReasonSchemaInvalid, "quantity_invalid", "stock[0].quantity"},
		"more locations than any":           {plain, head + `"stock":[1` + strings.Repeat(",1", maxLocations) + `]}`, offer.ReasonSchemaInvalid, "stock_invalid", "stock"},
		"a location with a long name":       {plain, head + `"stock":[{"location":"` + strings.Repeat("x", maxLocationBytes+1) + `","quantity":1}]}`, offer.ReasonSchemaInvalid, "stock_invalid", "stock[0].location"},
		"a misspelt location":               {plain, head + `"stock":[{"site":"HAM","quantity":1}]}`, offer.ReasonMappingError, "", "stock[0]"},
		"valid from some day":               {plain, head + `"valid_from":"soon"}`, offer.ReasonSchemaInvalid, "time_invalid", "valid_from"},
		"over before it began":              {plain, head + `"valid_from":"2025-03-01T00:00:00Z","valid_until":"2025-03-01T00:00:00Z"}`, offer.ReasonSchemaInvalid, "validity_invalid", "valid_until"},
		"half a day":                        {plain, head + `"lead_time_days":0.5}`, offer.ReasonSchemaInvalid, "number_invalid", "lead_time_days"},
		"a day ago":                         {plain, head + `"lead_time_days":-1}`, offer.ReasonSchemaInvalid, "number_invalid", "lead_time_days"},
		"a price for nothing":               {plain, head + `"quantity_basis":{"per":0}}`, offer.ReasonSchemaInvalid, "number_invalid", "quantity_basis.per"},
		"a unit that the feed lacks":        {units, head + `"quantity_basis":{"unit":"MTR"}}`, offer.ReasonSchemaInvalid, "unit_unknown", "quantity_basis.unit"},
		"a time without zone":               {plain, head + `"observed_at":"2025-03-01T10:00:00"}`, offer.ReasonSchemaInvalid, "time_invalid", "observed_at"},
		"deleted in words":                  {plain, head + `"deleted":"no"}`, offer.ReasonMappingError, "", "deleted"},
		"a version in words":                {withVersion, head + `"source_version":"v7"}`, offer.ReasonSchemaInvalid, "version_invalid", "source_version"},
		"half a version":                    {withVersion, head + `"source_version":7.5}`, offer.ReasonSchemaInvalid, "version_invalid", "source_version"},
		"a version below zero":              {withVersion, head + `"source_version":-1}`, offer.ReasonVersionOutOfRange, "", "source_version"},
		"a version that has no next one":    {withVersion, head + `"source_version":9223372036854775807}`, offer.ReasonVersionOutOfRange, "", "source_version"},
		"a version beyond 64 bits":          {withVersion, head + `"source_version":"18446744073709551616"}`, offer.ReasonVersionOutOfRange, "", "source_version"},
		"a version with a huge exponent":    {withVersion, head + `"source_version":1e1000000000}`, offer.ReasonVersionOutOfRange, "", "source_version"},
		"a field longer than any":           {plain, `{"source_record":"` + strings.Repeat("a", maxTextBytes+1) + `","item":{"mpn":"M-1"}}`, offer.ReasonSchemaInvalid, "row_malformed", "source_record"},
		"a number longer than any field":    {plain, `{"source_record":1` + strings.Repeat("0", maxTextBytes) + `,"item":{"mpn":"M-1"}}`, offer.ReasonSchemaInvalid, "row_malformed", "source_record"},
		"a part longer than any":            {plain, `{"source_record":"A-1","item":{"mpn":"M-1","condition":"` + strings.Repeat("é", maxTextBytes/2+1) + `"}}`, offer.ReasonSchemaInvalid, "row_malformed", "item.condition"},
		"a text that its form makes longer": {plain, `{"source_record":"` + strings.Repeat("\u0958", maxTextBytes/6+1) + `","item":{"mpn":"M-1"}}`, offer.ReasonSchemaInvalid, "row_malformed", "source_record"},
		"a unit longer than any":            {plain, head + `"quantity_basis":{"unit":"` + strings.Repeat("u", maxTextBytes+1) + `"}}`, offer.ReasonSchemaInvalid, "row_malformed", "quantity_basis.unit"},
		"more breaks than any":              {plain, head + `"currency":"EUR","price_breaks":[1` + strings.Repeat(",1", maxPriceBreaks) + `]}`, offer.ReasonSchemaInvalid, "price_breaks_invalid", "price_breaks"},
		"bytes that are no text":            {program("source_record", `"/w==" | @base64d`), `{"sku":"A-1"}`, offer.ReasonInvalidText, "text_invalid_unicode", "source_record"},
	} {
		t.Run(name, func(t *testing.T) {
			res := mapText(t, tc.spec, tc.payload)
			if len(res.Rejected) != 1 || res.Fault == nil {
				t.Fatalf("got %+v, want one rejected row", res)
			}
			got := res.Rejected[0]
			if got != *res.Fault {
				t.Errorf("the delivery's fault is %v, the row's %v", res.Fault, &got)
			}
			if got.Reason != tc.reason || got.Detail != tc.detail || got.Path != tc.path || got.Row != 1 || got.Message == "" {
				t.Errorf("got %v, want %s (%s) at %q", &got, tc.reason, tc.detail, tc.path)
			}
		})
	}
}

func TestS_004_22_NeitherKeyNorVersionIsGuessed(t *testing.T) {
	for payload, detail := range map[string]string{
		`{"source_version":7,"item":{"mpn":"M-1"}}`:                        "source_record_missing",
		`{"source_record":"A-1","item":{"mpn":"M-1"}}`:                     "version_missing",
		`{"source_record":"A-1","item":{"mpn":"M-1"},"source_version":""}`: "version_missing",
		`{"source_record":"A-1","source_version":null,"deleted":true}`:     "version_missing",
		`{"source_record":" ","source_version":7,"deleted":true}`:          "source_record_missing",
	} {
		res := mapText(t, withVersion, payload)
		if res.Fault == nil || res.Fault.Detail != detail || len(res.Rows) > 0 {
			t.Errorf("%s: got %v, want %s", payload, res.Fault, detail)
		}
	}
}

func TestS_004_14_APriceIsAnExactDecimalOrAbsent(t *testing.T) {
	for literal, want := range map[string]string{
		"1234567.8900": "1234567.89", `"1234567.8900"`: "1234567.89", "0.1": "0.1", "0.12345678901234567": "0.12345678901234567", "12345678901234567890.123456789012345678": "12345678901234567890.123456789012345678",
		"1.5E-2": "0.015", "0": "0", "-0": "0", "null": "",
	} {
		res := mapText(t, plain, `{"source_record":"A-1","item":{"mpn":"M-1"},"currency":"EUR","price":`+literal+`}`)
		if res.Fault != nil || res.Rows[0].Content.Price.String() != want {
			t.Errorf("%s: got %+v, %v; want %q", literal, res.Rows, res.Fault, want)
		}
	}
	res := mapText(t, plain, `{"source_record":"A-1","price":null,"deleted":true}`)
	if res.Fault != nil || !res.Rows[0].Content.Deleted || !res.Rows[0].Content.Price.IsZero() {
		t.Errorf("got %+v, %v; want a deletion without price", res.Rows, res.Fault)
	}
}

func TestS_000_36_WhatARowLacksIsNamed(t *testing.T) {
	full := map[string]string{"source_record": `"A-1"`, "item": `{"mpn":"M-1"}`, "price": "1", "currency": `"EUR"`, "quantity_basis": `{"unit":"C62"}`}
	payload := func(without string) string {
		var members []string
		for name, v := range full {
			if name != without {
				members = append(members, fmt.Sprintf("%q:%s", name, v))
			}
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	for without, detail := range map[string]string{"source_record": "source_record_missing", "item": "item_identity_missing", "currency": "currency_missing", "quantity_basis": "", "price": ""} {
		res := mapText(t, plain, payload(without))
		switch {
		case detail == "" && (res.Fault != nil || res.Rows[0].Content.Basis.Per.String() != "1"):
			t.Errorf("without %s: got %v, want it accepted, with the default basis", without, res.Fault)
		case detail != "" && (res.Fault == nil || res.Fault.Detail != detail):
			t.Errorf("without %s: got %v, want %s", without, res.Fault, detail)
		}
	}
	r := Request{Payload: []byte(payload("")), HasData: true}
	res, err := mustCompile(t, plain).Map(t.Context(), &r)
	if err != nil || res.Fault == nil || res.Fault.Detail != "observed_at_missing" {
		t.Errorf("without a time: got %v, %v; want observed_at_missing", res.Fault, err)
	}
}

func TestIdentityTexts(t *testing.T) {
	for literal, want := range map[string]string{
		`"0017"`: "0017", `17.0`: "17.0", `1E3`: "1E3", `12345678901234567890123`: "12345678901234567890123", `" SKU123\t"`: "SKU123", `"a  b"`: "a  b",
		`"\u00a0\u200b\ufeffx\u2060\u3000"`: "x", `"a\u200bb"`: "a\u200bb", `"A\u030a-7"`: "Å-7", `"Größe–5€"`: "Größe–5€", `"a\tb\nc"`: "a\tb\nc",
	} {
		res := mapText(t, plain, `{"source_record":`+literal+`,"item":{"mpn":"M-1"}}`)
		if res.Fault != nil || res.Rows[0].Record != want {
			t.Errorf("%s: got %+v, %v; want %q", literal, res.Rows, res.Fault, want)
		}
	}
}

func TestGTIN(t *testing.T) {
	for text, want := range map[string]string{
		"4012345678901": "04012345678901", "04012345678901": "04012345678901", "96385074": "00000096385074", "036000291452": "00036000291452",
		"4012345678902": "", "00000000": "", "401234567890": "", "40123456789O1": "", "4 012345 678901": "", "1": "",
	} {
		res := mapText(t, plain, fmt.Sprintf(`{"source_record":"A-1","item":{"mpn":"M-1","gtin":%q}}`, text))
		if res.Fault != nil {
			t.Fatal(res.Fault)
		}
		row := res.Rows[0]
		if row.Content.Item.GTIN != want || (want == "") != (len(row.Warnings) == 1 && row.Warnings[0] == "gtin_invalid") {
			t.Errorf("%s: got %q with %v, want %q", text, row.Content.Item.GTIN, row.Warnings, want)
		}
	}
}

func TestTimes(t *testing.T) {
	berlin := with(plain, func(s *Spec) { s.Time = TimeFormat{Layout: "DD.MM.YYYY hh:mm:ss", Zone: "Europe/Berlin"} })
	date := with(plain, func(s *Spec) { s.Time = TimeFormat{Layout: "DD/MM/YYYY", Zone: "Europe/London"} })
	compact := with(plain, func(s *Spec) { s.Time = TimeFormat{Layout: "YYYYMMDD", Zone: "UTC"} })
	for name, tc := range map[string]struct {
		spec    Spec
		literal string
		want    string // or detail
	}{
		"the event's, where none is given": {plain, `null`, noon.Text},
		"an offset":                        {plain, `"2026-01-01T01:59:59.5+02:00"`, "2025-12-31T23:59:59.5Z"},
		"more digits than a clock has":     {plain, `"2025-12-31T23:59:59.99999999990Z"`, "2025-12-31T23:59:59.9999999999Z"},
		"a day before the month":           {date, `"02/03/2021"`, "2021-03-02T00:00:00Z"},
		"midnight in summer":               {date, `"02/07/2021"`, "2021-07-01T23:00:00Z"},
		"a date as a number":               {compact, `20210302`, "2021-03-02T00:00:00Z"},
		"no such day":                      {date, `"30/02/2021"`, "time_invalid"},
		"another layout":                   {date, `"2021-03-02"`, "time_invalid"},
		"more than the layout":             {date, `"02/03/2021 10:00"`, "time_invalid"},
		"less than the layout":             {date, `"02/03/21"`, "time_invalid"},
		"a sign for a digit":               {date, `"+2/03/2021"`, "time_invalid"},
		"before the clocks go back":        {berlin, `"26.10.2025 01:59:59"`, "2025-10-25T23:59:59Z"},
		"twice when the clocks go back":    {berlin, `"26.10.2025 02:30:00"`, "time_ambiguous"},
		"the first instant that is twice":  {berlin, `"26.10.2025 02:00:00"`, "time_ambiguous"},
		"after the clocks went back":       {berlin, `"26.10.2025 03:00:00"`, "2025-10-26T02:00:00Z"},
		"never when the clocks go forward": {berlin, `"30.03.2025 02:30:00"`, "time_invalid"},
		"after the clocks went forward":    {berlin, `"30.03.2025 03:00:00"`, "2025-03-30T01:00:00Z"},
		"a year before any clock":          {berlin, `"01.01.1600 00:00:00"`, "time_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			res := mapText(t, tc.spec, `{"source_record":"A-1","item":{"mpn":"M-1"},"observed_at":`+tc.literal+`}`)
			var got string
			if res.Fault != nil {
				got = res.Fault.Detail
			} else {
				got = res.Rows[0].ObservedAt.Text
			}
			if got != tc.want {
				t.Errorf("got %s (%v), want %s", got, res.Fault, tc.want)
			}
		})
	}
}

func TestOneRecordTwiceInADelivery(t *testing.T) {
	row := func(record, version, price string) string {
		return fmt.Sprintf(`{"source_record":%q,"source_version":%s,"item":{"mpn":"M"},"currency":"EUR","price":%s}`, record, version, price)
	}
	for name, tc := range map[string]struct {
		rows               []string
		kept               []int
		repeated, rejected int
	}{
		"equal rows are one":                {[]string{row("A", "1", "1"), row("B", "1", "1"), row("A", "1", "1.0")}, []int{1, 2}, 1, 0},
		"two versions are two":              {[]string{row("A", "1", "1"), row("A", "2", "1")}, []int{1, 2}, 0, 0},
		"different rows are all rejected":   {[]string{row("A", "1", "1"), row("B", "1", "1"), row("A", "1", "2"), row("A", "1", "1")}, []int{2}, 0, 3},
		"a rejected row contradicts nobody": {[]string{row("A", "1", "1"), row("A", "1", "-2")}, []int{1}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			res := mapText(t, withVersion, "["+strings.Join(tc.rows, ",\n")+"]")
			var kept []int
			for _, r := range res.Rows {
				kept = append(kept, r.Number)
			}
			if fmt.Sprint(kept) != fmt.Sprint(tc.kept) || res.Repeated != tc.repeated || len(res.Rejected) != tc.rejected || res.RowCount != len(tc.rows) {
				t.Errorf("got rows %v, %d repeated, %v; want %v, %d, %d", kept, res.Repeated, res.Rejected, tc.kept, tc.repeated, tc.rejected)
			}
		})
	}
}

func TestARejectedRowSaysWhereItStands(t *testing.T) {
	res := mapText(t, plain, "[\n  {\"source_record\":\"A-1\",\"item\":{\"mpn\":\"M\"}},\n  {\"source_record\":\"\"},   {\"source_record\":\"\"}\n]")
	if len(res.Rows) != 1 || len(res.Rejected) != 2 || res.Fault != nil {
		t.Fatalf("got %+v", res)
	}
	if f := res.Rejected[0]; f.Row != 2 || f.Line != 3 || f.Column != 3 {
		t.Errorf("got %v, want row 2, line 3, column 3", &f)
	}
	if f := res.Rejected[1]; f.Row != 3 || f.Line != 3 || f.Column != 27 {
		t.Errorf("got %v, want row 3, line 3, column 27", &f)
	}
}

// Digits beyond what a double holds, appended to one number, change that field and no other: nothing was computed in
// floats, and nothing was rounded.
func TestDigitsAtPlaceTwentyChangeTheirFieldAlone(t *testing.T) {
	p := mustCompile(t, withVersion)
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.StringMatching(`[1-9][0-9]{0,9}\.[0-9]{9}`)
		numbers := []string{digits.Draw(t, "price"), digits.Draw(t, "quantity"), digits.Draw(t, "moq"), digits.Draw(t, "per"), digits.Draw(t, "break")}
		read := func(n []string) []string {
			payload := fmt.Sprintf(`{"source_record":"A","source_version":9007199254740993,"item":{"mpn":"M"},"currency":"EUR","price":%s,"quantity":%s,"moq":%s,"quantity_basis":{"per":%s},"price_breaks":[{"min_qty":1,"price":%s}]}`,
				n[0], n[1], n[2], n[3], n[4])
			res, err := p.Map(t.Context(), &Request{Payload: []byte(payload), HasData: true, EventTime: noon})
			if err != nil || res.Fault != nil {
				t.Fatal(err, res.Fault)
			}
			c := res.Rows[0].Content
			return []string{c.Price.String(), c.Quantity.String(), c.MOQ.String(), c.Basis.Per.String(), c.PriceBreaks[0].Price.String()}
		}
		at := rapid.IntRange(0, len(numbers)-1).Draw(t, "at")
		before := read(numbers)
		numbers[at] += rapid.StringMatching(`[0-9]{0,8}[1-9]`).Draw(t, "appended")
		after := read(numbers)
		for i := range before {
			if i == at && after[i] != numbers[i] {
				t.Errorf("got %s, want %s", after[i], numbers[i])
			}
			if i != at && after[i] != before[i] {
				t.Errorf("field %d changed from %s to %s with field %d", i, before[i], after[i], at)
			}
		}
	})
}
