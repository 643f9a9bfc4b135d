package ingest

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/outbox"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams"
)

// tells reports whether an outcome is published. What no feed expects has no policy, and is always an exception.
func (e *event) tells(o offer.Outcome) bool {
	if e.topic == streams.Commands {
		return false // who gives a command waits for its receipt
	}
	return o != offer.Accepted && o != offer.Reread || e.feed != nil && e.feed.Policy.Results == feed.ResultsAll
}

// tellResults has the outcomes published that the feeds want told.
func (st *settlement) tellResults() error {
	st.firstResult = len(st.events)
	for i, e := range st.batch.events {
		at := st.attempts[i]
		if !e.tells(at.Outcome) {
			continue
		}
		stands := receipt.Standpoint{Topic: e.topic, Partition: st.batch.lanes[e.Lane].lane.Partition, Offset: e.Offset, Item: e.Item}
		key, replay := offer.JoinKey(e.tenant, stands.Where()), (*offer.ReplayKey)(nil)
		if e.key != nil {
			key, replay = e.replay.String(), &e.replay
		}
		body, err := json.Marshal(at.Result(stands, replay))
		if err != nil {
			return fmt.Errorf("tell the outcome of %s: %w", stands.Where(), err)
		}
		st.results = append(st.results, at)
		st.emit(e, outbox.Event{Topic: streams.DeliveryResults, Type: streams.DeliveryResult, Key: key, Body: body,
			ID: offer.Derive("result", strconv.Itoa(e.Lane), strconv.FormatInt(e.Offset, 10), strconv.Itoa(e.Item))})
	}
	return nil
}
