package localserver

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func startKafka(t *testing.T, dir string, port int) *Kafka {
	t.Helper()
	k, err := StartKafka(dir, port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

func client(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseAllowingRebalance)
	return c
}

// What a broker holds is there again after it was closed, and after its process was killed with -9, twice: topic ids,
// records, committed offsets, and what it knows of producers. What was written in a transaction that was open then is
// not among the committed records, and what its producer commits afterwards is.
func TestKafkaKeepsItsDataDirectory(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, dir string) (addr string, end func()){
		"closed": func(t *testing.T, dir string) (string, func()) {
			k := startKafka(t, dir, 0)
			return k.Addr(), k.Close
		},
		"killed": func(t *testing.T, dir string) (string, func()) {
			helper, addr := hold(t, account{}, "hold-kafka", dir)
			return addr, func() {
				if err := helper.Kill(); err != nil {
					t.Fatal(err)
				}
				if _, err := helper.Wait(); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			dir := t.TempDir()

			addr, end := open(t, dir)
			first := transactional(t, addr)
			admin := kadm.NewClient(first)
			created, err := admin.CreateTopic(ctx, 1, 1, nil, keptTopic)
			if err != nil {
				t.Fatal(err)
			}
			write(ctx, t, first, "before")
			commit(ctx, t, first)
			var offsets kadm.Offsets
			offsets.Add(kadm.Offset{Topic: keptTopic, Partition: 0, At: 1, LeaderEpoch: -1})
			if err := admin.CommitAllOffsets(ctx, "readers", offsets); err != nil {
				t.Fatal(err)
			}
			id, epoch, err := first.ProducerID(ctx)
			if err != nil {
				t.Fatal(err)
			}
			write(ctx, t, first, "left open")
			end()

			addr, end = open(t, dir)
			second := transactional(t, addr)
			admin = kadm.NewClient(second)
			topics, err := admin.ListTopics(ctx, keptTopic)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := topics[keptTopic].ID, created.ID; got != want {
				t.Errorf("topic id: got %v, want %v", got, want)
			}
			committed, err := admin.FetchOffsets(ctx, "readers")
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := committed.Lookup(keptTopic, 0); !ok || got.At != 1 {
				t.Errorf("committed offset: got %+v, want 1", got)
			}
			idAfter, epochAfter, err := second.ProducerID(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if idAfter != id || epochAfter <= epoch {
				t.Errorf("producer of the same transactional id: got %d epoch %d, want %d and an epoch above %d", idAfter, epochAfter, id, epoch)
			}
			write(ctx, t, second, "after")
			commit(ctx, t, second)
			wantCommitted(ctx, t, addr, "before", "after")
			end()

			addr, _ = open(t, dir)
			wantCommitted(ctx, t, addr, "before", "after")
		})
	}
}

// A transaction that is open when the broker is closed can be committed after the next start.
func TestKafkaKeepsOpenTransactionsOverAClose(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	k := startKafka(t, dir, 0)
	c := transactional(t, k.Addr())
	if _, err := kadm.NewClient(c).CreateTopic(ctx, 1, 1, nil, keptTopic); err != nil {
		t.Fatal(err)
	}
	write(ctx, t, c, "open")
	port := portOf(t, k)
	k.Close()
	k = startKafka(t, dir, port)
	commit(ctx, t, c)
	wantCommitted(ctx, t, k.Addr(), "open")
}

func portOf(t *testing.T, k *Kafka) int {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", k.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return addr.Port
}

const keptTopic = "kept"

func transactional(t *testing.T, addr string) *kgo.Client {
	t.Helper()
	return client(t, addr, kgo.TransactionalID("writer"), kgo.DefaultProduceTopic(keptTopic))
}

// write begins a transaction with one record.
func write(ctx context.Context, t *testing.T, c *kgo.Client, value string) {
	t.Helper()
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := c.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func commit(ctx context.Context, t *testing.T, c *kgo.Client) {
	t.Helper()
	if err := c.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
}

// wantCommitted reads all that is committed, from the start.
func wantCommitted(ctx context.Context, t *testing.T, addr string, want ...string) {
	t.Helper()
	reader := client(t, addr, kgo.ConsumeTopics(keptTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	var got []string
	for len(got) < len(want) {
		fetched := reader.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			t.Fatalf("got %q, want %q: %v", got, want, err)
		}
		for r := range fetched.RecordsAll() {
			got = append(got, string(r.Value))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("committed records: got %q, want %q", got, want)
	}
}

// The broker serves the next-generation group protocol (KIP-848) and finalizes the features that go with it, without
// any setting.
func TestKafkaNextGenerationGroups(t *testing.T) {
	addr := startKafka(t, "", 0).Addr()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const topic, group = "shared", "next-generation"
	assigned := make(chan map[string][]int32, 1)
	member := client(t, addr, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			if len(partitions) > 0 {
				assigned <- partitions
			}
		}))
	admin := kadm.NewClient(client(t, addr))
	if _, err := admin.CreateTopic(ctx, 3, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	go member.PollFetches(ctx)
	select {
	case got := <-assigned:
		if len(got[topic]) != 3 {
			t.Errorf("assigned: got %v, want 3 partitions of %s", got, topic)
		}
	case <-ctx.Done():
		t.Fatal("nothing was assigned")
	}
	groups, err := admin.DescribeConsumerGroups(ctx, group) // a group of the classic protocol is an error here
	if err != nil {
		t.Fatal(err)
	}
	if d := groups[group]; d.Err != nil || len(d.Members) != 1 {
		t.Errorf("group: got %d members, error %v, want 1", len(d.Members), d.Err)
	}
}

func TestKafkaFeatures(t *testing.T) {
	versions, err := kmsg.NewPtrApiVersionsRequest().RequestWith(t.Context(), client(t, startKafka(t, "", 0).Addr()))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int16{}
	for _, f := range versions.FinalizedFeatures {
		got[f.Name] = f.MaxVersionLevel
	}
	for feature, want := range map[string]int16{"transaction.version": 2, "group.version": 1} {
		if got[feature] != want {
			t.Errorf("%s: got %d, want %d", feature, got[feature], want)
		}
	}
}

func TestKafkaMakesNoTopicsByItself(t *testing.T) {
	writer := client(t, startKafka(t, "", 0).Addr(), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(0))
	err := writer.ProduceSync(t.Context(), &kgo.Record{Topic: "unasked", Value: []byte("x")}).FirstErr()
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("got %v, want %v", err, kerr.UnknownTopicOrPartition)
	}
}

func TestKafkaStartErrors(t *testing.T) {
	t.Run("a port that is taken is named", func(t *testing.T) {
		port := portOf(t, startKafka(t, "", 0))
		_, err := StartKafka("", port)
		wantError(t, err, "on port "+strconv.Itoa(port))
	})
	t.Run("a directory that is a file is named", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := StartKafka(file, 0)
		wantError(t, err, file)
	})
}
