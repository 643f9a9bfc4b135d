package kafka

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// silence is how long a partition may give nothing before its end is reached.
const silence = 20 * time.Second

// Records reads the committed data records of a partition of a topic, by its own name, from one offset up to another. Its log must
// hold them all. After an error nothing more comes.
func (c Cluster) Records(ctx context.Context, topic string, partition int32, from, to int64) iter.Seq2[*kgo.Record, error] {
	return func(yield func(*kgo.Record, error) bool) {
		if from >= to {
			return
		}
		name := c.Topic(topic)
		reader, err := c.NewClient(
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: {partition: kgo.NewOffset().At(from)}}),
			kgo.ConsumeResetOffset(kgo.NoResetOffset()),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.KeepControlRecords(), // the end is mostly the mark of a transaction
		)
		if err != nil {
			yield(nil, err)
			return
		}
		defer reader.Close()
		for next := from; next < to; {
			fetches, err := poll(ctx, reader)
			if err != nil {
				yield(nil, fmt.Errorf("read %s/%d at offset %d of %d: %w", name, partition, next, to, err))
				return
			}
			for r := range fetches.RecordsAll() {
				next = r.Offset + 1
				if r.Offset < to && !r.Attrs.IsControl() && !yield(r, nil) {
					return
				}
			}
		}
	}
}

// poll waits for records, but not for ever.
func poll(ctx context.Context, reader *kgo.Client) (kgo.Fetches, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, silence, fmt.Errorf("nothing came in %v: try again", silence))
	defer cancel()
	fetches := reader.PollFetches(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return fetches, fetches.Err()
}
