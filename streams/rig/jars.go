package rig

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/offerlog/offerlog/pkg/localserver"
)

var (
	//go:embed pom.xml
	pom []byte
	//go:embed log4j2.properties
	log4j []byte
)

// clusterID is what Kafka takes for a cluster's name: 16 bytes in base64, here "offerlog-test-cl".
const clusterID = "b2ZmZXJsb2ctdGVzdC1jbA"

// A missingError names a program that a real Kafka needs on this machine.
type missingError struct{ program string }

func (e *missingError) Error() string {
	return e.program + " is not in PATH: install it, or set OFFERLOG_TEST_KAFKA to a broker's address"
}

// KafkaJars is the folder with the jars of Kafka, its Java client among them. Without Maven the test is skipped.
func KafkaJars(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("mvn"); err != nil {
		t.Skip("SKIPPED: mvn is not in PATH: install Maven, which fetches the Java client of Kafka")
	}
	jars, err := resolveJars(t.Context())
	if err != nil {
		t.Fatalf("rig: %v", err)
	}
	return jars
}

// kafkaFromJars runs the broker in a JVM of its own.
func kafkaFromJars(ctx context.Context) (string, error) {
	for _, program := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", &missingError{program}
		}
	}
	jars, err := resolveJars(ctx)
	if err != nil {
		return "", err
	}
	dir, err := temporary()
	if err != nil {
		return "", err
	}
	ports, err := freePorts(2)
	if err != nil {
		return "", err
	}
	addr := fmt.Sprintf("127.0.0.1:%d", ports[0])
	settings := brokerSettings(addr, addr, fmt.Sprintf("127.0.0.1:%d", ports[1]))
	settings["log.dirs"] = filepath.Join(dir, "data")
	config := filepath.Join(dir, "server.properties")
	logging := filepath.Join(dir, "log4j2.properties")
	if err := errors.Join(os.WriteFile(config, properties(settings), 0o644), os.WriteFile(logging, log4j, 0o644)); err != nil {
		return "", err
	}
	java := func(args ...string) *exec.Cmd {
		// A quick start counts for more than speed later: one compiler, one collector thread.
		return exec.CommandContext(context.WithoutCancel(ctx), "java", append([]string{
			"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms128m", "-Xmx768m",
			"-Dlog4j2.configurationFile=" + logging, "-cp", filepath.Join(jars, "*"),
		}, args...)...)
	}
	format := java("kafka.tools.StorageTool", "format", "--cluster-id", clusterID, "--config", config)
	if out, err := format.CombinedOutput(); err != nil {
		return "", fmt.Errorf("format the storage: %w: %s", err, out)
	}
	log, err := os.Create(filepath.Join(dir, "broker.log"))
	if err != nil {
		return "", err
	}
	defer log.Close()
	broker := java("kafka.Kafka", config)
	broker.Stdout, broker.Stderr = log, log
	child, err := localserver.StartChild(broker, syscall.SIGKILL)
	if err != nil {
		return "", err
	}
	servers.push(func(ctx context.Context) error { return child.Stop(ctx, syscall.SIGKILL, syscall.SIGKILL) })
	if err := ready(ctx, addr, child.Done()); err != nil {
		out, _ := os.ReadFile(log.Name())
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return addr, nil
}

// properties writes settings as a Java properties file.
func properties(settings map[string]string) []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&b, "%s=%s\n", name, settings[name])
	}
	return b.Bytes()
}

// resolveJars has Maven bring the broker and what it needs into the user's cache, once for each version, and returns
// the folder. Test processes that want it at the same time wait for one another.
func resolveJars(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "offerlog", "kafka-"+kafkaVersion)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close() // and with it the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	jars := filepath.Join(dir, "jars")
	if _, err := os.Stat(jars); !errors.Is(err, os.ErrNotExist) {
		return jars, err
	}
	if err := os.WriteFile(filepath.Join(dir, "pom.xml"), pom, 0o644); err != nil {
		return "", err
	}
	fresh := jars + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return "", err
	}
	mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+fresh)
	mvn.Dir = dir
	if out, err := mvn.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch the jars of Kafka %s with Maven: %w: %s", kafkaVersion, err, strings.TrimSpace(string(out)))
	}
	return jars, os.Rename(fresh, jars)
}
