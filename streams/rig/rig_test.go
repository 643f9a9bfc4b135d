package rig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestMain(m *testing.M) { Main(m) }

func TestPostgresServer(t *testing.T) {
	dsn := PostgresServer(t)
	roundTripPostgres(t, dsn)
	if again := PostgresServer(t); again != dsn {
		t.Errorf("a second call: got another server %s, want %s", again, dsn)
	}
}

func TestFakeKafka(t *testing.T) {
	addr, cluster := FakeKafka(t)
	roundTripKafka(t, addr)
	if got := cluster.ListenAddrs(); !slices.Equal(got, []string{addr}) {
		t.Errorf("got a cluster at %v, want %s", got, addr)
	}
}

func TestRealKafka(t *testing.T) {
	addr := RealKafka(t)
	roundTripKafka(t, addr)
	if again := RealKafka(t); again != addr {
		t.Errorf("a second call: got another broker %s, want %s", again, addr)
	}
	if got := finalized(t, addr, "transaction.version"); got != 2 {
		t.Errorf("transaction.version: got %d, want 2", got)
	}
	if got := finalized(t, addr, "group.version"); got != 1 {
		t.Errorf("group.version: got %d, want 1", got)
	}
}

func TestContainers(t *testing.T) {
	if !engine() {
		t.Skip("no container engine answers")
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	dsn, err := postgresContainer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	roundTripPostgres(t, dsn)
	addr, err := kafkaContainer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	roundTripKafka(t, addr)
}

func TestThePOMNamesTheVersion(t *testing.T) {
	if want := "<version>" + kafkaVersion + "</version>"; !strings.Contains(string(pom), want) {
		t.Errorf("pom.xml has no %s", want)
	}
}

func TestServersStopInReverseOrderAndAllOfThem(t *testing.T) {
	var s stack
	var order []int
	for i := range 3 {
		s.push(func(context.Context) error {
			order = append(order, i)
			return fmt.Errorf("stop %d", i)
		})
	}
	err := s.stop()
	if want := []int{2, 1, 0}; !slices.Equal(order, want) {
		t.Errorf("got order %v, want %v", order, want)
	}
	if got, want := fmt.Sprint(err), "stop 2\nstop 1\nstop 0"; got != want {
		t.Errorf("got error %q, want %q", got, want)
	}
}

func TestReadyGivesUpWhenTheBrokerEnds(t *testing.T) {
	ended := make(chan struct{})
	close(ended)
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	err = ready(t.Context(), fmt.Sprintf("127.0.0.1:%d", ports[0]), ended)
	if err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the broker ended while starting") {
		t.Errorf("got %v, want that the broker ended", err)
	}
}

func roundTripPostgres(t *testing.T, dsn string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var super bool
	if err := conn.QueryRow(t.Context(), `SELECT rolsuper FROM pg_roles WHERE rolname = current_user`).Scan(&super); err != nil {
		t.Fatal(err)
	}
	if !super {
		t.Error("the DSN's user is no superuser")
	}
}

// roundTripKafka writes a record in a transaction and reads it back, committed.
func roundTripKafka(t *testing.T, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const topic, want = "round-trip", "there and back"
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(ctx, kgo.StringRecord(want)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	fetched := client.PollFetches(ctx)
	if err := fetched.Err(); err != nil {
		t.Fatal(err)
	}
	if got := string(fetched.Records()[0].Value); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// finalized is the level of a feature that the cluster runs at, 0 where it does not.
func finalized(t *testing.T, addr, feature string) int16 {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	versions, err := kmsg.NewPtrApiVersionsRequest().RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range versions.FinalizedFeatures {
		if f.Name == feature {
			return f.MaxVersionLevel
		}
	}
	return 0
}

func TestServersLieInMemoryOnlyWhereThereIsRoom(t *testing.T) {
	if got := memory(t.TempDir()); got != "" && !strings.HasPrefix(got, "/dev/shm") {
		t.Errorf("a folder on a disk: got %q, want the usual one", got)
	}
	if got := memory("/dev/shm/no-such-folder"); got != "" {
		t.Errorf("no folder: got %q, want the usual one", got)
	}
	t.Setenv("OFFERLOG_SOAK", "1")
	if got := memory("/dev/shm"); got != "" {
		t.Errorf("a long campaign: got %q, want the usual one", got)
	}
}
