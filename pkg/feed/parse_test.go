package feed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
			return s.Identity == "event" && s.Policy.InvalidRow == feed.InvalidRowAlone && s.Format.Kind == mapping.KindJSON && s.Fingerprint == mapping.FingerprintJSON &&
				s.Limits.MaxBytes == 16777216 && s.NoData == mapping.NoDataRefuse && len(s.NullTokens) == 1 && s.NullTokens[0] == ""
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
	tests := map[string]struct {
		file string
		want []string // each problem's beginning
	}{
		"x": {head + tail, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := feed.ParseYAML("feed.yaml", []byte(test.file))
			invalid, ok := errors.AsType[*feed.InvalidError](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			_ = invalid
		})
	}
}

var _ = []any{context.Background, json.Marshal, fmt.Sprint, fs.WalkDir, os.ReadFile, filepath.Join, offer.Sum, streams.OwnTopics}
