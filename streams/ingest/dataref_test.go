package ingest_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/dataref"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/quarantine"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/janitor"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// A supplier serves what its test says, by https on loopback.
type supplier struct {
	*httptest.Server
	mu    sync.Mutex
	pages map[string]string
	asked int
}

func newSupplier(t testing.TB) *supplier {
	t.Helper()
	s := &supplier{pages: map[string]string{}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked++
		page, ok := s.pages[r.URL.Path]
		if !ok {
			rw.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(rw, page)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *supplier) serve(path, page string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if page == "" {
		delete(s.pages, path)
	} else {
		s.pages[path] = page
	}
}

func (s *supplier) host() string { return s.Listener.Addr().String() }

// fetcher follows references to the supplier's address, and to files of tenant t1 in root.
func (s *supplier) fetcher(t testing.TB, root string) *dataref.Fetcher {
	t.Helper()
	folder, err := dataref.OpenFolder(filepath.Join(t.TempDir(), "spool"))
	if err != nil {
		t.Fatal(err)
	}
	cas := x509.NewCertPool()
	cas.AddCert(s.Certificate())
	f, err := dataref.Open(dataref.Config{RootCAs: cas, AllowAddresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, MaxBytes: 1 << 20,
		Roots: []dataref.Root{{Tenant: "t1", Folder: root}}}, folder.Path())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, err := os.ReadDir(folder.Path())
		if err != nil || len(left) != 1 { // the lock
			t.Errorf("the spool folder holds %v, %v", left, err)
		}
		if err := errors.Join(f.Close(), folder.Close()); err != nil {
			t.Error(err)
		}
	})
	return f
}

// reference is an event of acme-eu whose data lies elsewhere.
func reference(id, uri string, attributes ...string) *kgo.Record {
	r := delivery(id, "", append([]string{"dataref", uri}, attributes...)...)
	r.Value = nil
	return r
}

func TestDataThatAnEventNamesIsADeliveryLikeAnyOther(t *testing.T) {
	onBothBrokers(t, pipeline.Options{}, func(t *testing.T, s *scene) {
		sup, root := newSupplier(t), t.TempDir()
		w := s.StartIngest(ingest.Config{Fetcher: sup.fetcher(t, root)}, s.Archive)
		s.ApplyFeed(specOf(t, "dataref: {hosts: ['"+sup.host()+"']}\n"))
		sup.serve("/1", "["+row("A", 1, "1")+","+row("B", 1, "2")+"]")
		sup.serve("/2", row("C", 1, "3"))
		if err := os.WriteFile(filepath.Join(root, "3.json"), []byte(row("D", 1, "4")), 0o600); err != nil {
			t.Fatal(err)
		}
		digest := "sha256:" + offer.Sum([]byte(row("C", 1, "3"))).String()
		records := []*kgo.Record{
			delivery("before", row("E", 1, "5")),
			reference("E-1", sup.URL+"/1"),
			delivery("between", row("F", 1, "6")),
			reference("E-2", sup.URL+"/2?token=s3cret", "datadigest", digest),
			reference("E-3", "file://"+root+"/3.json"),
			delivery("carries", row("G", 1, "7"), "dataref", sup.URL+"/not-asked-for"),
			delivery("after", row("H", 1, "8")),
		}
		s.Feed(s.rng, records...)
		s.wantTally("", "accepted 7, duplicate 7")
		if got := len(s.Observations("t1")); got != 8 {
			t.Errorf("got %d observations, want 8", got)
		}
		// Where the data lies says nothing about what it claims: a link that was renewed makes no other delivery.
		s.Publish(reference("E-2", sup.URL+"/2?token=renewed"))
		s.wantTally("E-2", "accepted 1, duplicate 2")
		sup.serve("/2", row("C", 1, "30"))
		s.Publish(reference("E-2", sup.URL+"/2"))
		s.wantTally("E-2", "accepted 1, duplicate 2, replay_payload_mismatch 1")
		w.Stop()
		s.verify()
	})
}

func TestDataThatCannotBeHadIsTheDeliverysFault(t *testing.T) {
	s := newScene(t, pipeline.Options{MaxRecords: 1000})
	sup, root := newSupplier(t), t.TempDir()
	s.StartIngest(ingest.Config{Fetcher: sup.fetcher(t, root)}, s.Archive)
	s.ApplyFeed(specOf(t, "dataref: {hosts: ['"+sup.host()+"']}\n"))
	sup.serve("/data", row("A", 1, "1"))
	sup.serve("/large", strings.Repeat(" ", 1<<20)+row("A", 1, "1"))
	sup.serve("/bad", "{")
	for what, c := range map[string]struct {
		uri        string
		attributes []string
		reason     string
	}{
		"a host that is not listed":    {"https://169.254.169.254/latest/meta-data", nil, offer.ReasonDatarefForbidden},
		"a file of the system":         {"file:///etc/passwd", nil, offer.ReasonDatarefForbidden},
		"a page that is not there":     {sup.URL + "/missing", nil, offer.ReasonDatarefUnavailable},
		"a digest that does not match": {sup.URL + "/data", []string{"datadigest", "sha256:" + strings.Repeat("0", 64)}, offer.ReasonDatarefDigestMismatch},
		"a digest that is none":        {sup.URL + "/data", []string{"datadigest", "x"}, offer.ReasonNotACloudEvent},
		"too much data":                {sup.URL + "/large", nil, offer.ReasonArtifactTooLarge},
		"data that cannot be read":     {sup.URL + "/bad", nil, offer.ReasonSchemaInvalid},
		"a page number that is none":   {sup.URL + "/data", []string{"page", "x"}, offer.ReasonNotACloudEvent},
	} {
		t.Run(what, func(t *testing.T) {
			s.t = t
			event := reference(what, c.uri, c.attributes...)
			s.Publish(event, delivery("beside "+what, row("B "+what, 1, "2")), reference(what, c.uri, c.attributes...))
			s.wantTally(what, c.reason+" 2")
			s.wantTally("beside "+what, "accepted 1")
			for _, o := range s.outcomes(streams.Deliveries, what) {
				if !o.Archived {
					t.Errorf("the envelope of %s is not kept", what)
				}
			}
		})
	}
	s.t = t
	s.verify()
}

func TestDataThatComesBackIsTakenAndWhatWasTakenStays(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	sup := newSupplier(t)
	s.StartIngest(ingest.Config{Fetcher: sup.fetcher(t, t.TempDir())}, s.Archive)
	s.ApplyFeed(specOf(t, "dataref: {hosts: ['"+sup.host()+"']}\n"))
	s.Publish(reference("E-1", sup.URL+"/data"))
	s.wantTally("E-1", "dataref_unavailable 1")
	sup.serve("/data", row("A", 1, "1"))
	s.Publish(reference("E-1", sup.URL+"/data"))
	s.wantTally("E-1", "accepted 1, dataref_unavailable 1")
	// A repeat whose data is gone cannot be compared: it is no mismatch, and what stands is untouched.
	sup.serve("/data", "")
	s.Publish(reference("E-1", sup.URL+"/data"))
	s.wantTally("E-1", "accepted 1, dataref_unavailable 2")
	s.verify()
}

// A supplier that is down is asked again, at growing distances and not for ever; what it gives then is the delivery.
func TestDataThatWasOutOfReachIsFetchedAgain(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	sup := newSupplier(t)
	s.StartIngest(ingest.Config{Fetcher: sup.fetcher(t, t.TempDir())}, s.Archive)
	s.Start(pipeline.Relay)
	s.Start(pipeline.Project)
	s.ApplyFeed(specOf(t, "dataref: {hosts: ['"+sup.host()+"']}\n"))
	s.Publish(reference("E-1", sup.URL+"/1"), reference("E-2", sup.URL+"/2"))
	s.wantTally("E-1", "dataref_unavailable 1")
	s.wantTally("E-2", "dataref_unavailable 1")
	// look lets two janitors look for what is due so much later, and waits for what comes of it.
	look := func(later time.Duration, replays int) {
		t.Helper()
		var told []*kgo.Record
		for range 2 {
			s.asSuperuser("DELETE FROM janitor_task") // neither knows of the other
			cfg := janitor.Config{Now: func() time.Time { return time.Now().Add(later) }, Command: func(_ context.Context, r *kgo.Record) error {
				told = append(told, r)
				return nil
			}}
			if err := janitor.New(s.Pool, cfg, slog.New(slog.DiscardHandler)).Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s.Publish(told...)
		s.replayed(replays)
	}
	s.SettleOffers()
	look(30*time.Second, 0)
	look(90*time.Second, 2)
	s.wantTally("E-1", "dataref_unavailable 1") // the other stands where it was tried again
	look(90*time.Second, 2)                     // the second try waits for two minutes
	sup.serve("/1", row("A", 1, "7"))
	look(150*time.Second, 4)
	for _, e := range s.entries("t1") {
		want := map[string]string{"E-1": "resolved", "E-2": "open"}[e.EventID]
		var made []quarantine.Decision
		err := postgres.AsTenant(t.Context(), s.Pool, postgres.Audit, "t1", func(tx pgx.Tx) (err error) {
			made, err = quarantine.Decisions(t.Context(), tx, e.ID)
			return err
		})
		if err != nil || e.State != want || len(made) != 2 || made[0].Verdict != quarantine.Redriven || made[0].Actor != "offerlog" {
			t.Errorf("entry of %s: got %s after %+v, %v, want %s after two tries", e.EventID, e.State, made, err, want)
		}
	}
	if offers := s.Offers("t1"); len(offers) != 1 || offers[0].Quantity.String() != "7" {
		t.Errorf("got %+v, want what the supplier has given", offers)
	}
	// Ten tries, and no more.
	for n := 2; n < 12; n++ {
		look(1000*time.Hour, 4+min(n-1, 8))
	}
	s.verify()
}

func TestWithoutAFetcherNoReferenceIsFollowed(t *testing.T) {
	s := newScene(t, pipeline.Options{})
	sup := newSupplier(t)
	sup.serve("/data", row("A", 1, "1"))
	s.Start(pipeline.Ingest)
	s.ApplyFeed(specOf(t, "dataref: {hosts: ['"+sup.host()+"']}\n"))
	s.Publish(reference("E-1", sup.URL+"/data"))
	s.wantTally("E-1", "dataref_forbidden 1")
	if sup.asked > 0 {
		t.Errorf("the supplier was asked %d times", sup.asked)
	}
}
