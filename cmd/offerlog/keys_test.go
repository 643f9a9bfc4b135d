package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/feed"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/audit"
	"github.com/offerlog/offerlog/streams/rig"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// vault is an installation with evidence of tenants, and the flags with which the commands find it.
type vault struct {
	*pipeline.Pipeline
	t     *testing.T
	flags []string
}

func newVault(t *testing.T, tenants ...string) *vault {
	t.Helper()
	v := &vault{pipeline.New(t, pipeline.Options{}), t, nil}
	key := filepath.Join(t.TempDir(), "archive.key")
	if err := os.WriteFile(key, []byte(strings.Repeat("0", 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	v.flags = []string{"--kafka", strings.Join(v.Cluster.Brokers, ","), "--postgres", v.DSN, "--archive", v.Folder, "--archive-key-file", key}
	v.Topics(streams.Deliveries)
	v.StartAll()
	for _, tenant := range tenants {
		spec, err := feed.ParseYAML("feed.yaml", fmt.Appendf(nil, `
feed: acme
tenant: %[1]s
connector: c1
account: ACC-1
accepts: {topics: [deliveries], source: /%[1]s}
format: {kind: json, rows: ".[]"}
order: version
mapping: {version: 1, fields: {source_record: .sku, source_version: .rev, item: {mpn: .sku}, quantity: .qty}}
`, tenant))
		if err != nil {
			t.Fatal(err)
		}
		v.ApplyFeed(spec)
	}
	return v
}

// deliver publishes a payload twice and returns its place, once it is in the view.
func (v *vault) deliver(tenant, id string, payload []byte) string {
	v.t.Helper()
	r := pipeline.Event(streams.Deliveries, tenant, payload, map[string]string{"id": id, "source": "/" + tenant, "time": "2026-03-02T08:00:00Z"})
	first := v.Publish(r, r)[0]
	v.SettleOffers()
	return fmt.Sprintf("%s/%d/%d", streams.Deliveries, first.Partition, first.Offset)
}

// offerlog runs a command of a tenant.
func (v *vault) offerlog(tenant string, args ...string) (stdout, stderr string, exit int) {
	v.t.Helper()
	return run(v.t, append(append(args, "--tenant", tenant), v.flags...)...)
}

func (v *vault) audit() {
	v.t.Helper()
	r, err := audit.Run(v.t.Context(), audit.Inputs{Pool: v.Pool, Cluster: v.Cluster, Archive: v.Archive, Mapper: v.Mapper})
	if err != nil {
		v.t.Fatal(err)
	}
	for _, i := range r.Invariants {
		for _, violation := range i.Violations {
			v.t.Errorf("%s: %+v", i.ID, violation)
		}
	}
}

// A file as an old program writes it: a byte order mark, lines that end in CR LF, and bytes that are no UTF-8. No mapping of
// this feed reads it, and it is evidence all the same.
func TestS_000_06_an_auditor_gets_the_literal_bytes_and_a_reader_nothing(t *testing.T) {
	v := newVault(t, "t1")
	sent := []byte("\xef\xbb\xbfArtikel;Preis;Gr\xf6\xdfe\r\nAX-440-R2;820,00;10 \xb5F\r\n")
	place := v.deliver("t1", "FILE/1", sent)
	sum := fmt.Sprintf("%x", sha256.Sum256(sent))
	file := filepath.Join(t.TempDir(), "export.csv")
	for _, what := range []string{place, "t1/c1/ACC-1/%2Ft1/FILE%2F1"} {
		stdout, stderr, exit := v.offerlog("t1", "artifact", "get", what)
		if exit != 0 || stdout != string(sent) || !strings.Contains(stderr, fmt.Sprintf("%d bytes, sha256 %s, retrieved at 2", len(sent), sum)) {
			t.Errorf("%s: got exit %d, %q and %q, want the bytes, their digest and when they were retrieved", what, exit, stdout, stderr)
		}
		if _, stderr, exit := v.offerlog("t1", "artifact", "get", what, "-o", file); exit != 0 {
			t.Errorf("to a file: got exit %d and %q", exit, stderr)
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("to a file: got %q, %v", got, err)
		}
	}
	for what, exit := range map[string]int{"deliveries/9/9": exitNotFound, "t1/c1/ACC-1/%2Ft1/NONE": exitNotFound, "nonsense": exitUsage} {
		if stdout, stderr, got := v.offerlog("t1", "artifact", "get", what); got != exit || stdout != "" {
			t.Errorf("%s: got exit %d, %q and %q, want %d", what, got, stdout, stderr, exit)
		}
	}
	if stdout, _, exit := v.offerlog("t2", "artifact", "get", place); exit != exitNotFound || stdout != "" {
		t.Errorf("another tenant: got exit %d and %q", exit, stdout)
	}

	const login = "offerlog_artifact_reader"
	super := rig.DatabaseAsSuperuser(t, v.DSN)
	statement := func(sql string) {
		t.Helper()
		ctx := context.WithoutCancel(t.Context())
		if err := execute(ctx, super, func(conn *pgx.Conn) error { _, err := conn.Exec(ctx, sql); return err }); err != nil {
			t.Fatal(err)
		}
	}
	statement("DROP ROLE IF EXISTS " + login)
	statement("CREATE ROLE " + login + " LOGIN PASSWORD 'reader'; GRANT offerlog_read TO " + login)
	t.Cleanup(func() { statement("DROP ROLE " + login) })
	u, err := url.Parse(v.DSN)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(login, "reader")
	v.flags[3] = u.String()
	if stdout, stderr, exit := v.offerlog("t1", "artifact", "get", place); exit != exitNotAllowed || stdout != "" || !strings.Contains(stderr, "offerlog_audit") {
		t.Errorf("a reader: got exit %d, %q and %q, want it refused", exit, stdout, stderr)
	}
}

func TestShreddingATenantLeavesNothingToReadAndTheRestAsItWas(t *testing.T) {
	v := newVault(t, "t1", "t2")
	payload := func(rev int) []byte { return fmt.Appendf(nil, `[{"sku": "A-1", "rev": %d, "qty": 1}]`, rev) }
	mine, other := v.deliver("t1", "D-1", payload(1)), v.deliver("t2", "D-1", payload(1))
	v.audit()
	for _, refused := range [][]string{
		{"keys", "shred", "t1"},
		{"keys", "shred", "t2", "--reason", "the wrong tenant"},
		{"keys", "shred", "--reason", "no tenant"},
	} {
		if _, stderr, exit := v.offerlog("t1", refused...); exit != exitUsage {
			t.Errorf("%v: got exit %d and %q, want it refused", refused, exit, stderr)
		}
	}
	if _, stderr, exit := v.offerlog("t1", "keys", "rotate", "--reason", "yearly"); exit != 0 {
		t.Fatalf("rotate: got exit %d and %q", exit, stderr)
	}
	if _, stderr, exit := v.offerlog("t1", "keys", "shred", "t1", "--reason", "contract ended", "--actor", "ann"); exit != 0 {
		t.Fatalf("shred: got exit %d and %q", exit, stderr)
	}
	if stdout, stderr, exit := v.offerlog("t1", "artifact", "get", mine); exit != exitNotFound || stdout != "" || !strings.Contains(stderr, "shredded") {
		t.Errorf("its payload: got exit %d, %q and %q", exit, stdout, stderr)
	}
	if stdout, stderr, exit := v.offerlog("t2", "artifact", "get", other); exit != 0 || stdout != string(payload(1)) {
		t.Errorf("another tenant's: got exit %d, %q and %q", exit, stdout, stderr)
	}
	if stdout, _, exit := v.offerlog("t1", "deliveries", "--json", "--feed", "acme"); exit != 0 || !strings.Contains(stdout, `"state":"shredded"`) || !strings.Contains(stdout, fmt.Sprintf("%x", sha256.Sum256(payload(1)))) {
		t.Errorf("its receipts: got exit %d and %s, want them with their digests", exit, stdout)
	}
	var receipt string
	err := postgres.InTx(t.Context(), v.Pool, postgres.Inspect, func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), `SELECT format('%s %s by %s: %s', p.tenant, p.kind, p.actor, p.reason) FROM audit_v1.pruning AS p`).Scan(&receipt)
	})
	if err != nil || receipt != "t1 keys by ann: contract ended" {
		t.Errorf("got the receipt %q, %v", receipt, err)
	}
	v.audit()

	// The tenant may come back: the worker that remembers the destroyed key takes a new one.
	again := v.deliver("t1", "D-2", payload(2))
	if stdout, stderr, exit := v.offerlog("t1", "artifact", "get", again); exit != 0 || stdout != string(payload(2)) {
		t.Errorf("what came later: got exit %d, %q and %q", exit, stdout, stderr)
	}
	if got := v.Offers("t1"); len(got) != 1 {
		t.Errorf("got offers %+v", got)
	}
	v.audit()
}
