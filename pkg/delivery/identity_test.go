package delivery_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/offer"
)

// identity reads the setting of a feed.
func identity(t *testing.T, setting string) (id delivery.Identity) {
	t.Helper()
	if err := json.Unmarshal([]byte(setting), &id); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestAnIdentityIsReadAsItIsWritten(t *testing.T) {
	for setting, want := range map[string]string{
		`"event"`:                                `"event"`,
		`{"fields": ["exportid"]}`:               `{"fields":["exportid"]}`,
		`{"fields": ["subject", "fileversion"]}`: `{"fields":["fileversion","subject"]}`, // whatever the order
		`{"fallback": ["payload", "cursor"]}`:    `{"fallback":["cursor","payload"]}`,
	} {
		id := identity(t, setting)
		b, err := json.Marshal(id)
		if err != nil || string(b) != want {
			t.Errorf("%s: got %s and error %v, want %s", setting, b, err, want)
		}
		if again := identity(t, string(b)); !reflect.DeepEqual(again, id) {
			t.Errorf("%s: got %+v again, want %+v", setting, again, id)
		}
	}
}

func TestS_000_14_a_delivery_is_named_by_the_strongest_that_its_source_has(t *testing.T) {
	for what, c := range map[string]struct {
		setting    string
		attributes []string
		want       string
	}{
		"the event's id":                           {`"event"`, nil, ""},
		"an export's id":                           {`{"fields": ["exportid"]}`, []string{"ce_exportid", "EXP/88 21"}, "exportid=EXP%2F88%2021"},
		"a file's name and version":                {`{"fields": ["subject", "fileversion"]}`, []string{"ce_subject", "stock.csv", "ce_fileversion", "3"}, "fileversion=3&subject=stock.csv"},
		"a snapshot's token":                       {`{"fields": ["snapshot"]}`, []string{"ce_snapshot", "0a=:"}, "snapshot=0a%3D%3A"},
		"the source's time, however it is written": {`{"fields": ["time"]}`, []string{"ce_time", "2025-03-01T09:00:00.50+01:00"}, "time=2025-03-01T08%3A00%3A00.5Z"},
	} {
		it := decodeOne(t, binary([]byte("{}"), c.attributes...))
		got, fault := identity(t, c.setting).Declare("ACC-1", &it.Event)
		if fault != nil || got != c.want {
			t.Errorf("%s: got %q and fault %v, want %q", what, got, fault, c.want)
		}
		key := offer.ReplayKey{EventID: it.Event.ID, Declared: got}
		if key.Weak() {
			t.Errorf("%s: got a weak key", what)
		}
	}
}

func TestS_000_25_five_inputs_name_what_has_no_name(t *testing.T) {
	id := identity(t, `{"fallback": ["account", "endpoint", "cursor", "time", "payload"]}`)
	type inputs struct{ account, endpoint, cursor, time, payload string }
	declare := func(in inputs, eventID string) string {
		t.Helper()
		it := decodeOne(t, binary([]byte(in.payload), "ce_id", eventID, "ce_endpoint", in.endpoint, "ce_cursor", in.cursor, "ce_time", in.time))
		got, fault := id.Declare(in.account, &it.Event)
		if fault != nil {
			t.Fatalf("%+v: got %v", in, fault)
		}
		if !(offer.ReplayKey{Declared: got}).Weak() {
			t.Errorf("%+v: %s is not weak", in, got)
		}
		return got
	}
	base := inputs{"ACC-1", "/offers", "page-2", "2025-03-01T08:00:00Z", "[1]"}
	first := declare(base, "random-1")
	if again := declare(base, "random-2"); again != first {
		t.Errorf("the same five inputs under another id: got %s and %s, want one key", first, again)
	}
	seen := map[string]string{first: "none"}
	for what, in := range map[string]inputs{
		"account":  {"ACC-2", "/offers", "page-2", "2025-03-01T08:00:00Z", "[1]"},
		"endpoint": {"ACC-1", "/stock", "page-2", "2025-03-01T08:00:00Z", "[1]"},
		"cursor":   {"ACC-1", "/offers", "page-3", "2025-03-01T08:00:00Z", "[1]"},
		"time":     {"ACC-1", "/offers", "page-2", "2025-03-01T08:00:00.000000001Z", "[1]"},
		"payload":  {"ACC-1", "/offers", "page-2", "2025-03-01T08:00:00Z", "[1] "},
	} {
		key := declare(in, "random-1")
		if other, taken := seen[key]; taken {
			t.Errorf("another %s: got the key of another %s, want one of its own", what, other)
		}
		seen[key] = what
	}
}

func TestAnInputThatIsNotThere(t *testing.T) {
	for what, c := range map[string]struct {
		setting      string
		attributes   []string
		path, detail string // of the fault; "": there is none
	}{
		"a field":                          {`{"fields": ["exportid", "page"]}`, []string{"ce_exportid", "1"}, "page", "ce_missing_attribute"},
		"a field of blanks":                {`{"fields": ["exportid"]}`, []string{"ce_exportid", "  "}, "exportid", "ce_missing_attribute"},
		"a field that no key has room for": {`{"fields": ["exportid"]}`, []string{"ce_exportid", strings.Repeat("x", 1025)}, "exportid", "ce_invalid_attribute"},
		"a cursor of a first page":         {`{"fallback": ["endpoint", "cursor"]}`, []string{"ce_endpoint", "/offers"}, "", ""},
		"all inputs of a fallback":         {`{"fallback": ["account", "endpoint", "cursor"]}`, nil, "", "ce_missing_attribute"},
	} {
		it := decodeOne(t, binary([]byte("{}"), c.attributes...))
		got, fault := identity(t, c.setting).Declare("ACC-1", &it.Event)
		switch {
		case c.detail == "" && (fault != nil || got == ""):
			t.Errorf("%s: got %q and fault %v", what, got, fault)
		case c.detail != "" && (fault == nil || fault.Detail != c.detail || fault.Path != c.path || fault.Reason != offer.ReasonNotACloudEvent):
			t.Errorf("%s: got fault %v, want %s at %q", what, fault, c.detail, c.path)
		}
	}
}

func TestNoPayloadAndAnEmptyOneAreTwo(t *testing.T) {
	id := identity(t, `{"fallback": ["endpoint", "payload"]}`)
	empty, none := decodeOne(t, binary([]byte{}, "ce_endpoint", "/offers")), decodeOne(t, binary(nil, "ce_endpoint", "/offers"))
	a, _ := id.Declare("ACC-1", &empty.Event)
	b, _ := id.Declare("ACC-1", &none.Event)
	if a == b || a == "" || b == "" {
		t.Errorf("got %s and %s, want two", a, b)
	}
}
