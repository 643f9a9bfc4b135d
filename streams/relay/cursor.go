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

func cursorRecord(c kafka.Cluster, lane int, published int64) *kgo.Record {
	value, err := json.Marshal(cursor{lane, published})
	if err != nil {
		panic(err) // two integers
	}
	return &kgo.Record{Topic: c.Topic(streams.RelayCursor), Key: strconv.AppendInt(nil, int64(lane), 10), Value: value}
}

// readCursor returns the last committed cursor of a lane, reading up to where the log ends now. It waits while a
// transaction of another lane is open before that; the broker aborts one after transactionTimeout.
func readCursor(ctx context.Context, c kafka.Cluster, client *kgo.Client, lane int) (published int64, found bool, err error) {
	topic, key := c.Topic(streams.RelayCursor), strconv.Itoa(lane)
	t, err := kafka.Describe(ctx, client, topic, false)
	if err != nil {
		return 0, false, err
	}
	start, end := t.Starts[0], t.Ends[0]
	if start == end {
		return 0, false, nil
	}
	reader, err := c.NewClient(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(start)}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(250*time.Millisecond),
		// The end is mostly the marker of a transaction's end, and no record.
		kgo.KeepControlRecords(),
	)
	if err != nil {
		return 0, false, err
	}
	defer reader.Close()
	for next := start; next < end; {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return 0, false, fmt.Errorf("read the cursor of lane %d from %s at %d of %d: %w", lane, topic, next, end, err)
		}
		for rec := range fetches.RecordsAll() {
			next = rec.Offset + 1
			if rec.Attrs.IsControl() || string(rec.Key) != key || next > end {
				continue
			}
			var v cursor
			if err := json.Unmarshal(rec.Value, &v); err != nil || v.Lane != lane {
				return 0, false, fmt.Errorf("read the cursor of lane %d from %s: offset %d holds %q: %w", lane, topic, rec.Offset, rec.Value, err)
			}
			published, found = v.Published, true
		}
	}
	return published, found, nil
}
