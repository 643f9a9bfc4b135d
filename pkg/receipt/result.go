package receipt

import "github.com/offerlog/offerlog/pkg/offer"

// maxTold bounds the rejections and the warnings of a Result that is told of an attempt, each: it has to fit into a message.
const maxTold = 100

// Result tells an attempt that stands at a place under a replay key, nil where it has none. Of its rejections and its warnings
// it has the first 100 each.
func (a *Attempt) Result(at Standpoint, key *offer.ReplayKey) Result {
	r := Result{
		Tenant: a.Tenant, Feed: a.Feed, Standpoint: at, EventSource: a.EventSource, EventID: a.EventID, EventType: a.EventType,
		Outcome: a.Outcome, Rows: a.Rows, Results: a.Results, Flags: []string{}, MappingVersion: a.MappingVersion,
		Rejected: append([]offer.Fault{}, a.Rejections[:min(len(a.Rejections), maxTold)]...),
		Warnings: append([]Warning{}, a.Warnings[:min(len(a.Warnings), maxTold)]...),
		Run:      a.Run, Page: a.Page, RetrievedAt: offer.TimeOf(a.RetrievedAt).Text, RecordedAt: offer.TimeOf(a.RecordedAt).Text,
	}
	if key != nil {
		r.ReplayKey, r.Delivery, r.Identity = key.String(), key.ID().String(), offer.Strength(!key.Weak())
	}
	if a.Fault != nil {
		r.Reason, r.Detail, r.Message = a.Fault.Reason, a.Fault.Detail, a.Fault.Error()
	}
	if r.Canonicalization = a.Fingerprint.Canonicalization; r.Canonicalization != "" {
		r.Fingerprint = a.Fingerprint.Digest.String()
	}
	if a.BeyondHorizon {
		r.Flags = append(r.Flags, offer.FlagBeyondHorizon)
	}
	return r
}
