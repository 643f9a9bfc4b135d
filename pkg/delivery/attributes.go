package delivery

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"

	"github.com/offerlog/offerlog/pkg/offer"
)

// Limits of attributes, in bytes. Id and source are parts of keys, which an index must hold; the others are bounded as
// any field of a payload is.
const (
	maxKeyBytes       = 1024
	maxAttributeBytes = 64 << 10
)

const (
	nameData         = "data"
	nameDataBase64   = "data_base64"
	nameContentType  = "datacontenttype"
	nameDataSchema   = "dataschema"
	nameID           = "id"
	nameRecordedTime = "recordedtime"
	nameSource       = "source"
	nameSpecVersion  = "specversion"
	nameSubject      = "subject"
	nameTime         = "time"
	nameType         = "type"
)

// Details of not_a_cloudevent.
const (
	detailMissing   = "ce_missing_attribute"
	detailInvalid   = "ce_invalid_attribute"
	detailDuplicate = "ce_duplicate_attribute"
	detailAmbiguous = "ce_ambiguous_data"
)

var required = [...]string{nameSpecVersion, nameID, nameSource, nameType}

// attributes collects the attributes of one event as text, and the first thing that is wrong with them. Reading goes on
// after a fault: whoever looks into quarantine wants to see the id and the source.
type attributes struct {
	values map[string]string
	fault  *offer.Fault
}

func (a *attributes) refuse(f *offer.Fault) {
	if a.fault == nil {
		a.fault = f
	}
}

// put takes one attribute, if it is well formed.
func (a *attributes) put(name, value string) {
	if name == nameData {
		a.refuse(invalid(detailInvalid, "", "no attribute may be named data"))
		return
	}
	if !validName(name) {
		a.refuse(invalid(detailInvalid, "", "attribute name "+quote(name)+": want a-z and 0-9 only"))
		return
	}
	if _, ok := a.values[name]; ok {
		a.refuse(invalid(detailDuplicate, name, "attribute is there twice"))
		return
	}
	if problem := textProblem(name, value); problem != "" {
		a.refuse(invalid(detailInvalid, name, problem))
		return
	}
	if a.values == nil {
		a.values = make(map[string]string, 12)
	}
	a.values[name] = value
}

// item checks what was collected and makes an event of it, or a refused item with raw as its evidence.
func (a *attributes) item(raw []byte, p payload) Item {
	it := Item{Fault: a.fault, Raw: raw, Event: Event{
		ID:          a.values[nameID],
		Source:      a.values[nameSource],
		Type:        a.values[nameType],
		Subject:     a.values[nameSubject],
		ContentType: a.values[nameContentType],
		Attributes:  a.values,
		Data:        p.data,
		HasData:     p.ok,
	}}
	if p.contentType != "" {
		it.Event.ContentType = p.contentType
	}
	times, fault := check(a.values)
	it.Event.Time, it.Event.RecordedTime = times.event, times.recorded
	if it.Fault == nil {
		it.Fault = fault
	}
	if it.Fault == nil {
		it.Raw = p.data
	}
	return it
}

// times are the attributes that a record of ours keeps as instants.
type times struct{ event, recorded offer.Time }

// check holds a complete set of well-formed attributes against the CloudEvents specification.
func check(values map[string]string) (t times, fault *offer.Fault) {
	for _, name := range required {
		if strings.TrimSpace(values[name]) == "" {
			return t, invalid(detailMissing, name, "attribute is missing or empty")
		}
	}
	if v := values[nameSpecVersion]; v != event.CloudEventsVersionV1 {
		return t, invalid(detailMissing, nameSpecVersion, "version "+quote(v)+": want 1.0")
	}
	if t.event, fault = timeOf(values, nameTime); fault != nil {
		return t, fault
	}
	if t.recorded, fault = timeOf(values, nameRecordedTime); fault != nil {
		return t, fault
	}
	return t, checkSyntax(values)
}

func timeOf(values map[string]string, name string) (offer.Time, *offer.Fault) {
	text, ok := values[name]
	if !ok {
		return offer.Time{}, nil
	}
	t, err := offer.ParseTime(text)
	if err != nil {
		return offer.Time{}, invalid(detailInvalid, name, err.Error())
	}
	return t, nil
}

// checkSyntax lets the CloudEvents SDK judge URIs and media types. The SDK's copy of the attributes is not used further:
// it rewrites URIs, and sources are compared byte by byte.
func checkSyntax(values map[string]string) *offer.Fault {
	ec := event.EventContextV1{ID: values[nameID], Type: values[nameType]}
	source := types.ParseURIRef(values[nameSource])
	if source == nil {
		return invalid(detailInvalid, nameSource, quote(values[nameSource])+" is no URI reference")
	}
	ec.Source = *source
	if v, ok := values[nameSubject]; ok {
		ec.Subject = &v
	}
	if v, ok := values[nameContentType]; ok {
		ec.DataContentType = &v
	}
	if v, ok := values[nameDataSchema]; ok {
		if ec.DataSchema = types.ParseURI(v); ec.DataSchema == nil {
			return invalid(detailInvalid, nameDataSchema, quote(v)+" is no URI")
		}
	}
	if err := (event.Event{Context: &ec}).Validate(); err != nil {
		var all event.ValidationError
		if errors.As(err, &all) {
			for _, name := range []string{nameSource, nameSubject, nameContentType, nameDataSchema} {
				if all[name] != nil {
					return invalid(detailInvalid, name, all[name].Error())
				}
			}
		}
		return invalid(detailInvalid, "", err.Error())
	}
	return nil
}

func validName(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// textProblem says why value is no CloudEvents string: these exclude what a log line, a terminal or PostgreSQL cannot
// hold either.
func textProblem(name, value string) string {
	limit := maxAttributeBytes
	if name == nameID || name == nameSource {
		limit = maxKeyBytes
	}
	if len(value) > limit {
		return fmt.Sprintf("%d bytes: at most %d are taken", len(value), limit)
	}
	for i, r := range value {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(value[i:]); n == 1 {
				return fmt.Sprintf("byte %d is not UTF-8", i+1)
			}
		}
		if r < 0x20 || 0x7f <= r && r < 0xa0 || r&0xfffe == 0xfffe || 0xfdd0 <= r && r <= 0xfdef {
			return fmt.Sprintf("character %U at byte %d: no attribute may hold it", r, i+1)
		}
	}
	return ""
}

func invalid(detail, path, message string) *offer.Fault {
	return &offer.Fault{Reason: offer.ReasonNotACloudEvent, Detail: detail, Path: path, Message: message}
}

// quote makes foreign text safe and short enough for a message.
func quote(s string) string {
	const limit = 64
	if len(s) > limit {
		s = s[:limit] + "..."
	}
	return strconv.QuoteToASCII(s)
}
