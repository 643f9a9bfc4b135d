package run_test

import (
	"strings"
	"testing"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/run"
)

func TestWhatARunEventSays(t *testing.T) {
	at, err := offer.ParseTime("2025-03-01T10:00:00Z")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		kind run.Kind
		data string
		want string // path and end of the fault; "": none
	}{
		"a start with everything":                {run.Started, `{"started_at": "2025-03-01T09:00:00+01:00", "credential": "vault:suppliers/acme#reader", "pages": 3}`, ""},
		"a start with nothing":                   {run.Started, ``, ""},
		"a credential in an environment":         {run.Started, `{"credential": "env:ACME_TOKEN"}`, ""},
		"a cloud's name of a secret":             {run.Started, `{"credential": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:acme/reader"}`, ""},
		"an end":                                 {run.Completed, `{"pages": 3}`, ""},
		"an end without a number of pages":       {run.Completed, `{}`, ": "},
		"a failure":                              {run.Failed, `{"page": 3, "attempt": 2, "failed_at": "2025-03-01T10:05:00Z", "error": "503 Service Unavailable"}`, ""},
		"a failure without a cause":              {run.Failed, `{"page": 3}`, ": "},
		"a page zero":                            {run.Failed, `{"page": 0, "error": "x"}`, "/page: "},
		"a member nobody knows":                  {run.Started, `{"page": 1}`, ": "},
		"a name twice":                           {run.Completed, `{"pages": 3, "pages": 4}`, ": "},
		"no JSON":                                {run.Started, `started`, ": "},
		"a local time":                           {run.Started, `{"started_at": "2025-03-01 10:00"}`, "/started_at: "},
		"S_000_05 a credential that is no name":  {run.Started, `{"credential": "hunter2"}`, "/credential: "},
		"S_000_05 a password in a URL":           {run.Started, `{"credential": "https://reader:hunter2"}`, "/credential: "},
		"S_000_05 an authorisation header":       {run.Started, `{"credential": "bearer:abc"}`, "/credential: "},
		"S_000_05 a JSON web token":              {run.Started, `{"credential": "jwt:eyJhbGciOiJIUzI1NiJ9.e30.x"}`, "/credential: "},
		"S_000_05 a token of a well known shape": {run.Started, `{"credential": "github:ghp_16C7e42F292c6912E7710c838347Ae178B4a"}`, "/credential: "},
		"S_000_05 a long run of letters":         {run.Started, `{"credential": "key:` + strings.Repeat("aB3", 20) + `"}`, "/credential: "},
	} {
		t.Run(name, func(t *testing.T) {
			e, fault := run.ParseEvent(test.kind, []byte(test.data), at)
			if test.want == "" {
				if fault != nil || e.Kind != test.kind || e.At.IsZero() {
					t.Errorf("got %+v, %v", e, fault)
				}
				return
			}
			if fault == nil || !strings.HasPrefix(fault.Path+": ", test.want) || fault.Reason != offer.ReasonSchemaInvalid {
				t.Fatalf("got %+v, %v, want a fault of %q", e, fault, test.want)
			}
			for _, secret := range []string{"hunter2", "abc", "eyJ", "ghp_", "aB3"} {
				if strings.Contains(fault.Error(), secret) {
					t.Errorf("the fault repeats what may be a secret: %v", fault)
				}
			}
		})
	}
}

func TestTheFingerprintOfARunEventIsItsMeaning(t *testing.T) {
	parse := func(kind run.Kind, data string, at string) run.Event {
		t.Helper()
		when, err := offer.ParseTime(at)
		if err != nil {
			t.Fatal(err)
		}
		e, fault := run.ParseEvent(kind, []byte(data), when)
		if fault != nil {
			t.Fatal(fault)
		}
		return e
	}
	first := parse(run.Failed, `{"page": 3, "attempt": 1, "error": "x"}`, "2025-03-01T10:00:00Z")
	again := parse(run.Failed, `{"error":"\u0078", "attempt":1,"page":3}`, "2025-03-01T11:00:00Z")
	other := parse(run.Failed, `{"page": 3, "attempt": 2, "error": "x"}`, "2025-03-01T10:00:00Z")
	if first.Fingerprint("R") != again.Fingerprint("R") {
		t.Error("an event that was written anew is another one")
	}
	if first.Fingerprint("R") == other.Fingerprint("R") || first.Fingerprint("R") == first.Fingerprint("S") {
		t.Error("another attempt, or another run, is the same event")
	}
}
