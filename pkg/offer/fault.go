package offer

import (
	"fmt"
	"strings"
)

// A Fault says that a delivery, or one row of it, cannot be taken as it is. It is the supplier's or the feed's to mend,
// is recorded with the delivery, and never stops a partition.
type Fault struct {
	Reason  string `json:"reason"`           // one of the closed list in docs/reasons.md
	Detail  string `json:"detail,omitempty"` // the finer kind, where there is one
	Message string `json:"message,omitempty"`
	Row     int    `json:"row,omitempty"` // from 1, without the header; 0: the delivery as a whole
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"` // of the field: price_breaks[2].price
}

// Code is the name of the fault in logs, metrics, quarantine and the API.
func (f *Fault) Code() string { return f.Reason }

// Error is reason (detail): where: message.
func (f *Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.Reason)
	if f.Detail != "" {
		fmt.Fprintf(&b, " (%s)", f.Detail)
	}
	for _, at := range []struct {
		name string
		n    int
	}{{"row", f.Row}, {"line", f.Line}, {"column", f.Column}} {
		if at.n > 0 {
			fmt.Fprintf(&b, ", %s %d", at.name, at.n)
		}
	}
	if f.Path != "" {
		fmt.Fprintf(&b, ", %s", f.Path)
	}
	if f.Message != "" {
		fmt.Fprintf(&b, ": %s", f.Message)
	}
	return b.String()
}

// Reasons of quarantine and of rejected rows. The list is closed.
const (
	ReasonNotACloudEvent        = "not_a_cloudevent"
	ReasonReplayPayloadMismatch = "replay_payload_mismatch"
	ReasonRevisionConflict      = "revision_conflict"
	ReasonUnknownFeed           = "unknown_feed"
	ReasonIdentityUnresolved    = "identity_unresolved"
	ReasonUnsupportedFormat     = "unsupported_format"
	ReasonSchemaInvalid         = "schema_invalid"
	ReasonInvalidText           = "invalid_text"
	ReasonNumberOutOfRange      = "number_out_of_range"
	ReasonVersionOutOfRange     = "version_out_of_range"
	ReasonArtifactTooLarge      = "artifact_too_large"
	ReasonDecompressionLimit    = "decompression_limit"
	ReasonXMLForbidden          = "xml_forbidden"
	ReasonMappingError          = "mapping_error"
	ReasonMappingLimit          = "mapping_limit"
	ReasonDatarefForbidden      = "dataref_forbidden"
	ReasonDatarefUnavailable    = "dataref_unavailable"
	ReasonDatarefDigestMismatch = "dataref_digest_mismatch"
	ReasonCrashLoop             = "crash_loop"
	ReasonEvidenceUnavailable   = "evidence_unavailable"
)

// An Outcome is what became of one event. The list is closed.
type Outcome string

// Outcomes.
const (
	Accepted    Outcome = "accepted"
	Duplicate   Outcome = "duplicate"
	Quarantined Outcome = "quarantined"
	Skipped     Outcome = "skipped" // only by a recorded decision of an operator
	Reread      Outcome = "reread"  // an accepted delivery was read under another mapping version
)

// Results counts what became of a delivery's rows; they sum to the rows.
type Results struct {
	Saved          int `json:"saved"`
	Duplicate      int `json:"duplicate"`
	Old            int `json:"old"`
	AmbiguousOrder int `json:"ambiguous_order"`
	Rejected       int `json:"rejected"`
}

// Flags of an offer, in the order in which they are shown.
const (
	FlagAmbiguousOrder = "ambiguous_order" // equally ranked claims say different things
	FlagPartialRun     = "partial_run"     // what is shown comes from a run that is not whole
)

// FlagBeyondHorizon marks a delivery that was accepted before, but so long ago that its receipt has expired: that it is a
// repeat is known from its claims in history alone.
const FlagBeyondHorizon = "beyond_horizon"

// Canonicalizations, by name and version. A change of one is a new name.
const (
	CanonicalBytes = "bytes/1" // the payload as it is
	CanonicalJSON  = "json/1"  // RFC 8785 with exact decimals instead of doubles
	CanonicalRun   = "run/1"   // of a run event: its kind, its run and the members of its data
	CanonicalRows  = "rows/1"  // SHA-256 over the sorted SHA-256 digests of the rows' json/1
)

// A Fingerprint is the digest of a payload under a canonicalization.
type Fingerprint struct {
	Canonicalization string
	Digest           Digest
}

// String is canonicalization:digest.
func (f Fingerprint) String() string { return f.Canonicalization + ":" + f.Digest.String() }
