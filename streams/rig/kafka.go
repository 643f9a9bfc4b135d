package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/localserver"
)

// kafkaVersion is the release of Apache Kafka that the tests run; pom.xml names it too, and a test compares them.
const kafkaVersion = "4.4.0"

// FakeKafka starts a broker of its own for the test, in this process and in memory, and returns its address and its
// levers for faults.
func FakeKafka(t testing.TB, opts ...kfake.Opt) (addr string, cluster *kfake.Cluster) {
	t.Helper()
	k, err := localserver.StartKafka("", 0, opts...)
	if err != nil {
		t.Fatalf("rig: %v", err)
	}
	t.Cleanup(k.Close)
	return k.Addr(), k.Cluster()
}

// RealKafka returns the address of an Apache Kafka broker that all tests of this process share: topics and groups need
// names of their own. The test is skipped only where the broker would run on this machine and Java or Maven is missing.
func RealKafka(t testing.TB) string {
	t.Helper()
	requireMain(t)
	addr, err := realKafka()
	if missing, ok := errors.AsType[*missingError](err); ok {
		t.Skipf("real Kafka: %v", missing)
	}
	if err != nil {
		t.Fatalf("rig: real Kafka: %v", err)
	}
	return addr
}

var realKafka = sync.OnceValues(func() (string, error) {
	if addr := os.Getenv("OFFERLOG_TEST_KAFKA"); addr != "" {
		return addr, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if engine() {
		return kafkaContainer(ctx)
	}
	return kafkaFromJars(ctx)
})

// brokerSettings configure one node that is broker and controller, whose clients reach it at advertised. The levels of
// group.version and transaction.version are those that the release formats a new cluster with.
func brokerSettings(listen, advertised, controller string) map[string]string {
	return map[string]string{
		"process.roles":                                    "broker,controller",
		"node.id":                                          "1",
		"controller.quorum.voters":                         "1@" + controller,
		"controller.listener.names":                        "CONTROLLER",
		"listeners":                                        "PLAINTEXT://" + listen + ",CONTROLLER://" + controller,
		"advertised.listeners":                             "PLAINTEXT://" + advertised,
		"listener.security.protocol.map":                   "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name":                       "PLAINTEXT",
		"num.partitions":                                   "8",
		"auto.create.topics.enable":                        "false",
		"unclean.leader.election.enable":                   "false",
		"min.insync.replicas":                              "1",
		"offsets.topic.replication.factor":                 "1",
		"offsets.topic.num.partitions":                     "8",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"transaction.state.log.num.partitions":             "8",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
		"group.initial.rebalance.delay.ms":                 "0",
		"group.consumer.heartbeat.interval.ms":             "200", // how long a new member waits for its partitions
		"group.consumer.min.heartbeat.interval.ms":         "200",
		"group.consumer.min.session.timeout.ms":            "1000", // a group may have its dead members missed soon
		"message.max.bytes":                                "4194304",
	}
}

// kafkaContainer starts the broker's own image. Which port of the host leads to it is known only when the container
// runs, and the broker must advertise it: so the container waits for a script that says so.
func kafkaContainer(ctx context.Context) (string, error) {
	const port, script = "9092/tcp", "/tmp/start.sh"
	env := map[string]string{}
	for name, value := range brokerSettings("0.0.0.0:9092", "", "localhost:9093") {
		if name != "advertised.listeners" {
			env[imageVariable(name)] = value
		}
	}
	var addr string
	c, err := testcontainers.Run(ctx, "apache/kafka:"+kafkaVersion,
		testcontainers.WithExposedPorts(port),
		testcontainers.WithEnv(env),
		testcontainers.WithEntrypoint("sh", "-c", "until [ -x "+script+" ]; do sleep 0.1; done; exec "+script),
		testcontainers.WithLifecycleHooks(testcontainers.ContainerLifecycleHooks{
			PostStarts: []testcontainers.ContainerHook{func(ctx context.Context, c testcontainers.Container) error {
				endpoint, err := c.PortEndpoint(ctx, port, "")
				if err != nil {
					return err
				}
				addr = endpoint
				start := fmt.Sprintf("#!/bin/sh\nexport %s=PLAINTEXT://%s\nexec /etc/kafka/docker/run\n", imageVariable("advertised.listeners"), addr)
				return c.CopyToContainer(ctx, []byte(start), script, 0o755)
			}},
		}),
		testcontainers.WithWaitStrategy(wait.ForLog("Kafka Server started")),
	)
	if c != nil {
		servers.push(func(ctx context.Context) error { return c.Terminate(ctx) })
	}
	if err != nil {
		return "", err
	}
	return addr, ready(ctx, addr, nil)
}

// imageVariable is the environment variable from which the image takes a broker setting.
func imageVariable(setting string) string {
	return "KAFKA_" + strings.ToUpper(strings.ReplaceAll(setting, ".", "_"))
}

// ready waits until the broker at addr is part of its cluster; before, it refuses to make topics. It gives up when
// ended is closed.
func ready(ctx context.Context, addr string, ended <-chan struct{}) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-ended:
			cancel(errors.New("the broker ended while starting"))
		case <-ctx.Done():
		}
	}()
	for {
		attempt, end := context.WithTimeout(ctx, time.Second)
		brokers, err := kadm.NewClient(client).ListBrokers(attempt)
		end()
		if err == nil && len(brokers) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; the last answer: %d brokers, %w", context.Cause(ctx), len(brokers), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
