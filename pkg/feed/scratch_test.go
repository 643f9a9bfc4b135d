package feed_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/offerlog/offerlog/pkg/feed"
)

func TestScratch(t *testing.T) {
	for _, f := range []string{
		"", "# nothing\n", "- a\n", "just text\n", "a: [1\n", head + "\tx: 1\n" + tail,
		head + tail + "feed: g\n",
		head + "conector: x\n" + tail,
		head + "mode: snapshot\n" + tail,
		strings.Replace(head, "feed: f", "Feed: f", 1) + tail,
		strings.Replace(head, "account: A", "account: 0017", 1) + tail,
		strings.Replace(head, "account: A", "account: 17", 1) + tail,
		strings.Replace(head, "account: A", "account:", 1) + tail,
		strings.Replace(head, "account: A", "account: yes", 1) + tail,
		strings.Replace(head, "account: A", "account: true", 1) + tail,
		strings.Replace(head, "account: A", "account: 1e3", 1) + tail,
		strings.Replace(head, "account: A", "account: 0x1F", 1) + tail,
		strings.Replace(head, "account: A", "account: 2026-03-02", 1) + tail,
		strings.Replace(head, "account: A", "account: \"a\\0b\"", 1) + tail,
		strings.Replace(head, "account: A", "account: \"a\\tb\"", 1) + tail,
		strings.Replace(head, "account: A", "account: "+strings.Repeat("é", 65), 1) + tail,
		strings.Replace(head, "tenant: t1", "tenant: _system", 1) + tail,
		strings.Replace(head, "tenant: t1", "tenant: Acme EU", 1) + tail,
		strings.Replace(head, "tenant: t1", "tenant: ..", 1) + tail,
		strings.Replace(head, "[deliveries]", "deliveries", 1) + tail,
		strings.Replace(head, "[deliveries]", "[]", 1) + tail,
		strings.Replace(head, "[deliveries]", "[a, observations, a]", 1) + tail,
		strings.Replace(head, "source: /s", "source: /s t", 1) + tail,
		strings.Replace(head, "source: /s", "sources: /s", 1) + tail,
		head + strings.Replace(tail, "observed_at", "arrival", 1),
		head + strings.Replace(tail, "order: observed_at\n", "", 1),
		head + strings.Replace(tail, "observed_at", "version", 1),
		head + strings.Replace(tail, "source_record: .sku", "price: .p", 1),
		head + tail + "    price: .a * 2.5\n    observed_at: now\n",
		head + tail + "    price: '.a * 2.5'\n",
		head + tail + "    price: \"  .a * 2.5\"\n",
		head + tail + "    price: \"\\x20.a * 2.5\"\n",
		head + tail + "    price: |\n      .a\n      | . * 2.5\n",
		head + tail + "    price: >-\n      .a\n      | . * 2.5\n",
		head + tail + "    price:\n      .a |\n      . * 2.5\n",
		head + tail + "    pricee: .a\n    item: {mpm: .x}\n    quantity: {a: .b}\n    deleted: true\n    currency: EUR\n",
		head + tail + "    source_version: $ce.recordedtime\n    version: retrieved_at\n",
		head + tail + "  program: .x\n",
		head + "order: observed_at\nmapping: {version: 1}\n",
		head + "order: observed_at\nmapping: {version: 1, program: map.jq}\n",
		head + "order: observed_at\nmapping: {version: 0, program: .a}\n",
		head + "order: observed_at\nmapping: {version: 1.5, program: .a}\n",
		head + "order: observed_at\nmapping: map.jq\n",
		head + "order: observed_at\nmapping:\n",
		head + "limits: {max_bytes: 0, max_rows: -1, max_depth: 99999}\n" + tail,
		head + "limits: {max_bytes: 16_777}\n" + tail,
		head + "time: {layout: DD.MM.YYYY}\n" + tail,
		head + "time: {layout: DD.MM.YYYY, zone: Europe/Bärlin}\n" + tail,
		head + "numbers: {decimal: ',', group: ','}\n" + tail,
		head + "numbers: {group: space}\nformat: {kind: csv, rows: '.a[', charset: latin99}\n" + tail,
		head + "x: &a 1\n" + tail, head + "x: *a\n" + tail, head + "<<: {a: 1}\n" + tail, head + "x: !!str 1\n" + tail, "%YAML 1.2\n---\n" + head + tail, head + tail + "---\n" + head + tail,
		head + "? a\n: b\n" + tail,
		head + "x: " + strings.Repeat("[", 1000) + "\n", head + "x:\n  " + strings.Repeat("- ", 1000) + "\n",
		head + "x: \xff\n" + tail, head + "x: \x01\n" + tail, strings.Repeat("x", 70000),
		head + "1: x\n\"1\": y\n" + tail,
		head + "policy: {invalid_row: reject}\nidentity: fallback\n" + tail,
		head + "policy:\n" + tail,
		head + "a.b: 1\na: {b: 2}\n" + tail,
		"feed: f",
	} {
		_, err := feed.ParseYAML("feed.yaml", []byte(f))
		if len(f) > 400 { f = f[:400] }
		fmt.Printf("---- %q\n%v\n", strings.TrimPrefix(f, head), err)
	}
	for _, f := range []string{`{"feed":"a","feed":"b"}`, `{"a":"\ud800"}`, `{"mapping":{"version":1e999999999}}`, `[1]`, `null`, `{}`, `{} {}`, ``, `{"mapping":{"version":1,"fields":{"source_record":"a\u0000","price":".a*2.5"}}}`} {
		_, err := feed.ParseJSON([]byte(f))
		fmt.Printf("---- %q\n%v\n", f, err)
	}
}
