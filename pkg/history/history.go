// Package history keeps what sources claimed: observations and sightings, appended and never changed.
//
// It owns the tables observation and sighting. An observation is one statement of a source about one record in one
// revision under one mapping version, stored with its first claim; a sighting is a later delivery that restates it with
// equal content. Both carry a number of their lane, and become visible with the commit of the batch that claims them:
// a crash before leaves nothing, a crash after leaves all.
package history

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/offerlog/offerlog/pkg/offer"
)

// A Claim is a delivery's statement of an observation: its first one, or a sighting.
type Claim struct {
	Lane         int
	Seq          int64
	Delivery     offer.DeliveryID
	Row          int // of the delivery, from 1
	WeakIdentity bool
	ObservedAt   offer.Time
	RetrievedAt  time.Time
	RecordedAt   time.Time // to the microsecond
	Run          uuid.UUID // whose decisions say whether the claim counts; uuid.Nil: of no run, it counts at once
	Held         bool      // it does not count until a decision on its run frees it
	Due          int64     // from when on it counts, in nanoseconds since 1970 UTC; 0: at once
}

// An Observation is one row of history with its first claim.
type Observation struct {
	Claim
	Key            offer.Key
	Offer          offer.OfferID
	Feed           string
	RevisionKey    string
	SourceVersion  int64 // meaningful where Rank.Strong
	MappingVersion int
	Unresolved     bool // its item is not resolved, as its feed wants it: it counts by a link alone
	Rank           offer.Rank
	Content        offer.Content
}

// New derives what follows from a valid row of a delivery: its revision, its rank and its id. Where the source gives a
// version, the revision key is feed and version, so that a later delivery restates it; where it gives none, it is feed,
// delivery and observed_at, and every delivery is a new observation. The lane's numbers and times are the caller's.
func New(feed string, key offer.Key, mappingVersion int, delivery offer.DeliveryID, weakIdentity bool, row *offer.Row) Observation {
	o := Observation{
		Claim: Claim{Delivery: delivery, Row: row.Number, WeakIdentity: weakIdentity, ObservedAt: row.ObservedAt},
		Key:   key, Offer: key.ID(), Feed: feed, MappingVersion: mappingVersion, Content: row.Content,
	}
	if row.HasVersion {
		o.SourceVersion = row.Version
		o.RevisionKey = feed + "/" + strconv.FormatInt(row.Version, 10)
		o.Rank = offer.Rank{Strong: true, Order: row.Version}
	} else {
		o.RevisionKey = feed + "/" + delivery.String() + "/" + row.ObservedAt.Text
		o.Rank = offer.Rank{Order: row.ObservedAt.Nanos}
	}
	o.Rank.Mapping = mappingVersion
	o.Rank.Content = row.Content.Digest()
	o.Rank.ID = o.Offer.Observe(o.RevisionKey, mappingVersion)
	return o
}

// Revise gives the observation another revision, as a correction of the one that it states: with it changes its id.
func (o *Observation) Revise(revisionKey string) {
	o.RevisionKey = revisionKey
	o.Rank.ID = o.Offer.Observe(revisionKey, o.MappingVersion)
}

// Imply derives the deletion of a record that a complete snapshot lacks: the run of the feed, taken at that time. The delivery
// is the one that it follows from; the lane's numbers and times are the caller's.
func Imply(key offer.Key, feed string, run uuid.UUID, at offer.Time, delivery offer.DeliveryID) Observation {
	o := Observation{
		Claim: Claim{Delivery: delivery, ObservedAt: at, Run: run, Held: true},
		Key:   key, Offer: key.ID(), Feed: feed, RevisionKey: feed + "/" + run.String() + "/" + at.Text, Content: offer.Content{Deleted: true},
	}
	o.Rank = offer.Rank{Order: at.Nanos, Content: o.Content.Digest(), ID: o.Offer.Observe(o.RevisionKey, 0)}
	return o
}

// Implied reports whether no source states the observation: a complete snapshot lacks the record. Such an observation is read
// under no mapping version, so that at one instant every claim ranks before it.
func (o *Observation) Implied() bool { return o.Rank.Mapping == 0 }

// ID is the observation's derived id.
func (o *Observation) ID() offer.ObservationID { return o.Rank.ID }

// A Document is the JSON form of an observation, the same on topics, in the API and in the command line's output.
// Decimals are strings in canonical form; times are RFC 3339 in UTC.
type Document struct {
	Tenant         string `json:"tenant"`
	Feed           string `json:"feed"`
	Account        string `json:"supplier_account"`
	Record         string `json:"source_record"`
	Version        string `json:"source_version,omitempty"`
	offer.Content         // its members stand here, inline
	ObservedAt     string `json:"observed_at"`
	RetrievedAt    string `json:"retrieved_at"`
	RecordedAt     string `json:"recorded_at"`
	ObservationID  string `json:"observation_id"`
	RevisionKey    string `json:"revision_key"`
	MappingVersion int    `json:"mapping_version"`
	Delivery       string `json:"delivery"`
	Row            int    `json:"row"`
	Identity       string `json:"identity_strength"` // strong | weak
	Order          string `json:"order_strength"`    // strong | weak
	Verification   string `json:"verification"`      // unverified: nothing here is confirmed stock
	Run            string `json:"run,omitempty"`     // the id by which decisions name the run
	Held           bool   `json:"held,omitempty"`    // until a decision on the run frees it
}

// Document returns the JSON form of o.
func (o *Observation) Document() Document {
	d := Document{
		Tenant: o.Key.Tenant, Feed: o.Feed, Account: o.Key.Account, Record: o.Key.Record, Content: o.Content,
		ObservedAt: o.ObservedAt.Text, RetrievedAt: stamp(o.RetrievedAt), RecordedAt: stamp(o.RecordedAt),
		ObservationID: o.ID().String(), RevisionKey: o.RevisionKey, MappingVersion: o.MappingVersion,
		Delivery: o.Delivery.String(), Row: o.Row, Identity: offer.Strength(!o.WeakIdentity), Order: offer.Strength(o.Rank.Strong), Verification: "unverified",
	}
	if o.Rank.Strong {
		d.Version = strconv.FormatInt(o.SourceVersion, 10)
	}
	d.Run, d.Held = runText(o.Run), o.Held
	return d
}

// A SightingDocument is the JSON form of a sighting: the whole observation, so that it serves where it comes first, and
// the claim that restates it.
type SightingDocument struct {
	Document
	Sighting struct {
		Delivery    string `json:"delivery"`
		Row         int    `json:"row"`
		ObservedAt  string `json:"observed_at"`
		RetrievedAt string `json:"retrieved_at"`
		RecordedAt  string `json:"recorded_at"`
		Identity    string `json:"identity_strength"` // strong | weak: of this claim
		Run         string `json:"run,omitempty"`
		Held        bool   `json:"held,omitempty"`
	} `json:"sighting"`
}

// An Event is one number of a lane: an observation, or a sighting of one.
type Event struct {
	Observation
	Sighting *Claim // nil: the event is the observation itself
}

// ID is a function of what the event says, so the same work done again has the same id.
func (e *Event) ID() uuid.UUID {
	if e.Sighting == nil {
		return uuid.UUID(e.Observation.ID())
	}
	return offer.Derive("sighting", e.Observation.ID().String(), e.Sighting.Delivery.String(), strconv.Itoa(e.Sighting.Row))
}

// Body is the event's JSON.
func (e *Event) Body() ([]byte, error) {
	if e.Sighting == nil {
		return json.Marshal(e.Document())
	}
	d := SightingDocument{Document: e.Document()}
	s := e.Sighting
	d.Sighting.Delivery, d.Sighting.Row = s.Delivery.String(), s.Row
	d.Sighting.ObservedAt, d.Sighting.RetrievedAt, d.Sighting.RecordedAt = s.ObservedAt.Text, stamp(s.RetrievedAt), stamp(s.RecordedAt)
	d.Sighting.Identity = offer.Strength(!s.WeakIdentity)
	d.Sighting.Run, d.Sighting.Held = runText(s.Run), s.Held
	return json.Marshal(d)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999999999Z") }

func runText(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}
