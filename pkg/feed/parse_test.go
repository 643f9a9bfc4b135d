package feed_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/streams"
)

const fixtures = "../../testdata/feeds"

// head is a feed without order and mapping; what a test adds begins in line 6.
const head = `feed: f
tenant: t1
connector: c
account: A
accepts: {topics: [deliveries], source: /s}
`

// tail makes a feed of head.
const tail = `order: observed_at
mapping:
  version: 1
  fields:
    source_record: .sku
`

func TestWhatAFeedFileCanSay(t *testing.T) {
	tests := map[string]struct {
		file string
		want func(feed.Spec) bool
	}{
		"defaults are filled in": {head + tail, func(s feed.Spec) bool {
			return reflect.DeepEqual(s.Identity, delivery.Identity{}) && s.Policy.InvalidRow == feed.InvalidRowAlone && s.Format.Kind == mapping.KindJSON && s.Fingerprint == mapping.FingerprintJSON &&
				s.Limits.MaxBytes == 16777216 && s.NoData == mapping.NoDataRefuse && len(s.NullTokens) == 1 && s.NullTokens[0] == ""
		}},
		"fields that name a delivery": {head + "identity: {fields: [subject, fileversion]}\n" + tail, func(s feed.Spec) bool {
			return reflect.DeepEqual(s.Identity, delivery.Identity{Fields: []string{"fileversion", "subject"}}) && !s.Identity.Weak()
		}},
		"a fallback where nothing does": {head + "identity: {fallback: [account, endpoint, cursor, time, payload]}\n" + tail, func(s feed.Spec) bool {
			return len(s.Identity.Fallback) == 5 && s.Identity.Weak()
		}},
		"a retention": {head + "retention: {artifacts: 30d}\n" + tail, func(s feed.Spec) bool {
			return s.Retention.Artifacts == feed.Duration(30*24*time.Hour)
		}},
		"no retention: all is kept": {head + tail, func(s feed.Spec) bool {
			b, err := s.JSON()
			return err == nil && s.Retention == feed.Retention{} && !strings.Contains(string(b), "retention")
		}},
		"horizons in other units": {head + "policy: {dedupe_horizon: 36h, tombstone_horizon: 48h}\n" + tail, func(s feed.Spec) bool {
			b, _ := s.JSON()
			return s.Policy.DedupeHorizon == feed.Duration(36*time.Hour) && strings.Contains(string(b), `"dedupe_horizon":"36h","tombstone_horizon":"2d"`)
		}},
		"a word that old YAML took for a boolean is a text": {head + "null_tokens: [no, off, 'null', ~x]\n" + tail, func(s feed.Spec) bool {
			return strings.Join(s.NullTokens, "|") == "no|off|null|~x"
		}},
		"no text means absent": {head + "null_tokens: []\n" + tail, func(s feed.Spec) bool { return s.NullTokens != nil && len(s.NullTokens) == 0 }},
		"an account of digits keeps its zeros in quotes": {strings.Replace(head, "account: A", `account: "0017"`, 1) + tail, func(s feed.Spec) bool {
			return s.Account == "0017"
		}},
		"names may be quoted, and lines end as in Windows": {strings.ReplaceAll("\ufeff"+strings.Replace(head, "feed:", "'feed':", 1)+tail, "\n", "\r\n"), func(s feed.Spec) bool {
			return s.Feed == "f" && s.Mapping.Fields["source_record"] == ".sku"
		}},
		"a program stands in a block": {head + "order: version\nmapping:\n  version: 2\n  program: |\n    {source_record: .a,\n     source_version: .b}\n", func(s feed.Spec) bool {
			return s.Mapping.Program == "{source_record: .a,\n source_version: .b}\n" && s.Mapping.Fields == nil
		}},
		"JSON is YAML": {`{"feed":"f","tenant":"t1","connector":"c","account":"A","accepts":{"topics":["deliveries"],"source":"/s"},"order":"observed_at","mapping":{"version":1,"fields":{"source_record":".sku"}}}`,
			func(s feed.Spec) bool { return s.Accepts.Topics[0] == "deliveries" }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := feed.ParseYAML("feed.yaml", []byte(test.file))
			if err != nil {
				t.Fatal(err)
			}
			if !test.want(s) {
				t.Errorf("got %+v", s)
			}
			b, err := s.JSON()
			if err != nil {
				t.Fatal(err)
			}
			again, err := feed.ParseJSON(b)
			if err != nil {
				t.Fatalf("%s: %v", b, err)
			}
			if c, _ := again.JSON(); !bytes.Equal(b, c) {
				t.Errorf("as JSON and back:\n got %s\nwant %s", c, b)
			}
		})
	}
}

func TestDefaultsOfTheSchemaAreThoseOfTheMapping(t *testing.T) {
	s, err := feed.ParseYAML("feed.yaml", []byte(head+tail))
	if err != nil {
		t.Fatal(err)
	}
	bare := mapping.Spec{Order: mapping.OrderObservedAt, Fields: map[string]any{"source_record": ".sku"}}
	if got, want := s.Reading().Digest(), bare.Digest(); got != want {
		t.Errorf("digest with the defaults filled in %v, left out %v", got, want)
	}
}

func TestBadFeedFilesSayWhereAndWhatIsAllowed(t *testing.T) {
	with := func(old, replacement string) string { return strings.Replace(head, old, replacement, 1) + tail }
	tests := map[string]struct {
		file string
		want []string // each problem's beginning
	}{
		"an empty file":                           {"# nothing\n", []string{"1:1: the file is empty"}},
		"a list":                                  {"- a\n", []string{"1:1: is a list; want a feed"}},
		"a bracket left open":                     {"a: [1\n", []string{"1:4: this is not YAML"}},
		"a tab":                                   {head + "\tx: 1\n", []string{"6:1: this is not YAML"}},
		"a setting given twice":                   {head + tail + "feed: g\n", []string{`11:1: this is not YAML: mapping key "feed" already defined at [1:1]`}},
		"a setting given twice in a line":         {head + "limits: {max_rows: 1, max_rows: 2}\n" + tail, []string{`6:23: this is not YAML: mapping key "max_rows" already defined at [6:10]`}},
		"a setting given twice, once in quotes":   {head + "'feed': g\n" + tail, []string{`6:1: this is not YAML: mapping key "feed" already defined at [1:1]`}},
		"a setting given twice, once as a number": {head + "1: x\n'1': y\n" + tail, []string{`7:1: this is not YAML: mapping key "1" already defined at [6:1]`}},
		"a setting given twice, once escaped":     {head + "\"fe\\x65d\": g\n" + tail, []string{`6:1: this is not YAML: mapping key "feed" already defined at [1:1]`}},
		"a second document":                       {head + tail + "---\n" + head, []string{"12:1: a second document begins"}},
		"an anchor":                               {head + "x: &a 1\n" + tail, []string{"6:4: anchors and aliases have no place"}},
		"an alias":                                {head + "x: *a\n" + tail, []string{"6:4: anchors and aliases have no place"}},
		"a merge":                                 {head + "<<: {a: 1}\n" + tail, []string{"6:1: anchors and aliases have no place"}},
		"a tag":                                   {head + "x: !!str 1\n" + tail, []string{"6:4: !!str has no place"}},
		"a directive":                             {"%YAML 1.2\n---\n" + head + tail, []string{"1:1: % has no place"}},
		"a list for a name":                       {head + "? [a]\n: b\n" + tail, []string{"6:1: ? has no place"}},
		"brackets without end":                    {head + "x: " + strings.Repeat("[", 30_000), []string{"6:36: nested more than 32 deep"}},
		"lists in lists in a line":                {head + "x:\n  " + strings.Repeat("- ", 15_000), []string{"7:67: nested more than 32 deep"}},
		"a file too long":                         {strings.Repeat("#", 32_769), []string{"1:1: the file has more than 32768 bytes"}},
		"another encoding":                        {head + "x: \xfc\n", []string{"6:4: want UTF-8 text"}},
		"a control character":                     {head + "x: \x01\n", []string{"6:4: want UTF-8 text"}},

		"a setting written wrongly":     {head + "conector: x\n" + tail, []string{"6:1: conector: is not a setting; did you mean connector? known here: accepts, account,"}},
		"a setting of another version":  {head + "max_age: 3d\n" + tail, []string{"6:1: max_age: is not a setting; known here: accepts"}},
		"capital letters":               {with("feed: f", "Feed: f"), []string{"1:1: Feed: is not a setting; did you mean feed?", "1:1: feed: is missing"}},
		"an unknown setting in a group": {with("source:", "sources:"), []string{"5:1: accepts.source: is missing", "5:33: accepts.sources: is not a setting; did you mean source?"}},
		"missing settings": {"feed: f\norder: version\n", []string{"1:1: accepts: is missing; want the topics", "1:1: account: is missing; want a printable text",
			"1:1: connector: is missing", "1:1: mapping: is missing; want a version, and fields or a program", "1:1: tenant: is missing; want 1 to 64 of a-z"}},

		"a counter without versions":                         {head + "sequential: true\n" + tail, []string{"6:13: sequential: true needs order: version"}},
		"S_004_19 a tombstone horizon shorter than a replay": {head + "policy: {tombstone_horizon: 9599h}\n" + tail, []string{"6:29: policy.tombstone_horizon: 9599h is shorter than dedupe_horizon, 400d: what is replayed after a deletion was forgotten would be for sale again"}},
		"a dedupe horizon longer than the default one":       {head + "policy: {dedupe_horizon: 401d}\n" + tail, []string{"6:1: policy.tombstone_horizon: 400d is shorter than dedupe_horizon, 401d"}},
		"a retention of what always stays":                   {head + "retention: {observations: 1d}\n" + tail, []string{`6:13: retention.observations: is not a setting; known here: artifacts, quarantine, runs`}},
		"a retention that is none":                           {head + "retention: {artifacts: never}\n" + tail, []string{`6:24: retention.artifacts: "never" does not fit`}},
		"horizons that are none":                             {head + "policy: {dedupe_horizon: 0d, tombstone_horizon: 1y}\n" + tail, []string{`6:26: policy.dedupe_horizon: "0d" does not fit; want a whole number of days, hours or minutes, such as 400d, 24h or 15m`, `6:49: policy.tombstone_horizon: "1y" does not fit`}},

		"an account that YAML takes for octal":  {with("account: A", "account: 0017"), []string{`4:10: account: 0017 is neither a plain number nor a text; write a number in decimal digits, a text in quotes: "0017"`}},
		"an account that YAML takes for hex":    {with("account: A", "account: 0x1F"), []string{"4:10: account: 0x1F is neither"}},
		"an account that is a number":           {with("account: A", "account: 17"), []string{`4:10: account: 17 does not fit; want a printable text of 1 to 128 bytes; a text needs quotes: "17"`}},
		"an account that is a boolean":          {with("account: A", "account: true"), []string{"4:10: account: true does not fit"}},
		"an account without a value":            {with("account: A", "account:"), []string{"4:1: account: has no value; want a printable text"}},
		"an account with a tab":                 {with("account: A", `account: "a\tb"`), []string{`4:10: account: "a\tb" does not fit`}},
		"an account with the character zero":    {with("account: A", `account: "a\0b"`), []string{"4:10: account: holds the character U+0000"}},
		"an account of 130 bytes":               {with("account: A", "account: "+strings.Repeat("é", 65)), []string{"4:10: account: has 130 bytes; want at most 128"}},
		"the tenant of offerlog itself":         {with("tenant: t1", "tenant: _system"), []string{`2:9: tenant: "_system" does not fit; want 1 to 64 of a-z`}},
		"a tenant that is a folder":             {with("tenant: t1", "tenant: .."), []string{`2:9: tenant: ".." does not fit`}},
		"a tenant with a blank":                 {with("tenant: t1", "tenant: acme eu"), []string{`2:9: tenant: "acme eu" does not fit`}},
		"a feed name of 65 characters":          {with("feed: f", "feed: "+strings.Repeat("f", 65)), []string{"1:7: feed: "}},
		"topics that are no list":               {with("[deliveries]", "deliveries"), []string{"5:19: accepts.topics: is a text; want a list"}},
		"no topics":                             {with("[deliveries]", "[]"), []string{"5:19: accepts.topics: does not fit; want a list of 1 to 32"}},
		"a topic twice, and one of offerlog's":  {with("[deliveries]", "[a, observations, a]"), []string{"5:19: accepts.topics: does not fit", `5:23: accepts.topics.1: "observations" does not fit`}},
		"a topic that Kafka would not have":     {with("[deliveries]", "[é, a/b]"), []string{`5:20: accepts.topics.0: "é" does not fit`, `5:23: accepts.topics.1: "a/b" does not fit`}},
		"a source with a blank":                 {with("source: /s", "source: /s t"), []string{`5:41: accepts.source: "/s t" does not fit`}},
		"a source of 1025 bytes":                {with("source: /s", "source: "+strings.Repeat("é", 512)+"s"), []string{"5:41: accepts.source: has 1025 bytes; want at most 1024"}},
		"an identity of another version":        {head + "identity: fallback\n" + tail, []string{`6:11: identity: "fallback" does not fit; want event, or either fields or fallback with a list`}},
		"an identity of nothing":                {head + "identity: {}\n" + tail, []string{"6:1: identity: does not fit; want event, or either fields or fallback with a list"}},
		"two identities":                        {head + "identity: {fields: [a], fallback: [payload]}\n" + tail, []string{"6:1: identity: does not fit; want event, or either"}},
		"no fields":                             {head + "identity: {fields: []}\n" + tail, []string{"6:20: identity.fields: does not fit; want a list of 1 to 8"}},
		"fields that name nothing":              {head + "identity: {fields: [Export-ID, recordedtime]}\n" + tail, []string{`6:21: identity.fields.0: "Export-ID" does not fit; want the name of an attribute`, `6:32: identity.fields.1: "recordedtime" does not fit`}},
		"a fallback that is none":               {head + "identity: {fallback: [payload, subject]}\n" + tail, []string{`6:32: identity.fallback.1: "subject" does not fit; want account, endpoint, cursor, time or payload`}},
		"a format of another version":           {head + "format: {kind: edi}\n" + tail, []string{`6:16: format.kind: "edi" does not fit; want json, ndjson, csv or xml`}},
		"a policy that is not known":            {head + "policy: {invalid_row: reject}\n" + tail, []string{`6:23: policy.invalid_row: "reject" does not fit; want row or delivery`}},
		"a policy without a value":              {head + "policy:\n" + tail, []string{"6:1: policy: has no value; want invalid_row, partial_runs, run_timeout, brake, item, max_future, freshness, results, dedupe_horizon, tombstone_horizon"}},
		"limits that limit nothing":             {head + "limits: {max_bytes: 0, max_rows: -1, max_depth: 10000}\n" + tail, []string{"6:21: limits.max_bytes: 0", "6:34: limits.max_rows: -1", "6:49: limits.max_depth: 10000"}},
		"a limit with marks":                    {head + "limits: {max_bytes: 16_777}\n" + tail, []string{"6:21: limits.max_bytes: 16_777 is neither"}},
		"a layout without its zone":             {head + "time: {layout: DD.MM.YYYY}\n" + tail, []string{"6:1: time.zone: is missing; want an IANA name"}},
		"a zone that is not known":              {head + "time: {layout: DD.MM.YYYY, zone: Europe/Bärlin}\n" + tail, []string{`6:34: time.zone: "Europe/Bärlin" is not known`}},
		"one mark for two things":               {head + "numbers: {decimal: ',', group: ','}\n" + tail, []string{`6:32: numbers.group: "," is the decimal mark too`}},
		"a group that is a text":                {head + "order: version\nmapping: map.jq\n", []string{"7:10: mapping: is a text; want a version, and fields or a program"}},
		"a mapping without fields":              {head + "order: version\nmapping: {version: 1}\n", []string{"7:1: mapping.fields: no field and no program"}},
		"fields and a program":                  {head + tail + "  program: .x\n", []string{"11:12: mapping.program: fields are given too"}},
		"a program beside a text":               {head + "order: version\nmapping: {version: 1, program: map.jq}\n", []string{"7:32: mapping.program: names the file map.jq"}},
		"mapping version zero":                  {head + "order: version\nmapping: {version: 0, program: .a}\n", []string{"7:20: mapping.version: 0 does not fit; want a whole number from 1"}},
		"half a mapping version":                {head + "order: version\nmapping: {version: 1.5, program: .a}\n", []string{"7:20: mapping.version: 1.5 is neither"}},
		"fields that are none":                  {head + tail + "    pricee: .a\n    item: {mpm: .x}\n", []string{"11:5: mapping.fields.pricee: is not a setting; did you mean price?", "12:12: mapping.fields.item.mpm: is not a setting; did you mean mpn?"}},
		"a constant that is no expression":      {head + tail + "    deleted: true\n    currency: EUR\n", []string{`11:14: mapping.fields.deleted: true does not fit`, "12:15: mapping.fields.currency: function not defined: EUR/0; a constant text needs quotes"}},
		"parts where there are none":            {head + tail + "    quantity: {a: .b}\n", []string{"11:5: mapping.fields.quantity: is a group of settings; want a jq expression"}},
		"an impure expression":                  {head + tail + "    price: .p\n    observed_at: now\n", []string{"12:18: mapping.fields.observed_at: now: "}},
		"a float in a plain text":               {head + tail + "    price: .a * 2.5\n", []string{"11:15: mapping.fields.price: *: ", "11:17: mapping.fields.price: 2.5: "}},
		"a float in quotes":                     {head + tail + "    price: \"  .a * 2.5\"\n", []string{"11:18: mapping.fields.price: *: ", "11:20: mapping.fields.price: 2.5: "}},
		"a float after an escape":               {head + tail + "    price: \"\\x20.a * 2.5\"\n", []string{"11:12: mapping.fields.price: *: ", "11:12: mapping.fields.price: 2.5: "}},
		"a float after letters of two bytes":    {head + tail + "    price: '.[\"ü\"] * 2.5'\n", []string{"11:20: mapping.fields.price: *: ", "11:22: mapping.fields.price: 2.5: "}},
		"a float in a block":                    {head + tail + "    price: |\n\n      .a\n      | . * 2.5\n", []string{"14:11: mapping.fields.price: *: ", "14:13: mapping.fields.price: 2.5: "}},
		"a float in a folded block":             {head + tail + "    price: >-\n      .a\n      | . * 2.5\n", []string{"11:12: mapping.fields.price: *: ", "11:12: mapping.fields.price: 2.5: "}},
		"a float in a program":                  {head + "order: observed_at\nmapping:\n  version: 1\n  program: |\n    {source_record: .sku,\n     price: (.a / 2)}\n", []string{"11:17: mapping.program: /: "}},
		"problems of all kinds in one file":     {"tenat: t\n" + with("account: A", "account: 17") + "    price: now\n", []string{"1:1: tenat: is not a setting; did you mean tenant?", "5:10: account: 17", "12:12: mapping.fields.price: now: "}},
		"an expression that is cut off":         {head + "format: {rows: '.a['}\n" + tail, []string{"6:20: format.rows: unexpected EOF"}},
		"rows that depend on the event":         {head + "format: {rows: '.[$ce.subject]'}\n" + tail, []string{"6:16: format.rows: $ce"}},
		"a character set that is not known":     {head + "format: {charset: latin99}\n" + tail, []string{`6:19: format.charset: "latin99" is not known`}},
		"no name for a record (S-004-22)":       {head + strings.Replace(tail, "source_record: .sku", "price: .p", 1), []string{"9:3: mapping.fields.source_record: is missing"}},
		"no version to order by (S-004-22)":     {head + strings.Replace(tail, "observed_at", "version", 1), []string{"9:3: mapping.fields.source_version: is missing; want a jq expression for the source's own version"}},
		"no order (S-004-22)":                   {head + strings.Replace(tail, "order: observed_at\n", "", 1), []string{"1:1: order: is missing; want version (the source numbers its versions) or observed_at"}},
		"order by arrival (S-004-06)":           {head + strings.Replace(tail, "observed_at", "arrival", 1), []string{`6:8: order: "arrival" does not fit; want version (the source numbers its versions) or observed_at (it does not); arrival says nothing`}},
		"a version that is arrival (S-004-06)":  {head + tail + "    source_version: $ce.recordedtime\n", []string{"11:21: mapping.fields.source_version: $ce: recordedtime"}},
		"version: retrieved_at (S-004-06)":      {head + tail + "    version: retrieved_at\n", []string{"11:5: mapping.fields.version: is not a setting"}},
		"a version from a function (S-004-06)":  {head + tail + "    source_version: offset\n", []string{"11:21: mapping.fields.source_version: function not defined: offset/0"}},
		"a version from the clock (S-004-06)":   {head + tail + "    source_version: now\n", []string{"11:21: mapping.fields.source_version: now: "}},
		"a version from the counter (S-004-06)": {head + tail + "    source_version: input_line_number\n", []string{"11:21: mapping.fields.source_version: input_line_number: "}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			spec, err := feed.ParseYAML("feed.yaml", []byte(test.file))
			if err == nil {
				t.Fatalf("accepted as %+v", spec)
			}
			wantProblems(t, err, "feed.yaml:", test.want)
		})
	}
}

// wantProblems checks that an error has exactly the problems that begin so.
func wantProblems(t *testing.T, err error, file string, want []string) {
	t.Helper()
	invalid, ok := errors.AsType[*feed.InvalidError](err)
	if !ok {
		t.Fatalf("got %v, want an InvalidError", err)
	}
	got := strings.Split(invalid.Error(), "\n")
	if !slices.EqualFunc(got, want, func(g, w string) bool { return strings.HasPrefix(g, file+w) }) {
		t.Errorf("got problems\n\t%s\nwant %d, beginning %s\n\t%s", strings.Join(got, "\n\t"), len(want), file, strings.Join(want, "\n\t"))
	}
}

func TestS_004_06_OrderAndVersionNeverComeFromArrival(t *testing.T) {
	for name, version := range map[string]string{
		"the time of retrieval":   "$ce.recordedtime",
		"the same in brackets":    `$ce["recordedtime"]`,
		"the trace":               "$ce.traceparent",
		"the clock":               "now",
		"the line":                "input_line_number",
		"an offset":               "offset",
		"a name that is no value": "retrieved_at",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := feed.ParseYAML("feed.yaml", []byte(head+strings.Replace(tail, "observed_at", "version", 1)+"    source_version: '"+version+"'\n"))
			wantProblems(t, err, "feed.yaml:11:2", []string{""})
			if !strings.Contains(err.Error(), ": mapping.fields.source_version: ") {
				t.Errorf("got %v", err)
			}
		})
	}
	_, err := feed.ParseYAML("feed.yaml", []byte(head+strings.Replace(tail, "observed_at", "retrieved_at", 1)))
	wantProblems(t, err, "feed.yaml:6:8: ", []string{"order: "})
}

func TestS_004_22_KeyAndVersionAreDeclared(t *testing.T) {
	versioned := head + strings.Replace(tail, "observed_at", "version", 1)
	if _, err := feed.ParseYAML("feed.yaml", []byte(versioned+"    source_version: .rev\n")); err != nil {
		t.Errorf("both declared: %v", err)
	}
	_, err := feed.ParseYAML("feed.yaml", []byte(versioned))
	wantProblems(t, err, "feed.yaml:9:3: ", []string{"mapping.fields.source_version: is missing"})
	_, err = feed.ParseYAML("feed.yaml", []byte(strings.Replace(versioned, "source_record", "source_version", 1)))
	wantProblems(t, err, "feed.yaml:9:3: ", []string{"mapping.fields.source_record: is missing"})

	// What a file cannot show, the rows do: no version is made up for one that has none, and no key.
	s, err := feed.ParseYAML("feed.yaml", []byte(versioned+"    source_version: .rev\n    item: {mpn: .sku}\n"))
	if err != nil {
		t.Fatal(err)
	}
	res := read(t, s, []byte(`[{"sku":"A-1"},{"rev":7},{"sku":"A-1","rev":7}]`))
	if len(res.Rows) != 1 || len(res.Rejected) != 2 || res.Rejected[0].Detail != "version_missing" || res.Rejected[1].Detail != "source_record_missing" {
		t.Errorf("got rows %+v, rejected %+v", res.Rows, res.Rejected)
	}
}

func TestBadCommands(t *testing.T) {
	tests := map[string]struct {
		payload string
		want    []string
	}{
		"nothing":                         {``, []string{"the feed is not JSON"}},
		"two values":                      {`{} {}`, []string{"the feed is not JSON"}},
		"a name twice":                    {`{"feed":"a","feed":"b"}`, []string{"the feed is not JSON: jsontext: duplicate object member name"}},
		"half a character":                {`{"feed":"\ud800"}`, []string{"the feed is not JSON"}},
		"a list":                          {`[1]`, []string{"is a list; want a feed"}},
		"null":                            {`null`, []string{"has no value; want a feed"}},
		"a number beyond any memory":      {minimal(`"limits":{"max_bytes":1e999999999}`), []string{"limits.max_bytes: 1e999999999 is neither"}},
		"the character zero":              {minimal(`"units":["a\u0000"]`), []string{"units.0: holds the character U+0000"}},
		"an unknown setting":              {minimal(`"unit":["EA"]`), []string{"unit: is not a setting; did you mean units?"}},
		"a program's name instead of it":  {strings.Replace(minimal(`"units":["EA"]`), `"fields":{"source_record":".sku"}`, `"program":"map.jq"`, 1), []string{"mapping.program"}},
		"an expression that makes floats": {strings.Replace(minimal(`"units":["EA"]`), `".sku"`, `".sku\n/ 2"`, 1), []string{"mapping.fields.source_record, line 2, column 1: /: "}},
		"more than a command can hold":    {strings.Repeat(" ", 1<<20+1), []string{"the feed has 1048577 bytes"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := feed.ParseJSON([]byte(test.payload))
			if err == nil {
				t.Fatal("accepted")
			}
			wantProblems(t, err, "", test.want)
			if coded, ok := errors.AsType[interface {
				error
				Code() string
			}](err); !ok || coded.Code() != offer.ReasonSchemaInvalid {
				t.Errorf("got %v, want the code %s", err, offer.ReasonSchemaInvalid)
			}
		})
	}
}

// minimal is a feed as JSON, with more settings.
func minimal(more string) string {
	return `{"feed":"f","tenant":"t1","connector":"c","account":"A","accepts":{"topics":["deliveries"],"source":"/s"},"order":"observed_at",` + more +
		`,"mapping":{"version":1,"fields":{"source_record":".sku"}}}`
}

func TestAProgramMayStandInAFileBesideTheFeed(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "feed.yaml")
	write("feed.yaml", head+"order: version\nmapping: {version: 1, program: map.jq}\n")

	_, err := feed.ParseFile(path)
	wantProblems(t, err, path+":7:32: ", []string{"mapping.program: cannot be read: "})

	write("map.jq", "# a row\n{source_record: .sku,\n source_version: (.rev + 0.5)}\n")
	_, err = feed.ParseFile(path)
	wantProblems(t, err, filepath.Join(dir, "map.jq"), []string{":3:24: mapping.program: +: ", ":3:26: mapping.program: 0.5: "})

	const program = "{source_record: .sku, source_version: .rev}\n"
	write("map.jq", program)
	s, err := feed.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if s.Mapping.Program != program {
		t.Errorf("got program %q, want %q", s.Mapping.Program, program)
	}

	write("map.jq", strings.Repeat("#", 32_769))
	_, err = feed.ParseFile(path)
	wantProblems(t, err, filepath.Join(dir, "map.jq"), []string{":1:1: the file has more than 32768 bytes"})

	write("feed.yaml", head+"order: version\nmapping: {version: 1, program: ../map.jq}\n")
	_, err = feed.ParseFile(path)
	wantProblems(t, err, path, []string{":7:34: mapping.program: /: "})

	if _, err := feed.ParseFile(filepath.Join(dir, "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: got %v, want ErrNotExist", err)
	}
}

func TestOwnTopicsAreNoInputTopics(t *testing.T) {
	for _, topic := range streams.OwnTopics(1) {
		_, err := feed.ParseYAML("feed.yaml", []byte(strings.Replace(head, "deliveries", topic.Name, 1)+tail))
		if err == nil {
			t.Errorf("a feed accepts events from %s, which offerlog writes", topic.Name)
		}
	}
}

// read maps one payload.
func read(t testing.TB, s feed.Spec, payload []byte) mapping.Result {
	t.Helper()
	p, err := mapping.Compile(s.Reading())
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.Map(t.Context(), &mapping.Request{Payload: payload, HasData: true, EventTime: offer.TimeOf(time.Unix(1_700_000_000, 0))})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestAcmeEUReadsItsExport(t *testing.T) {
	s, err := feed.ParseFile(filepath.Join(fixtures, "acme-eu", "feed.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		rows     int
		quantity string // of AX-440-R2; "" where it is not there
		at       string
	}{
		"EXP-8821.1.json":         {134, "", ""},
		"EXP-8821.2.json":         {133, "6", "2026-03-02T08:00:00Z"},
		"EXP-8821.3.json":         {133, "", ""},
		"EXP-8821.2-changed.json": {133, "5", "2026-03-02T08:00:00Z"},
		"EXP-8822.json":           {1, "4", "2026-03-02T09:00:00Z"},
		"EXP-8790.json":           {1, "9", "2026-03-02T07:30:00Z"},
	}
	records := map[string]bool{}
	for name, test := range tests {
		b, err := os.ReadFile(filepath.Join(fixtures, "acme-eu", name))
		if err != nil {
			t.Fatal(err)
		}
		res := read(t, s, b)
		if res.Fault != nil || len(res.Rows) != test.rows || len(res.Rejected)+res.Repeated > 0 {
			t.Fatalf("%s: got %d rows, want %d; fault %v, rejected %v, repeated %d", name, len(res.Rows), test.rows, res.Fault, res.Rejected, res.Repeated)
		}
		quantity, at := "", ""
		for _, row := range res.Rows {
			records[row.Record] = true
			if len(row.Warnings) > 0 || row.Content.Price.IsZero() || row.Content.Currency != "EUR" {
				t.Errorf("%s: got row %+v", name, row)
			}
			if row.Record == "AX-440-R2" {
				quantity, at = row.Content.Quantity.String(), row.ObservedAt.String()
				if row.Content.Price != offer.MustDecimal("820") {
					t.Errorf("%s: got price %s of AX-440-R2, want 820", name, row.Content.Price)
				}
			}
		}
		if quantity != test.quantity || at != test.at {
			t.Errorf("%s: AX-440-R2: got %q at %q, want %q at %q", name, quantity, at, test.quantity, test.at)
		}
	}
	if len(records) != 400 {
		t.Errorf("got %d records, want 400", len(records))
	}
}

func TestAcmeEUStockReadsItsChanges(t *testing.T) {
	s, err := feed.ParseFile(filepath.Join(fixtures, "acme-eu-stock", "feed.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		version int64
		deleted bool
	}{"BX-210.v8.json": {8, false}, "BX-210.v9-deleted.json": {9, true}} {
		b, err := os.ReadFile(filepath.Join(fixtures, "acme-eu-stock", name))
		if err != nil {
			t.Fatal(err)
		}
		res := read(t, s, b)
		if len(res.Rows) != 1 || res.Rows[0].Version != want.version || res.Rows[0].Content.Deleted != want.deleted || res.Rows[0].Record != "BX-210" {
			t.Errorf("%s: got %+v", name, res)
		}
	}
}

func FuzzParseYAML(f *testing.F) {
	for _, seed := range []string{head + tail, head + tail + "    price: |\n      .a\n      | dmul(.; \"2\")\n", "a: [1, {b: 'c'}]\n", "- - a\n", "a: \"\\u00e9\\0\"\n", "? a\n: b\n", "a: &x *x\n", "---\n...\n", "a: >2-\n   b\n\n c\n", "\"a\":\n- b\n- !x c\n", "0x1: .inf\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := feed.ParseYAML("f.yaml", b)
		if err != nil {
			invalid, ok := errors.AsType[*feed.InvalidError](err)
			if !ok {
				t.Fatalf("got %v, want an InvalidError", err)
			}
			for _, p := range invalid.Problems {
				if p.File != "f.yaml" || p.Line < 1 || p.Column < 1 || p.Line > bytes.Count(b, []byte("\n"))+1 {
					t.Fatalf("a problem without a place in the file: %+v", p)
				}
			}
			return
		}
		out, err := s.JSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := feed.ParseJSON(out)
		if err != nil {
			t.Fatalf("the command is refused where the file is not: %v", err)
		}
		if got, _ := again.JSON(); !bytes.Equal(got, out) {
			t.Fatalf("as JSON and back:\n got %s\nwant %s", got, out)
		}
	})
}
