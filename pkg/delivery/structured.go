package delivery

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/offerlog/offerlog/pkg/offer"
)

// textAttributes are strings by specification: the CloudEvents ones, the documented extensions, and our own. Other
// extensions may be integers or booleans.
var textAttributes = []string{
	nameID, nameSource, nameSpecVersion, nameType, nameContentType, nameDataSchema, nameSubject, nameTime,
	Dataref, "partitionkey", nameRecordedTime, "sequence", "traceparent", "tracestate",
	"cursor", "endpoint", "runid",
}

// A payload is an event's data with the content type to read it by, where the envelope decides about that.
type payload struct {
	data        []byte
	ok          bool
	contentType string
}

// newEnvelope reads JSON without judging what is inside data: duplicate names and broken text there are the payload's
// faults, found under the feed's format. The envelope's own are found by decodeStructured: if the last of two ids won in
// silence, two readers could disagree on which delivery this is.
func newEnvelope(value []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(value), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

func decodeBatch(value []byte) []Item {
	elements, err := splitBatch(value)
	if err != nil {
		return []Item{refuse(value, invalid("", "", "the batch is no JSON array of events: "+problem(err)))}
	}
	items := make([]Item, len(elements))
	for i, raw := range elements {
		items[i] = decodeStructured(raw)
		items[i].Event.Item = i
	}
	return items
}

// splitBatch returns the elements as sent. All of the array is read before any element counts: of a batch that was cut
// off nobody knows how many events it had.
func splitBatch(value []byte) (elements [][]byte, err error) {
	value = trimMark(value)
	dec := newEnvelope(value)
	if err := open(dec, '['); err != nil {
		return nil, err
	}
	for dec.PeekKind() != ']' {
		if len(elements) == MaxBatch {
			return nil, fmt.Errorf("it has more than %d events; send them in several", MaxBatch)
		}
		raw, err := readRaw(dec, value)
		if err != nil {
			return nil, err
		}
		elements = append(elements, raw)
	}
	return elements, finish(dec)
}

// A member is one name of an envelope with its value, as sent.
type member struct {
	name string
	raw  jsontext.Value
}

func decodeStructured(value []byte) Item {
	var (
		a             attributes
		data, encoded jsontext.Value // nil: unset
	)
	members, err := readMembers(trimMark(value))
	if err != nil {
		a.refuse(invalid("", "", "the value is no JSON object of the CloudEvents format: "+problem(err)))
	}
	seen := make(map[string]bool, len(members))
	for _, m := range members {
		switch {
		case seen[m.name]:
			a.refuse(invalid(detailDuplicate, "", "member "+quote(m.name)+" is there twice"))
		case m.raw.Kind() == 'n': // null is unset
		case m.name == nameData:
			data = m.raw
		case m.name == nameDataBase64:
			encoded = m.raw
		default:
			a.putJSON(m)
		}
		seen[m.name] = true
	}
	if data != nil && encoded != nil {
		a.refuse(invalid(detailAmbiguous, "", "data and data_base64 are both there"))
	}
	if a.fault != nil {
		return a.item(value, payload{})
	}
	p, fault := payloadOf(data, encoded, a.values[nameContentType])
	if fault != nil {
		a.refuse(fault)
	}
	return a.item(value, p)
}

// readMembers returns the members of the object that value is, and with an error those before it.
func readMembers(value []byte) (members []member, err error) {
	dec := newEnvelope(value)
	if err := open(dec, '{'); err != nil {
		return nil, err
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return members, err
		}
		m := member{name: name.String()} // before the next read, which the token does not outlive
		if m.raw, err = readRaw(dec, value); err != nil {
			return members, err
		}
		members = append(members, m)
	}
	return members, finish(dec)
}

// putJSON takes one attribute of an envelope.
func (a *attributes) putJSON(m member) {
	text, problem := attributeText(m.name, m.raw)
	if problem != "" && validName(m.name) {
		a.refuse(invalid(detailInvalid, m.name, problem))
		return
	}
	a.put(m.name, text)
}

// attributeText returns an attribute's canonical text, or what is wrong with it.
func attributeText(name string, raw jsontext.Value) (text, problem string) {
	kind := raw.Kind()
	if kind == '"' {
		b, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			return "", "the text is no valid Unicode"
		}
		return string(b), ""
	}
	if slices.Contains(textAttributes, name) {
		return "", "want a JSON string, have " + kind.String()
	}
	switch kind {
	case 't', 'f':
		return string(raw), ""
	case '0':
		n, err := strconv.ParseInt(string(raw), 10, 32)
		if err != nil {
			return "", "number " + quote(string(raw)) + ": want an integer of 32 bits, or a string"
		}
		return strconv.FormatInt(n, 10), ""
	default:
		return "", "want a JSON string, integer or boolean, have " + kind.String()
	}
}

func payloadOf(data, encoded jsontext.Value, contentType string) (payload, *offer.Fault) {
	switch {
	case data != nil:
		return jsonPayload(data, contentType)
	case encoded != nil:
		return base64Payload(encoded)
	default:
		return payload{}, nil
	}
}

// jsonPayload takes data as sent. Only a string under a content type other than JSON stands for its text; a JSON string
// stays one.
func jsonPayload(raw jsontext.Value, contentType string) (payload, *offer.Fault) {
	if contentType == "" {
		contentType = "application/json" // what the CloudEvents JSON format implies
	}
	p := payload{data: raw, ok: true, contentType: inUTF8(contentType)}
	if raw.Kind() != '"' || isJSON(contentType) {
		return p, nil
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return payload{}, &offer.Fault{
			Reason: offer.ReasonInvalidText, Detail: "text_invalid_unicode", Path: nameData,
			Message: "the text is no valid Unicode",
		}
	}
	p.data = text
	return p, nil
}

func base64Payload(raw jsontext.Value) (payload, *offer.Fault) {
	if raw.Kind() != '"' {
		return payload{}, invalid(detailInvalid, nameDataBase64, "want a JSON string, have "+raw.Kind().String())
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return payload{}, invalid(detailInvalid, nameDataBase64, "the text is no valid Unicode")
	}
	data := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(data, text)
	if err != nil {
		return payload{}, invalid(detailInvalid, nameDataBase64, err.Error())
	}
	return payload{data: data[:n], ok: true}, nil
}

func isJSON(contentType string) bool {
	media := mediaType(contentType)
	return strings.HasSuffix(media, "/json") || strings.HasSuffix(media, "+json")
}

// inUTF8 marks a content type with the charset that JSON text has. One that cannot be read is refused later, as an
// attribute.
func inUTF8(contentType string) string {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return contentType
	}
	params["charset"] = "utf-8"
	return mime.FormatMediaType(media, params)
}

func open(dec *jsontext.Decoder, delim jsontext.Kind) error {
	if kind := dec.PeekKind(); kind != delim && kind != 0 {
		return fmt.Errorf("it is a JSON %v", kind)
	}
	_, err := dec.ReadToken()
	return err
}

// finish reads the closing bracket, after which there may be white space only.
func finish(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("more text after its end, at byte %d", dec.InputOffset()+1)
	}
	return nil
}

// readRaw returns the next value as a part of value, so that megabytes of data are not copied.
func readRaw(dec *jsontext.Decoder, value []byte) (jsontext.Value, error) {
	raw, err := dec.ReadValue()
	if err != nil {
		return nil, err
	}
	end := dec.InputOffset()
	return value[end-int64(len(raw)) : end : end], nil
}

// problem is the decoder's error in words that are short and hold none of the payload.
func problem(err error) string {
	if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Sprintf("it ends early, at byte %d", syntax.ByteOffset+1)
		}
		return fmt.Sprintf("it is malformed at byte %d", syntax.ByteOffset+1)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends early"
	}
	return err.Error()
}

// trimMark removes a UTF-8 byte order mark, which some publishers write and JSON does not know.
func trimMark(value []byte) []byte { return bytes.TrimPrefix(value, []byte("\ufeff")) }
