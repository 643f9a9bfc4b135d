package localserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// recoveryTimeout is far above what reading all of a developer's topics takes.
const recoveryTimeout = 2 * time.Minute

// A Kafka is a broker that runs inside this process.
type Kafka struct {
	cluster *kfake.Cluster
}

// StartKafka starts a broker on 127.0.0.1:port (0: any free port). With a dir, all it holds is kept there, and every
// write is synced before it is answered; a dir serves one broker at a time. Without, it is kept in memory. Topics are
// not made by themselves. Later opts win over these settings; with a dir they must leave the broker open to a client
// without TLS and SASL.
func StartKafka(dir string, port int, opts ...kfake.Opt) (*Kafka, error) {
	settings := []kfake.Opt{kfake.NumBrokers(1), kfake.Ports(port)}
	if dir != "" {
		settings = append(settings, kfake.DataDir(dir), kfake.SyncWrites())
	}
	cluster, err := kfake.NewCluster(append(settings, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("start the in-process Kafka on port %d, data in %q: %w", port, dir, err)
	}
	k := &Kafka{cluster}
	if dir != "" {
		ctx, cancel := context.WithTimeout(context.Background(), recoveryTimeout)
		defer cancel()
		if err := abortLost(ctx, k.Addr()); err != nil {
			k.Close()
			return nil, fmt.Errorf("recover the in-process Kafka in %s: %w", dir, err)
		}
	}
	return k, nil
}

// Addr is the bootstrap address, host:port.
func (k *Kafka) Addr() string { return k.cluster.ListenAddrs()[0] }

// Cluster is the broker itself, for injecting faults.
func (k *Kafka) Cluster() *kfake.Cluster { return k.cluster }

// Close ends the broker after it has saved its state.
func (k *Kafka) Close() { k.cluster.Close() }

// A writer is a producer in one partition.
type writer struct {
	topic     string
	partition int32
	id        int64
}

// abortLost ends the transactions that a kill left open. The broker counts them as aborted but writes no marker, and a
// client that reads one takes all that its producer wrote after it for aborted too, up to a marker: what a restarted
// producer commits would be lost to it.
func abortLost(ctx context.Context, addr string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	open, err := openTransactions(ctx, client, admin)
	if err != nil || len(open) == 0 {
		return err
	}
	topics := kadm.TopicsSet{}
	for w := range open {
		topics.Add(w.topic, w.partition)
	}
	producers, err := admin.DescribeProducers(ctx, topics)
	if err != nil {
		return fmt.Errorf("list producers: %w", err)
	}
	// A transaction that the broker still knows may yet be committed: a closed broker keeps them.
	var errs []error
	producers.EachPartition(func(p kadm.DescribedProducersPartition) { errs = append(errs, p.Err) })
	producers.EachProducer(func(p kadm.DescribedProducer) {
		if p.CurrentTxnStartOffset >= 0 {
			delete(open, writer{p.Topic, p.Partition, p.ProducerID})
		}
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("list producers: %w", err)
	}
	// One marker for each producer: the client merges the answers of those that share a producer.
	lost := map[int64]kadm.TxnMarkers{}
	for w, epoch := range open {
		m, ok := lost[w.id]
		if !ok {
			m = kadm.TxnMarkers{ProducerID: w.id, Topics: kadm.TopicsSet{}}
		}
		m.ProducerEpoch = max(m.ProducerEpoch, epoch)
		m.Topics.Add(w.topic, w.partition)
		lost[w.id] = m
	}
	written, err := admin.WriteTxnMarkers(ctx, slices.Collect(maps.Values(lost))...)
	if err != nil {
		return fmt.Errorf("write abort markers: %w", err)
	}
	written.EachPartition(func(p kadm.TxnMarkersPartitionResponse) {
		if p.Err != nil {
			errs = append(errs, fmt.Errorf("write the abort marker of producer %d in %s/%d: %w", p.ProducerID, p.Topic, p.Partition, p.Err))
		}
	})
	return errors.Join(errs...)
}

// openTransactions reads every partition and returns the writers that have no marker after their last record, with the
// epoch of that record.
func openTransactions(ctx context.Context, client *kgo.Client, admin *kadm.Client) (map[writer]int16, error) {
	starts, err := admin.ListStartOffsets(ctx)
	if err != nil {
		return nil, fmt.Errorf("list start offsets: %w", err)
	}
	ends, err := admin.ListEndOffsets(ctx)
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	unread := map[string]map[int32]kgo.Offset{}
	left := 0
	ends.Each(func(end kadm.ListedOffset) {
		if start, ok := starts.Lookup(end.Topic, end.Partition); !ok || start.Offset >= end.Offset {
			return
		}
		if unread[end.Topic] == nil {
			unread[end.Topic] = map[int32]kgo.Offset{}
		}
		unread[end.Topic][end.Partition] = kgo.NewOffset().AtStart()
		left++
	})
	client.AddConsumePartitions(unread)
	open := map[writer]int16{}
	for left > 0 {
		fetched := client.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			return nil, fmt.Errorf("read for open transactions: %w", err)
		}
		for r := range fetched.RecordsAll() {
			w := writer{r.Topic, r.Partition, r.ProducerID}
			switch {
			case r.Attrs.IsControl():
				delete(open, w)
			case r.Attrs.IsTransactional():
				open[w] = r.ProducerEpoch
			}
			if end, _ := ends.Lookup(r.Topic, r.Partition); r.Offset == end.Offset-1 {
				left--
			}
		}
	}
	return open, nil
}
