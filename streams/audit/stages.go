package audit

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/streams"
)

// The stages that are derived again, in the order in which data moves.
const (
	stageHistory = "history"        // the claims that the payloads of accepted deliveries make
	stageLog     = "observations"   // of the published claims, what their topic holds
	stageView    = "view"           // the fold of the claims
	stageOffers  = "current-offers" // of what the view has published, what its topic says last
)

// stages are where each one's violations are told.
var stages = []struct {
	name       string
	invariants []string
	topic      string // of the violations; "": whatever they are about
}{
	{stageHistory, []string{"I4", "I5"}, ""},
	{stageLog, []string{"I9"}, streams.Observations},
	{stageView, []string{"I12"}, ""},
	{stageOffers, []string{"I9", "I17"}, streams.CurrentOffers},
}

// A Part is what one stage has of a feed and an hour, and what follows for it from the stage before.
type Part struct {
	Stage      string       `json:"stage"`
	Tenant     string       `json:"tenant"`
	Feed       string       `json:"feed,omitempty"` // "": of offers of which no claim counts
	Hour       string       `json:"hour,omitempty"` // in which it was recorded, by RFC 3339; "" as for Feed
	Want       int64        `json:"want"`           // claims or offers, as they are derived
	Have       int64        `json:"have"`           // and as they are stored
	WantDigest offer.Digest `json:"want_digest"`    // of them: the sum of the digests of each
	HaveDigest offer.Digest `json:"have_digest"`
}

// OK reports that what is stored is what is derived.
func (p *Part) OK() bool { return p.Want == p.Have && p.WantDigest == p.HaveDigest }

// A group names a part.
type group struct {
	stage, tenant, feed string
	hour                time.Time
}

func groupOf(stage, tenant, feed string, recorded time.Time) group {
	return group{stage, tenant, feed, recorded.UTC().Truncate(time.Hour)}
}

// Parts are what was derived again and compared, by stage, tenant, feed and hour.
func (r Report) Parts() (parts []Part) {
	for _, s := range stages {
		groups := slices.SortedFunc(maps.Keys(r.parts), func(a, b group) int {
			return cmp.Or(strings.Compare(a.tenant, b.tenant), strings.Compare(a.feed, b.feed), a.hour.Compare(b.hour))
		})
		for _, g := range groups {
			if g.stage == s.name {
				parts = append(parts, *r.parts[g])
			}
		}
	}
	return parts
}

// FirstWrong is the first record of the first stage that is missing or wrong, by lane and place. There may be one where every
// part is OK: what belongs to no delivery and no offer is in none. Nil: there is none.
func (r Report) FirstWrong() *Violation {
	for _, s := range stages {
		if v, ok := r.firsts[s.name]; ok {
			return &v
		}
	}
	return nil
}

// noteFirst keeps the first violation of each stage: of so many a report holds only some, in the order in which they were found.
func (r *Report) noteFirst(v Violation) {
	for _, s := range stages {
		if !slices.Contains(s.invariants, v.Invariant) || s.topic != "" && v.Topic != s.topic {
			continue
		}
		if first, ok := r.firsts[s.name]; !ok || compareByPlace(v, first) < 0 {
			r.firsts[s.name] = v
		}
	}
}

// compareByPlace orders violations by lane and place.
func compareByPlace(a, b Violation) int {
	return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(deref(a.Offset), deref(b.Offset)), cmp.Compare(a.Item, b.Item), cmp.Compare(rowOf(a), rowOf(b)),
		cmp.Compare(a.Seq, b.Seq), strings.Compare(a.Offer, b.Offer))
}

// rowOf puts what is about a row before what is about its whole delivery.
func rowOf(v Violation) int {
	if v.Row == 0 {
		return math.MaxInt
	}
	return v.Row
}

func deref(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// NotVerified says what of the stages could not be derived again, and why.
func (r Report) NotVerified() (why []string) {
	for _, id := range []string{"I4", "I5", "I9", "I12", "I17"} {
		why = append(why, r.of(id).NotChecked...)
	}
	slices.Sort(why)
	return slices.Compact(why)
}

// part is where a group is tallied.
func (r *Report) part(g group) *Part {
	p := r.parts[g]
	if p == nil {
		p = &Part{Stage: g.stage, Tenant: g.tenant, Feed: g.feed}
		if !g.hour.IsZero() {
			p.Hour = g.hour.Format(time.RFC3339)
		}
		r.parts[g] = p
	}
	return p
}

// want adds to a group what must be there, by its digest.
func (r *Report) want(g group, d offer.Digest) {
	p := r.part(g)
	p.Want, p.WantDigest = p.Want+1, p.WantDigest.Plus(d)
}

// have adds to a group what is there.
func (r *Report) have(g group, d offer.Digest) {
	p := r.part(g)
	p.Have, p.HaveDigest = p.Have+1, p.HaveDigest.Plus(d)
}

// claimDigest is that of what a row of a delivery claims: that an observation of some content was seen at a time.
func claimDigest(id offer.ObservationID, content offer.Digest, delivery offer.DeliveryID, row int, observed offer.Time) offer.Digest {
	return offer.Sum(fmt.Appendf(nil, "%s\t%s\t%s\t%d\t%s", id, content, delivery, row, observed.Text))
}
