package kafka_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"pgregory.net/rapid"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/streams/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

func client(t *testing.T, opts ...kfake.Opt) (*kgo.Client, kafka.Cluster) {
	t.Helper()
	addr, _ := rig.FakeKafka(t, opts...)
	c := kafka.Cluster{Brokers: []string{addr}, Prefix: "x."}
	cl, err := c.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl, c
}

// Whoever else produces a key must come to the same partition, or an offer's events would lie in two.
func TestPartitionOfAgreesWithTheClientsOwnRule(t *testing.T) {
	own := kgo.StickyKeyPartitioner(nil).ForTopic("t")
	rapid.Check(t, func(t *rapid.T) {
		key, n := rapid.StringN(1, -1, 200).Draw(t, "key"), rapid.IntRange(1, 50).Draw(t, "partitions")
		if got, want := int(kafka.PartitionOf(key, n)), own.Partition(&kgo.Record{Key: []byte(key)}, n); got != want {
			t.Errorf("key %q of %d: partition %d, the client's rule says %d", key, n, got, want)
		}
	})
}

func TestAPlanMakesWhatIsMissingAndRefusesToMoveKeys(t *testing.T) {
	cl, c := client(t)
	plan := func(partitions int, cleanup string) []kafka.Change {
		t.Helper()
		changes, err := kafka.Plan(t.Context(), cl, c.Specs([]kafka.TopicSpec{{Name: "own", Partitions: partitions, Configs: map[string]string{"cleanup.policy": cleanup}}},
			[]string{"in"}, partitions))
		if err != nil {
			t.Fatal(err)
		}
		return changes
	}
	apply := func(changes []kafka.Change) {
		t.Helper()
		if err := kafka.Apply(t.Context(), cl, changes); err != nil {
			t.Fatal(err)
		}
	}
	actions := func(changes []kafka.Change) string {
		var s []string
		for _, ch := range changes {
			s = append(s, ch.Topic+" "+string(ch.Action))
		}
		return strings.Join(s, ", ")
	}
	first := plan(3, "compact")
	if got, want := actions(first), "x.own create, x.in create"; got != want {
		t.Errorf("an empty cluster: %s, want %s", got, want)
	}
	apply(first)
	if got, want := actions(plan(3, "compact")), "x.own keep, x.in keep"; got != want {
		t.Errorf("applied: %s, want %s", got, want)
	}
	altered := plan(3, "delete")
	if got, want := actions(altered), "x.own alter, x.in keep"; got != want {
		t.Errorf("another setting: %s, want %s", got, want)
	}
	apply(altered)
	larger := plan(4, "delete")
	if got, want := actions(larger), "x.own refuse, x.in keep"; got != want {
		t.Errorf("more partitions: %s, want %s", got, want)
	}
	if err := kafka.Apply(t.Context(), cl, larger); err == nil || !strings.Contains(err.Error(), "--partitions 3") {
		t.Errorf("got %v, want a refusal that says how to go on", err)
	}
}

func TestDescribeTellsAMissingTopicAndSeesOneThatWasJustMade(t *testing.T) {
	cl, c := client(t)
	if _, err := kafka.Describe(t.Context(), cl, "x.in", false); !errors.Is(err, kafka.ErrNoTopic) {
		t.Errorf("got %v, want ErrNoTopic", err)
	}
	changes, err := kafka.Plan(t.Context(), cl, c.Specs(nil, []string{"in"}, 2))
	if err != nil {
		t.Fatal(err)
	}
	if err := kafka.Apply(t.Context(), cl, changes); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "x.in", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	d, err := kafka.Describe(t.Context(), cl, "x.in", true)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Ends) != 2 || d.Ends[0]+d.Ends[1] != 1 || d.Starts[0]+d.Starts[1] != 0 {
		t.Errorf("got %+v, want two partitions and one record", d)
	}
}

func TestCheckRefusesAClusterWithOldTransactionsAndOneThatIsNotThere(t *testing.T) {
	cl, _ := client(t)
	if err := kafka.Check(t.Context(), cl); err != nil {
		t.Errorf("a good cluster: %v", err)
	}
	old, _ := client(t, kfake.MaxVersions(kversion.V3_0_0()))
	if err := kafka.Check(t.Context(), old); !errors.Is(err, kafka.ErrTransactions) {
		t.Errorf("got %v, want ErrTransactions", err)
	}
	gone, err := kafka.Cluster{Brokers: []string{"127.0.0.1:1"}}.NewClient(kgo.RetryTimeout(1))
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	if err := kafka.Check(t.Context(), gone); !errors.Is(err, kafka.ErrUnreachable) || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v, want ErrUnreachable with the address", err)
	}
}
