package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
)

// A Problem is an answer that is no success, in the form of RFC 9457.
type Problem struct {
	Type    string            `json:"type"` // urn:offerlog:problem:CODE
	Title   string            `json:"title"`
	Status  int               `json:"status"`
	Code    string            `json:"code"` // a word; the closed list is in docs/reasons.md
	Detail  string            `json:"detail,omitempty"`
	Receipt *receipt.Document `json:"receipt,omitempty"` // where the delivery was kept and set aside

	retryAfter time.Duration
}

// Error is code: detail.
func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// Codes beside the reasons of quarantine.
const (
	codeUnauthorized = "unauthorized"
	codeRole         = "role_not_allowed"
	codeSource       = "source_not_authorised"
	codeType         = "type_not_expected"
	codeNoFeed       = "no_feed"
	codeAmbiguous    = "feed_ambiguous"
	codeBadRequest   = "bad_request"
	codeForm         = "form_not_taken"
	codeTooLarge     = "payload_too_large"
	codeSlow         = "body_too_slow"
	codeTooMany      = "too_many_requests"
	codeUnavailable  = "unavailable"
	codeNoDelivery   = "no_delivery"
	codeNotFound     = "not_found"
	codeMethod       = "method_not_allowed"
	codeInternal     = "internal"
)

// kinds are the status and the title of each code.
var kinds = map[string]struct {
	status int
	title  string
}{
	codeUnauthorized: {http.StatusUnauthorized, "The request has no valid token."},
	codeRole:         {http.StatusForbidden, "The token's role does not allow this."},
	codeSource:       {http.StatusForbidden, "The tenant has no feed of this source."},
	codeType:         {http.StatusBadRequest, "The event is neither a delivery nor of a run."},
	codeNoFeed:       {http.StatusNotFound, "The tenant has no such feed."},
	codeAmbiguous:    {http.StatusConflict, "Several feeds have this source."},
	codeBadRequest:   {http.StatusBadRequest, "The request cannot be understood."},
	codeForm:         {http.StatusUnsupportedMediaType, "A form is no file."},
	codeTooLarge:     {http.StatusRequestEntityTooLarge, "The payload is too large to be carried by an event."},
	codeSlow:         {http.StatusRequestTimeout, "The body did not arrive in time."},
	codeTooMany:      {http.StatusTooManyRequests, "The token makes too many requests."},
	codeUnavailable:  {http.StatusServiceUnavailable, "The delivery cannot be taken at the moment."},
	codeNoDelivery:   {http.StatusNotFound, "The tenant has no such delivery."},
	codeNotFound:     {http.StatusNotFound, "There is nothing here."},
	codeMethod:       {http.StatusMethodNotAllowed, "The method is not for this path."},
	codeInternal:     {http.StatusInternalServerError, "The request could not be answered."},

	offer.ReasonNotACloudEvent:    {http.StatusBadRequest, "The request is no CloudEvent and names no feed."},
	offer.ReasonUnsupportedFormat: {http.StatusUnsupportedMediaType, "The format of the events is not read here."},
	offer.ReasonInvalidText:       {http.StatusBadRequest, "The event holds what no text may hold."},
	offer.ReasonSchemaInvalid:     {http.StatusBadRequest, "The data of the event is not what its type has."},
}

// problem is an answer with a code of kinds.
func problem(code, detail string) *Problem {
	k := kinds[code]
	return &Problem{Type: "urn:offerlog:problem:" + code, Title: k.title, Status: k.status, Code: code, Detail: detail}
}

// refused is the answer to an event that is none.
func refused(f *offer.Fault) *Problem { return problem(f.Reason, f.Error()) }

// setAside is the answer to a delivery that was kept, and cannot be taken as it is: sending it again would not help.
func setAside(d *receipt.Document) *Problem {
	return &Problem{Type: "urn:offerlog:problem:" + d.Reason, Title: "The delivery was set aside.", Status: http.StatusUnprocessableEntity,
		Code: d.Reason, Detail: d.Message, Receipt: d}
}

func tooMany(wait time.Duration) *Problem {
	p := problem(codeTooMany, "send less often, or several events as one batch")
	p.retryAfter = wait
	return p
}

// unavailable is the answer while something that is needed is out of reach. Nothing is half done: the same may be sent again.
func unavailable(detail string) *Problem {
	p := problem(codeUnavailable, detail)
	p.retryAfter = 5 * time.Second
	return p
}

// refuse answers with a problem; what is none is an error of this side, whose text is for the log.
func (s *Stage) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p, ok := errors.AsType[*Problem](err)
	switch {
	case ok:
	case r.Context().Err() != nil:
		return // the client has left
	case postgres.OutOfReach(err):
		p = unavailable("the database is out of reach; send the same again")
		s.log.Warn("cannot answer", "error", err)
	default:
		p = problem(codeInternal, "send the same again; if it stays so, the log says more")
		s.log.Error("cannot answer", "error", err)
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retryAfter.Seconds()))))
	}
	s.log.Debug("refused", "code", p.Code)
	writeJSON(w, p.Status, "application/problem+json", p)
}

// writeJSON answers; a client that has left needs no answer.
func writeJSON(w http.ResponseWriter, status int, contentType string, v any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
}

// quote names what the client sent, in an answer to that client.
func quote(text string) string {
	const limit = 200
	if len(text) > limit {
		text = text[:limit] + "..."
	}
	return fmt.Sprintf("%+q", text)
}
