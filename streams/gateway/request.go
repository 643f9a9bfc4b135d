package gateway

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/streams"
)

// body reads what was sent, up to the largest payload. The memory that it may take is reserved before a byte is read, so that
// no number of clients can take more than there is; release gives it back.
func (s *Stage) body(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	tooLarge := problem(codeTooLarge, "a payload of more than "+strconv.Itoa(delivery.MaxInline)+
		" bytes is not carried by an event: put the file where offerlog can fetch it, and send its address in the attribute dataref")
	if r.ContentLength > delivery.MaxInline {
		return nil, nil, tooLarge
	}
	size := r.ContentLength
	if size < 0 { // chunked
		size = delivery.MaxInline
	}
	if !s.memory.TryAcquire(size) {
		return nil, nil, unavailable("too much is in hand at the moment; send the same again")
	}
	defer func() {
		if err != nil {
			s.memory.Release(size)
		}
	}()
	reader := http.MaxBytesReader(w, r.Body, delivery.MaxInline)
	if r.ContentLength >= 0 {
		body = make([]byte, size)
		_, err = io.ReadFull(reader, body)
	} else {
		body, err = io.ReadAll(reader)
	}
	_, isLarge := errors.AsType[*http.MaxBytesError](err)
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case err == nil:
		return body, func() { s.memory.Release(size) }, nil
	case isLarge:
		return nil, nil, tooLarge
	case isNet && timeout.Timeout():
		return nil, nil, problem(codeSlow, "the whole request must arrive within "+s.cfg.Body.String())
	}
	return nil, nil, problem(codeBadRequest, "the body ended early")
}

// recordOf is the record that the request's event, or batch of events, would be on Kafka. Where the request names a feed, what
// a plain file lacks comes from there: of the attributes those that say what kind of event it is and whose, and the id.
func recordOf(r *http.Request, body []byte, f *feed.Registered) (*kgo.Record, error) {
	rec := &kgo.Record{Value: body}
	for _, v := range r.Header.Values("Content-Type") {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: "content-type", Value: []byte(v)})
	}
	media := mediaType(r)
	if strings.HasPrefix(media, "application/cloudevents") {
		return rec, nil // the event is in the body, or it is in no format that is read here
	}
	has := map[string]bool{}
	for name, values := range r.Header {
		attribute, ok := strings.CutPrefix(name, "Ce-")
		if !ok {
			continue
		}
		attribute = strings.ToLower(attribute)
		has[attribute] = true
		for _, v := range values {
			text, err := decodeValue(v)
			if err != nil {
				return nil, problem(offer.ReasonNotACloudEvent, "header "+quote("ce-"+attribute)+": "+err.Error())
			}
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: "ce_" + attribute, Value: []byte(text)})
		}
	}
	if f == nil {
		if len(body) == 0 && len(r.Header.Values("Content-Type")) == 0 {
			rec.Value = nil // an event without data
		}
		return rec, nil
	}
	if media == "multipart/form-data" || media == "application/x-www-form-urlencoded" {
		return nil, problem(codeForm, "send the file as it is, with its own content type: curl --data-binary @FILE -H 'Content-Type: text/csv'")
	}
	id, err := fileID(r, body, f.Feed)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"specversion": "1.0", "type": streams.DeliveryType, "source": f.Source, "id": id} {
		if !has[name] {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: "ce_" + name, Value: []byte(value)})
		}
	}
	return rec, nil
}

// fileID is the id of a file whose sender gives none as an attribute: the idempotency key, which says the same, or what the
// file itself says.
func fileID(r *http.Request, body []byte, feedName string) (string, error) {
	switch keys := r.Header.Values("Idempotency-Key"); {
	case len(keys) > 1:
		return "", problem(codeBadRequest, "header Idempotency-Key is there twice")
	case len(keys) == 1:
		key, err := unquote(keys[0])
		if err != nil || key == "" {
			return "", problem(codeBadRequest, "header Idempotency-Key: want a text, which is the delivery's id")
		}
		return key, nil
	}
	name := feedName
	if _, params, err := mime.ParseMediaType(r.Header.Get("Content-Disposition")); err == nil && params["filename"] != "" {
		name = path.Base(strings.ReplaceAll(params["filename"], `\`, "/"))
	}
	return delivery.FileID(name, body), nil
}

func mediaType(r *http.Request) string {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// decodeValue reads an attribute from a header as the HTTP binding says: double quotes are taken off first, then one round of
// percent-decoding is made. Whether the text that this gives may be an attribute is for package delivery to say.
func decodeValue(v string) (string, error) {
	v, err := unquote(v)
	if err != nil || !strings.Contains(v, "%") {
		return v, err
	}
	var b bytes.Buffer
	for i := 0; i < len(v); i++ {
		if v[i] != '%' {
			b.WriteByte(v[i])
			continue
		}
		if i+2 >= len(v) {
			return "", errPercent
		}
		c, err := hex.DecodeString(v[i+1 : i+3])
		if err != nil {
			return "", errPercent
		}
		b.Write(c)
		i += 2
	}
	return b.String(), nil
}

var (
	errPercent = errors.New("a percent sign stands before two hex digits; itself it is written %25")
	errQuotes  = errors.New("the quotes are not closed")
)

// unquote takes a quoted string of HTTP for its text; another text stands for itself.
func unquote(v string) (string, error) {
	if !strings.HasPrefix(v, `"`) {
		return v, nil
	}
	var b strings.Builder
	for i := 1; i < len(v); i++ {
		switch {
		case v[i] == '"' && i == len(v)-1:
			return b.String(), nil
		case v[i] == '"':
			return "", errQuotes
		case v[i] == '\\' && i+1 < len(v):
			i++
		}
		b.WriteByte(v[i])
	}
	return "", errQuotes
}

// wanted is how long the client prefers to wait for the outcome, bounded; a preference that cannot be understood is none.
func wanted(r *http.Request) time.Duration {
	for _, line := range r.Header.Values("Prefer") {
		for part := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(part, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			value, _, _ = strings.Cut(value, ";")
			seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
			if err != nil {
				return 0
			}
			return min(time.Duration(seconds)*time.Second, maxWait)
		}
	}
	return 0
}

// traceparent of the W3C's Trace Context, version 00 and those to come; what is none is not passed on.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

const maxTracestate = 512

// trace passes the request's trace on: as the record's own headers, apart from the event's attributes of the same names, which
// say where the event came from.
func trace(r *http.Request) []kgo.RecordHeader {
	parents := r.Header.Values("Traceparent")
	if len(parents) != 1 || !traceparent.MatchString(parents[0]) {
		return nil
	}
	headers := []kgo.RecordHeader{{Key: "traceparent", Value: []byte(parents[0])}}
	if state := strings.Join(r.Header.Values("Tracestate"), ","); state != "" && len(state) <= maxTracestate {
		headers = append(headers, kgo.RecordHeader{Key: "tracestate", Value: []byte(state)})
	}
	return headers
}

// feedOf is the feed that the request names; nil where it names none.
func (s *Stage) feedOf(ctx context.Context, r *http.Request, tenant string) (*feed.Registered, error) {
	names, ok := r.URL.Query()["feed"]
	if !ok {
		return nil, nil
	}
	if len(names) != 1 {
		return nil, problem(codeBadRequest, "parameter feed is there twice")
	}
	return s.findFeed(ctx, tenant, names[0])
}
