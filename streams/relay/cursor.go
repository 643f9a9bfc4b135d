package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/streams"
)

// A cursor is the value of a record of the topic offerlog-relay-cursor; its key is the lane's id in decimal.
type cursor struct {
	Lane      int   `json:"lane"`
	Published int64 `json:"published"` // the number of the lane's last event in the log
}

// CursorRecord is the record that sets the cursor of a lane. Only the relay writes it, but where its log is repaired while no
// relay runs.
func CursorRecord(c kafka.Cluster, lane int, published int64) *kgo.Record {
	value, err := json.Marshal(cursor{lane, published})
	if err != nil {
		panic(err) // two integers
	}
	return &kgo.Record{Topic: c.Topic(streams.RelayCursor), Key: strconv.AppendInt(nil, int64(lane), 10), Value: value}
}

// Cursors reads the committed cursor of every lane, by lane: the number of its last event in the log.
func Cursors(ctx context.Context, c kafka.Cluster, client *kgo.Client) (map[int]int64, error) {
	topic := c.Topic(streams.RelayCursor)
	t, err := kafka.Describe(ctx, client, topic, true)
	if err != nil {
		return nil, err
	}
	published, err := lastCursors(ctx, c, topic, t.Starts[0], t.Ends[0])
	if err != nil {
		return nil, fmt.Errorf("read the cursors from %s: %w", topic, err)
	}
	return published, nil
}

// cursorWindow is how many offsets of the cursor topic are read first, from its end.
const cursorWindow = 10_000

// readCursor returns the last committed cursor of a lane below the end that the log has now. It looks from the end backwards:
// the cursor of a lane that is busy is near, and compaction comes late.
func readCursor(ctx context.Context, c kafka.Cluster, client *kgo.Client, lane int) (published int64, found bool, err error) {
	topic := c.Topic(streams.RelayCursor)
	t, err := kafka.Describe(ctx, client, topic, false)
	if err != nil {
		return 0, false, err
	}
	start, until := t.Starts[0], t.Ends[0]
	for window := int64(cursorWindow); !found && until > start; window *= 10 {
		from := max(start, until-window)
		last, err := lastCursors(ctx, c, topic, from, until)
		if err != nil {
			return 0, false, fmt.Errorf("read the cursor of lane %d from %s, offsets %d to %d: %w", lane, topic, from, until, err)
		}
		published, found = last[lane]
		until = from
	}
	return published, found, nil
}

// lastCursors returns the last committed cursor of each lane in the offsets [from, until), by lane. It waits while a
// transaction is open before until; the broker aborts one after transactionTimeout.
func lastCursors(ctx context.Context, c kafka.Cluster, topic string, from, until int64) (map[int]int64, error) {
	reader, err := c.NewClient(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(250*time.Millisecond),
		// The last offset before the end is mostly the marker that ends a transaction, and no record.
		kgo.KeepControlRecords(),
	)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	last := map[string]*kgo.Record{} // by key; most are outlived by the next one of their lane, and need no decoding
	for next := from; next < until; {
		poll, cancel := context.WithTimeout(ctx, startTimeout)
		fetches := reader.PollFetches(poll)
		cancel()
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		for rec := range fetches.RecordsAll() {
			next = rec.Offset + 1
			if next <= until && !rec.Attrs.IsControl() {
				last[string(rec.Key)] = rec
			}
		}
	}
	published := make(map[int]int64, len(last))
	for _, rec := range last {
		var v cursor
		if err := json.Unmarshal(rec.Value, &v); err != nil {
			return nil, fmt.Errorf("offset %d holds %q: %w", rec.Offset, rec.Value, err)
		}
		published[v.Lane] = v.Published
	}
	return published, nil
}
