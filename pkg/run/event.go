package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/schemas"
)

// A Kind says what an event tells of a run.
type Kind string

// Kinds of events.
const (
	Started   Kind = "started"
	Completed Kind = "completed"
	Failed    Kind = "failed"
)

// An Event is what a connector said of a run.
type Event struct {
	Tenant     string
	Run        uuid.UUID
	Delivery   offer.DeliveryID // its own id
	Kind       Kind
	At         offer.Time
	Credential string // with which one, by reference
	Pages      int    // started: asked for; completed: fetched
	Page       int    // that failed; 0: the run as a whole
	Attempt    int
	Error      string
	RecordedAt time.Time

	toldAt string // At, where the data gives it
}

// Fingerprint is what an event of a run is compared by when its key comes again. Numbers and texts of the data count, their
// spelling and the event's own time do not.
func (e *Event) Fingerprint(name string) offer.Fingerprint {
	b, err := json.Marshal([]any{e.Kind, name, e.toldAt, e.Credential, e.Pages, e.Page, e.Attempt, e.Error})
	if err != nil {
		panic("run: texts and numbers that are not JSON: " + err.Error())
	}
	return offer.Fingerprint{Canonicalization: offer.CanonicalRun, Digest: offer.Sum(b)}
}

const schemaID = "https://offerlog.dev/schemas/run.v1.json"

// contracts are the definitions of the embedded schema, by kind. No schema is ever loaded by its URL.
var contracts = sync.OnceValue(func() map[Kind]*jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemas.Run))
	if err != nil {
		panic("run: the embedded schema is not JSON: " + err.Error())
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	if err := c.AddResource(schemaID, doc); err != nil {
		panic("run: the embedded schema: " + err.Error())
	}
	all := map[Kind]*jsonschema.Schema{}
	for _, k := range []Kind{Started, Completed, Failed} {
		all[k] = c.MustCompile(schemaID + "#/$defs/" + string(k))
	}
	return all
})

// maxEventBytes is far above what the schema allows.
const maxEventBytes = 64 << 10

// ParseEvent reads the data of a run event, as schemas/run.v1.json describes it. No message repeats what the data says: it may
// be the secret that does not belong there. Where the data gives no time, it is the given one.
func ParseEvent(kind Kind, data []byte, at offer.Time) (Event, *offer.Fault) {
	if len(data) > maxEventBytes {
		return Event{}, invalid("", "the data of a run event has at most 64 KiB")
	}
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{}")
	}
	// The standard library would take the last of two equal names, and repair broken text.
	if _, err := jsontext.AppendFormat(nil, data); err != nil {
		return Event{}, invalid("", "the data of a run event is JSON without a name twice")
	}
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return Event{}, invalid("", "the data of a run event is JSON")
	}
	var refused *jsonschema.ValidationError
	if err := contracts()[kind].Validate(root); errors.As(err, &refused) {
		return Event{}, explain(refused)
	}
	var d struct {
		StartedAt   *offer.Time `json:"started_at"`
		CompletedAt *offer.Time `json:"completed_at"`
		FailedAt    *offer.Time `json:"failed_at"`
		Credential  string      `json:"credential"`
		Pages       int         `json:"pages"`
		Page        int         `json:"page"`
		Attempt     int         `json:"attempt"`
		Error       string      `json:"error"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return Event{}, invalid("/"+string(kind)+"_at", "want an RFC 3339 time with a zone, such as 2025-03-01T10:00:00Z")
	}
	if secret(d.Credential) {
		return Event{}, invalid("/credential", "it looks like a secret: want the name under which one is kept, such as vault:suppliers/acme#reader; change the secret, it is in the log now")
	}
	e := Event{Kind: kind, At: at, Credential: d.Credential, Pages: d.Pages, Page: d.Page, Attempt: d.Attempt, Error: d.Error}
	for _, told := range []*offer.Time{d.StartedAt, d.CompletedAt, d.FailedAt} {
		if told != nil && !told.IsZero() {
			e.At, e.toldAt = *told, told.Text
		}
	}
	if strings.ContainsRune(d.Error, 0) {
		return Event{}, invalid("/error", "want a text without U+0000")
	}
	return e, nil
}

func invalid(path, message string) *offer.Fault {
	return &offer.Fault{Reason: offer.ReasonSchemaInvalid, Path: path, Message: message}
}

// explain names the first member that the schema refuses, and what it should be.
func explain(e *jsonschema.ValidationError) *offer.Fault {
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	path := ""
	for _, name := range e.InstanceLocation {
		path += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	return invalid(path[:min(len(path), 64)], "the data of a run event is not what schemas/run.v1.json describes: see the definition of its kind")
}

// secretForms are how well known issuers begin a token, and what an encoded one looks like: a reference is a name, made of words.
var secretForms = regexp.MustCompile(`(?i)^(basic|bearer|password|token|secret|apikey|api-key):|[:/](eyJ|gh[pousr]_|github_pat_|sk[-_](live|test)|xox[abprs]-|AKIA|ASIA|AIza|glpat-)|[A-Za-z0-9_-]{40,}|://[^/]*:`)

// secret reports whether a reference looks like the secret itself.
func secret(reference string) bool { return secretForms.MatchString(reference) }
