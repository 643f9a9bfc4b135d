// Package kafka is the door to the cluster: connection options, the topics that offerlog owns, and what a cluster must be
// able to do.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Cluster says how to reach Kafka, and under which names.
type Cluster struct {
	Brokers []string // host:port
	// Prefix stands before every topic, group and transactional id, so that several installations share a cluster.
	Prefix string
}

// Topic returns the name of a topic on the cluster.
func (c Cluster) Topic(name string) string { return c.Prefix + name }

// Name returns the topic's own name, from that on the cluster.
func (c Cluster) Name(topic string) string { return strings.TrimPrefix(topic, c.Prefix) }

// NewClient returns a client with opts beside the connection. It connects when first used.
func (c Cluster) NewClient(opts ...kgo.Opt) (*kgo.Client, error) {
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID("offerlog"),
		kgo.RetryTimeout(10 * time.Second),
	}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("make a Kafka client: %w", err)
	}
	return cl, nil
}

// NewPublisher returns a client that writes deliveries to input topics, as they are made by a plan of Specs: each as large as
// a payload may be. What was acknowledged is on all replicas in sync. The client by itself gives up after half a minute.
func (c Cluster) NewPublisher(opts ...kgo.Opt) (*kgo.Client, error) {
	return c.NewClient(append([]kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchMaxBytes(MaxMessageBytes),
		kgo.RecordDeliveryTimeout(30 * time.Second),
	}, opts...)...)
}

// ErrUnreachable reports a cluster that does not answer.
var ErrUnreachable = errors.New("no answer from Kafka")

// ErrTransactions reports a cluster whose transactions are too old for the relay.
var ErrTransactions = errors.New("the cluster's transactions are too old")

// Check makes sure that the cluster answers and that its transactions are of version 2 (KIP-890): with older ones a
// producer that was fenced may still write into the next transaction.
func Check(ctx context.Context, cl *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	resp, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, cl)
	if err != nil {
		return fmt.Errorf("%w at %s: %w: check --kafka", ErrUnreachable, seeds(cl), err)
	}
	for _, f := range resp.FinalizedFeatures {
		if f.Name == "transaction.version" {
			if f.MaxVersionLevel >= 2 {
				return nil
			}
			return fmt.Errorf("%w: transaction.version is %d, 2 is needed: run kafka-features.sh upgrade --feature transaction.version=2", ErrTransactions, f.MaxVersionLevel)
		}
	}
	return fmt.Errorf("%w: the cluster has no feature transaction.version: Apache Kafka 4.0 or newer is needed", ErrTransactions)
}

func seeds(cl *kgo.Client) string {
	s, _ := cl.OptValue(kgo.SeedBrokers).([]string)
	return strings.Join(s, ",")
}

// A Topic is one as it stands on the cluster.
type Topic struct {
	ID     uuid.UUID
	Starts []int64 // by partition: the first offset that the log holds
	Ends   []int64 // by partition: the offset after the last record
}

// ErrNoTopic reports a topic that is not there.
var ErrNoTopic = errors.New("no such topic")

// Describe returns a topic with its id and log bounds; committed says whether ends stand before open transactions.
func Describe(ctx context.Context, cl *kgo.Client, topic string, committed bool) (Topic, error) {
	adm, ctx := kadm.NewClient(cl), fresh(ctx)
	list, err := adm.ListTopics(ctx, topic)
	if err != nil {
		return Topic{}, fmt.Errorf("describe topic %s: %w", topic, err)
	}
	d, ok := list[topic]
	if !ok || d.Err != nil {
		if !ok || strings.Contains(d.Err.Error(), "UNKNOWN_TOPIC") {
			return Topic{}, fmt.Errorf("%w: %s: run offerlog topics apply", ErrNoTopic, topic)
		}
		return Topic{}, fmt.Errorf("describe topic %s: %w", topic, d.Err)
	}
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return Topic{}, fmt.Errorf("list the start of %s: %w", topic, err)
	}
	ends := adm.ListEndOffsets
	if committed {
		ends = adm.ListCommittedOffsets
	}
	end, err := ends(ctx, topic)
	if err != nil {
		return Topic{}, fmt.Errorf("list the end of %s: %w", topic, err)
	}
	t := Topic{ID: uuid.UUID(d.ID), Starts: make([]int64, len(d.Partitions)), Ends: make([]int64, len(d.Partitions))}
	for p := range d.Partitions {
		s, okS := starts.Lookup(topic, p)
		e, okE := end.Lookup(topic, p)
		if err := errors.Join(s.Err, e.Err); err != nil || !okS || !okE || int(p) >= len(t.Starts) {
			return Topic{}, fmt.Errorf("list the bounds of %s/%d: %w", topic, p, errors.Join(err, errors.New("the cluster gave no offset")))
		}
		t.Starts[p], t.Ends[p] = s.Offset, e.Offset
	}
	return t, nil
}

// fresh makes kadm ask the cluster: by default it answers from what its client saw up to five seconds ago, in which a topic
// that was just made does not exist. Asking for the operations that are allowed is the one way past that.
func fresh(ctx context.Context) context.Context { return kadm.WithAuthorizedOps(ctx) }

// PartitionOf is the partition of a key among n: Kafka's own rule (murmur2), so that every other producer of the key agrees.
func PartitionOf(key string, n int) int32 {
	return int32(kgo.KafkaHasher(murmur2)([]byte(key), n)) //nolint:gosec // below n, which came from the cluster as an int32
}

// murmur2 is the hash of Kafka's default partitioner (32 bits, seed 0x9747b28c), from its published definition.
func murmur2(b []byte) uint32 {
	const m, seed = 0x5bd1e995, 0x9747b28c
	h := seed ^ uint32(len(b)) //nolint:gosec // keys are short
	for len(b) >= 4 {
		k := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
		b = b[4:]
		k *= m
		k ^= k >> 24
		h = h*m ^ k*m
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(b[0])) * m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

// Since returns, by topic and partition, the first offset of a record that was appended at a time or later; the end of the log where
// there is none.
func Since(ctx context.Context, cl *kgo.Client, at time.Time, topics []string) (map[string]map[int32]int64, error) {
	list, err := kadm.NewClient(cl).ListOffsetsAfterMilli(ctx, at.UnixMilli(), topics...)
	if err == nil {
		err = list.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the offsets since %s: %w", at.UTC().Format(time.RFC3339), err)
	}
	since := map[string]map[int32]int64{}
	list.Each(func(o kadm.ListedOffset) {
		if since[o.Topic] == nil {
			since[o.Topic] = map[int32]int64{}
		}
		since[o.Topic][o.Partition] = o.Offset
	})
	return since, nil
}
