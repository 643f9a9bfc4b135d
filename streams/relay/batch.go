package relay

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/outbox"
	"github.com/offerlog/offerlog/streams"
)

const (
	chunkEvents = 1000     // read at once
	batchBytes  = 16 << 20 // of event bodies, from which on a batch is full
)

// A batch is what one transaction publishes.
type batch struct {
	records []*kgo.Record
	last    int64 // the number of its last event; the cursor itself where there is none
	bytes   int
	offers  bool // it carries changes of offers
}

// read takes the next events of the lane: as many as there are, up to the worker's limit.
func (s *session) read(ctx context.Context) (batch, error) {
	var b batch
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		b = batch{last: s.cursor}
		for b.last-s.cursor < s.limit && b.bytes < batchBytes {
			limit := min(chunkEvents, s.limit-(b.last-s.cursor))
			rows, err := outbox.Read(ctx, tx, s.lease.Lane, b.last, int(limit))
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				return nil
			}
			if err := s.add(ctx, tx, &b, rows, b.last+limit); err != nil {
				return err
			}
		}
		return nil
	})
	return b, err
}

// add puts the events of rows into the batch, those up to number upTo.
func (s *session) add(ctx context.Context, tx pgx.Tx, b *batch, rows []outbox.Row, upTo int64) error {
	for i := 0; i < len(rows) && b.last < upTo; {
		if e := rows[i].Event; e != nil {
			if err := s.addEvent(ctx, b, e); err != nil {
				return err
			}
			i++
			continue
		}
		// Neighbours in one query: they are many where batches of ingest are small.
		last := rows[i].Last
		for i++; i < len(rows) && rows[i].Event == nil; i++ {
			last = rows[i].Last
		}
		if err := s.addHistory(ctx, tx, b, min(last, upTo)); err != nil {
			return err
		}
	}
	return nil
}

// addHistory puts the observations and sightings up to number last into the batch.
func (s *session) addHistory(ctx context.Context, tx pgx.Tx, b *batch, last int64) error {
	events, err := history.ReadLane(ctx, tx, s.lease.Lane, b.last, last)
	if err != nil {
		return err
	}
	for i := range events {
		e := &events[i]
		claim, kind := &e.Claim, streams.ObservationRecorded
		if e.Sighting != nil {
			claim, kind = e.Sighting, streams.ObservationSighted
		}
		if claim.Seq != b.last+1 {
			break
		}
		body, err := e.Body()
		if err != nil {
			return fmt.Errorf("write event %d of lane %d: %w", claim.Seq, s.lease.Lane, err)
		}
		err = s.put(ctx, b, envelope{id: e.ID(), kind: kind, at: claim.RecordedAt, seq: claim.Seq, topic: streams.Observations, key: e.Key.String(), body: body})
		if err != nil {
			return err
		}
	}
	if b.last != last {
		return fmt.Errorf("read events up to %d of lane %d: history has no number %d: %w", last, s.lease.Lane, b.last+1, outbox.ErrGap)
	}
	return nil
}

// addEvent puts an event that the outbox holds whole into the batch.
func (s *session) addEvent(ctx context.Context, b *batch, e *outbox.Event) error {
	b.offers = b.offers || e.Topic == streams.CurrentOffers
	return s.put(ctx, b, envelope{id: e.ID, kind: e.Type, at: e.RecordedAt, seq: e.Seq, topic: e.Topic, key: e.Key, broadcast: e.Broadcast, body: e.Body})
}

// An envelope is an event with what its record needs.
type envelope struct {
	id        uuid.UUID
	kind      string
	at        time.Time
	seq       int64
	topic     string // without the installation's prefix
	key       string // as offer.JoinKey writes it
	broadcast bool
	body      []byte
}

// put adds the event's record, or one for each partition of the topic.
func (s *session) put(ctx context.Context, b *batch, e envelope) error {
	topic := s.cluster.Topic(e.topic)
	n, err := s.partitionsOf(ctx, topic)
	if err != nil {
		return err
	}
	to := []int32{kafka.PartitionOf(e.key, n)}
	if e.broadcast {
		to = to[:0]
		for p := range int32(n) { //nolint:gosec // a number of partitions
			to = append(to, p)
		}
	}
	for _, partition := range to {
		rec, err := e.record(s.lease.Lane)
		if err != nil {
			return err
		}
		rec.Topic, rec.Partition = topic, partition
		b.records = append(b.records, rec)
	}
	b.last = e.seq
	b.bytes += len(e.body)
	return nil
}

func (s *session) partitionsOf(ctx context.Context, topic string) (int, error) {
	if n, ok := s.partitions[topic]; ok {
		return n, nil
	}
	t, err := kafka.Describe(ctx, s.client, topic, false)
	if err != nil {
		return 0, err
	}
	s.partitions[topic] = len(t.Starts)
	return len(t.Starts), nil
}

// record is the event as a CloudEvent in binary mode. Its attributes are ours and valid whatever a supplier calls his
// records, since those are percent-encoded; so they are written by hand. An event of the CloudEvents SDK, which checks them,
// was measured to take six times as long, 0.2 s for a full batch.
//
// It fits the client's and the cluster's limit of a message as they are by default, about 1 MB: the normal form bounds what
// an observation holds, so that the largest has a sixth of that.
func (e *envelope) record(lane int) (*kgo.Record, error) {
	parts, err := offer.SplitKey(e.key)
	if err != nil {
		return nil, fmt.Errorf("write event %d of lane %d: %w", e.seq, lane, err)
	}
	hs := make([]kgo.RecordHeader, 0, 11)
	put := func(name, value string) { hs = append(hs, kgo.RecordHeader{Key: name, Value: []byte(value)}) }
	put("ce_specversion", "1.0")
	put("ce_id", e.id.String())
	put("ce_source", streams.EventSource)
	put("ce_type", e.kind)
	put("ce_time", e.at.UTC().Format(time.RFC3339Nano))
	put("content-type", "application/json")
	put("ce_"+streams.ExtLane, strconv.Itoa(lane))
	put("ce_"+streams.ExtLaneSeq, strconv.FormatInt(e.seq, 10))
	put("ce_partitionkey", e.key)
	put("ce_subject", e.key[strings.LastIndexByte(e.key, '/')+1:])
	put("ce_"+streams.ExtTenant, parts[0])
	return &kgo.Record{Key: []byte(e.key), Value: e.body, Headers: hs}, nil
}
