package dataref

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/offerlog/offerlog/pkg/offer"
)

// A world is a fetcher whose names are the test's, and a TLS server on loopback that it may connect to.
type world struct {
	*Fetcher
	t      *testing.T
	mux    *http.ServeMux
	port   string
	folder string
	names  map[string][][]netip.Addr // of each host its answers, one after the other; the last one stays
	dialed []string
}

// supplier is the host that the feed lists, and that the server has a certificate for.
const supplier = "example.com"

func newWorld(t *testing.T, cfg Config) *world {
	t.Helper()
	w := &world{t: t, mux: http.NewServeMux(), folder: t.TempDir(), names: map[string][][]netip.Addr{}}
	server := httptest.NewTLSServer(w.mux)
	t.Cleanup(server.Close)
	_, w.port, _ = net.SplitHostPort(server.Listener.Addr().String())
	loopback := netip.MustParseAddr("127.0.0.1")
	if cfg.AllowAddresses == nil {
		cfg.AllowAddresses = []netip.Addr{loopback}
	}
	cfg.RootCAs = x509.NewCertPool()
	cfg.RootCAs.AddCert(server.Certificate())
	var err error
	if w.Fetcher, err = Open(cfg, w.folder); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	w.resolves(supplier, []string{"127.0.0.1"})
	w.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		answers := w.names[host]
		if len(answers) == 0 {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		if len(answers) > 1 {
			w.names[host] = answers[1:]
		}
		return answers[0], nil
	}
	connect := w.connect
	w.connect = func(ctx context.Context, network, address string) (net.Conn, error) {
		w.dialed = append(w.dialed, address)
		return connect(ctx, network, address)
	}
	return w
}

func (w *world) resolves(host string, answers ...[]string) {
	w.names[host] = nil
	for _, answer := range answers {
		var addrs []netip.Addr
		for _, a := range answer {
			addrs = append(addrs, netip.MustParseAddr(a))
		}
		w.names[host] = append(w.names[host], addrs)
	}
}

func (w *world) serve(path, body string) {
	w.mux.HandleFunc(path, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, body) })
}

func (w *world) url(path string) string { return "https://" + supplier + ":" + w.port + path }

func (w *world) hosts() []string { return []string{supplier + ":" + w.port} }

// fetch follows a reference of a feed that lists the supplier, and returns what came, or the fault.
func (w *world) fetch(r Ref) (string, *offer.Fault) {
	w.t.Helper()
	r.Tenant = "t1"
	if r.Hosts == nil {
		r.Hosts = w.hosts()
	}
	file, fault, err := w.Fetch(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	if fault != nil {
		w.empty()
		return "", fault
	}
	b, err := os.ReadFile(file.Path)
	if err := errors.Join(err, file.Remove()); err != nil {
		w.t.Fatal(err)
	}
	if file.Length != int64(len(b)) || file.Sum != offer.Sum(b) {
		w.t.Errorf("the file says %d bytes with digest %s, and has %d with %s", file.Length, file.Sum, len(b), offer.Sum(b))
	}
	return string(b), nil
}

// empty makes sure that what failed left no file.
func (w *world) empty() {
	w.t.Helper()
	left, err := os.ReadDir(w.folder)
	if err != nil || len(left) > 0 {
		w.t.Errorf("the folder holds %v, %v", left, err)
	}
}

func (w *world) wantFault(r Ref, reason string) *offer.Fault {
	w.t.Helper()
	_, fault := w.fetch(r)
	if fault == nil || fault.Reason != reason {
		w.t.Fatalf("got %v, want %s", fault, reason)
	}
	return fault
}

func TestDataOfAListedHostIsFetched(t *testing.T) {
	w := newWorld(t, Config{})
	w.serve("/prices.csv", "sku,price\nA-1,19.90\n")
	for what, r := range map[string]Ref{
		"without a digest":       {URI: w.url("/prices.csv")},
		"with its digest":        {URI: w.url("/prices.csv"), Digest: offer.DigestPrefix + offer.Sum([]byte("sku,price\nA-1,19.90\n")).String()},
		"host in capitals":       {URI: strings.Replace(w.url("/prices.csv"), "example", "EXAMPLE", 1)},
		"with a query":           {URI: w.url("/prices.csv?token=s3cret")},
		"one host of several":    {URI: w.url("/prices.csv"), Hosts: append([]string{"other.example"}, w.hosts()...)},
		"with a fragment":        {URI: w.url("/prices.csv#1")},
		"an address of the host": {URI: "https://127.0.0.1:" + w.port + "/prices.csv", Hosts: []string{"127.0.0.1:" + w.port}},
	} {
		t.Run(what, func(t *testing.T) {
			w.t = t
			w.resolves("EXAMPLE.com", []string{"127.0.0.1"})
			if got, fault := w.fetch(r); fault != nil || got != "sku,price\nA-1,19.90\n" {
				t.Errorf("got %q, %v", got, fault)
			}
		})
	}
}

// What an event names is not followed into the network that offerlog runs in, however it is spelled, and nobody hears of it.
func TestNoConnectionIsMadeToWhatIsForbidden(t *testing.T) {
	for what, c := range map[string]struct {
		uri     string   // PORT is the server's
		answers []string // of the name that the feed lists
		hosts   []string // of the feed; nil: supplier, at the server's port and at 443
	}{
		"a host that is not listed":            {uri: "https://other.example/x"},
		"a host whose end is listed":           {uri: "https://evil-example.com/x"},
		"a host whose begin is listed":         {uri: "https://example.com.evil.example/x"},
		"a subdomain of a listed host":         {uri: "https://sub.example.com/x"},
		"a port that is not listed":            {uri: "https://example.com:9/x"},
		"http":                                 {uri: "http://example.com/x"},
		"ftp":                                  {uri: "ftp://example.com/x"},
		"gopher":                               {uri: "gopher://example.com/x"},
		"no scheme":                            {uri: "//example.com/x"},
		"a path alone":                         {uri: "/etc/passwd"},
		"data in the reference":                {uri: "data:text/plain,hello"},
		"https without a host":                 {uri: "https:///x"},
		"an opaque reference":                  {uri: "https:example.com/x"},
		"a user name":                          {uri: "https://user@example.com/x"},
		"a user name that is the listed host":  {uri: "https://example.com@other.example/x"},
		"a password":                           {uri: "https://user:secret@example.com/x"},
		"no host is listed":                    {uri: "https://example.com/x", hosts: []string{}},
		"loopback by its address":              {uri: "https://127.0.0.2/x", hosts: []string{"127.0.0.2"}},
		"loopback as a number":                 {uri: "https://2130706434/x", hosts: []string{"2130706434"}, answers: []string{"127.0.0.2"}},
		"loopback in octal":                    {uri: "https://0177.0.0.2/x", hosts: []string{"0177.0.0.2"}, answers: []string{"127.0.0.2"}},
		"loopback of IPv6":                     {uri: "https://[::1]/x", hosts: []string{"::1"}},
		"an allowed address in mapped form":    {uri: "https://[::ffff:127.0.0.1]/x", hosts: []string{"::ffff:127.0.0.1"}},
		"a public address in mapped form":      {uri: "https://[::ffff:8.8.8.8]/x", hosts: []string{"::ffff:8.8.8.8"}},
		"a name for loopback":                  {answers: []string{"127.0.0.2"}},
		"a name for a private address":         {answers: []string{"10.1.2.3"}},
		"a name for a second private range":    {answers: []string{"172.31.255.255"}},
		"a name for a third private range":     {answers: []string{"192.168.0.1"}},
		"a name for the metadata service":      {answers: []string{"169.254.169.254"}},
		"a name for the metadata of IPv6":      {answers: []string{"fd00:ec2::254"}},
		"a name for a carrier's address":       {answers: []string{"100.64.0.1"}},
		"a name for no address":                {answers: []string{"0.0.0.0"}},
		"a name for no address of IPv6":        {answers: []string{"::"}},
		"a name for a network of its own":      {answers: []string{"0.1.2.3"}},
		"a name for multicast":                 {answers: []string{"224.0.0.1"}},
		"a name for multicast of IPv6":         {answers: []string{"ff02::1"}},
		"a name for everybody":                 {answers: []string{"255.255.255.255"}},
		"a name for a reserved address":        {answers: []string{"240.0.0.1"}},
		"a name for benchmarks":                {answers: []string{"198.19.0.1"}},
		"a name for documentation":             {answers: []string{"203.0.113.7"}},
		"a name for documentation of IPv6":     {answers: []string{"2001:db8::1"}},
		"a name for more documentation":        {answers: []string{"3fff::1"}},
		"a name for protocol assignments":      {answers: []string{"192.0.0.8"}},
		"a name for a unique local address":    {answers: []string{"fc00::1"}},
		"a name for a link-local address":      {answers: []string{"fe80::1"}},
		"a name for an address with a zone":    {answers: []string{"fe80::1%eth0"}},
		"a name for a site-local address":      {answers: []string{"fec0::1"}},
		"a name for a mapped address":          {answers: []string{"::ffff:127.0.0.1"}},
		"a name for a compatible address":      {answers: []string{"::127.0.0.1"}},
		"a name for a translated address":      {answers: []string{"64:ff9b::7f00:1"}},
		"a name for a local translation":       {answers: []string{"64:ff9b:1::7f00:1"}},
		"a name for a tunnelled address":       {answers: []string{"2002:7f00:1::"}},
		"a name for Teredo":                    {answers: []string{"2001:0:7f00:1::"}},
		"a name for segment routing":           {answers: []string{"5f00::1"}},
		"a name for what is discarded":         {answers: []string{"100::1"}},
		"a public address, then a private one": {answers: []string{"8.8.8.8", "10.0.0.1"}},
		"a private address, then a public one": {answers: []string{"10.0.0.1", "8.8.8.8"}},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, Config{})
			if c.uri == "" {
				c.uri = "https://" + supplier + "/x"
			}
			if c.hosts == nil {
				c.hosts = append(w.hosts(), supplier)
			}
			if c.answers != nil {
				u, _ := url.Parse(c.uri)
				w.resolves(u.Hostname(), c.answers)
			}
			_ = w.wantFault(Ref{URI: c.uri, Hosts: c.hosts}, offer.ReasonDatarefForbidden)
			if len(w.dialed) > 0 {
				t.Errorf("connected to %v", w.dialed)
			}
		})
	}
}

func TestTheSecondAnswerOfANameIsCheckedToo(t *testing.T) {
	w := newWorld(t, Config{})
	w.mux.HandleFunc("/again", func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, "/x", http.StatusFound) })
	w.resolves(supplier, []string{"127.0.0.1"}, []string{"10.0.0.1"})
	_ = w.wantFault(Ref{URI: w.url("/again")}, offer.ReasonDatarefForbidden)
	if want := "127.0.0.1:" + w.port; len(w.dialed) != 1 || w.dialed[0] != want {
		t.Errorf("connected to %v, want %s alone", w.dialed, want)
	}
}

func TestARedirectIsHeldAgainstTheSameRules(t *testing.T) {
	w := newWorld(t, Config{})
	w.serve("/x", "data")
	var referer atomic.Value
	w.mux.HandleFunc("/seen", func(rw http.ResponseWriter, r *http.Request) {
		referer.Store(r.Header.Get("Referer"))
		_, _ = io.WriteString(rw, "data")
	})
	w.resolves("internal.example", []string{"10.0.0.1"})
	w.resolves("slow.example", []string{"127.0.0.1"})
	for i := range 4 { // /hops/3 takes three redirects to the data
		next := "/x"
		if i > 0 {
			next = fmt.Sprint("/hops/", i)
		}
		w.mux.HandleFunc(fmt.Sprint("/hops/", i+1), func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, next, http.StatusFound) })
	}
	for what, c := range map[string]struct {
		to     string
		reason string // "": it is followed
	}{
		"to a path of the host":            {"/x", ""},
		"to the metadata service":          {"https://169.254.169.254/latest/meta-data/", offer.ReasonDatarefForbidden},
		"to plain http":                    {"http://" + supplier + ":" + w.port + "/x", offer.ReasonDatarefForbidden},
		"to a file":                        {"file:///etc/passwd", offer.ReasonDatarefForbidden},
		"to a host that is not listed":     {"https://slow.example:" + w.port + "/x", offer.ReasonDatarefForbidden},
		"to a listed host that is inside":  {"https://internal.example/x", offer.ReasonDatarefForbidden},
		"with a user name":                 {"https://me@" + supplier + ":" + w.port + "/x", offer.ReasonDatarefForbidden},
		"in three hops":                    {"/hops/2", ""},
		"in four hops":                     {"/hops/3", offer.ReasonDatarefForbidden},
		"without saying where it led from": {"/seen", ""},
	} {
		t.Run(what, func(t *testing.T) {
			w.t, w.dialed = t, nil
			from := "/" + strings.ReplaceAll(what, " ", "-")
			w.mux.HandleFunc(from, func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Location", c.to)
				rw.WriteHeader(http.StatusFound)
			})
			r := Ref{URI: w.url(from + "?token=s3cret"), Hosts: append(w.hosts(), "internal.example")}
			if c.reason == "" {
				if got, fault := w.fetch(r); fault != nil || got != "data" {
					t.Errorf("got %q, %v", got, fault)
				}
			} else if fault := w.wantFault(r, c.reason); strings.Contains(fault.Error(), "s3cret") {
				t.Errorf("the message holds the query: %v", fault)
			}
			for _, d := range w.dialed {
				if d != "127.0.0.1:"+w.port {
					t.Errorf("connected to %s", d)
				}
			}
		})
	}
	if got := referer.Load(); got != "" {
		t.Errorf("the second server was told that it was %v", got)
	}
}

func TestAnAnswerIsHeldAgainstItsBounds(t *testing.T) {
	const most = 1000
	w := newWorld(t, Config{MaxBytes: most, Timeout: 2 * time.Second})
	w.serve("/exact", strings.Repeat("x", most))
	w.serve("/more", strings.Repeat("x", most+1))
	w.serve("/other", "other data")
	answer := func(path string, f func(rw http.ResponseWriter)) {
		w.mux.HandleFunc(path, func(rw http.ResponseWriter, _ *http.Request) { f(rw) })
	}
	answer("/endless", func(rw http.ResponseWriter) { _, _ = io.Copy(rw, endless{}) })
	answer("/declares-more", func(rw http.ResponseWriter) { rw.Header().Set("Content-Length", "2000000000") })
	answer("/cut", func(rw http.ResponseWriter) {
		rw.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(rw, "half")
	})
	raw := func(path, text string) {
		answer(path, func(rw http.ResponseWriter) {
			conn, buf, err := rw.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = buf.WriteString(text)
				err = errors.Join(buf.Flush(), conn.Close())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	raw("/longer", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndata and what it did not declare")
	raw("/two-lengths", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\ndata!")
	raw("/no-http", "s3cret\r\n\r\n")
	answer("/drips", func(rw http.ResponseWriter) {
		drip := time.NewTicker(50 * time.Millisecond)
		defer drip.Stop()
		for range drip.C { // until the other end leaves
			if _, err := io.WriteString(rw, "x"); err != nil || http.NewResponseController(rw).Flush() != nil {
				return
			}
		}
	})
	answer("/gzip", func(rw http.ResponseWriter) {
		rw.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(rw, "\x1f\x8b")
	})
	answer("/gone", func(rw http.ResponseWriter) { rw.WriteHeader(http.StatusGone) })
	answer("/partial", func(rw http.ResponseWriter) { rw.WriteHeader(http.StatusPartialContent) })
	w.resolves("no-certificate.test", []string{"127.0.0.1"})
	for what, c := range map[string]struct {
		ref    Ref
		reason string
		want   string
	}{
		"as long as allowed":                  {Ref{URI: w.url("/exact")}, "", strings.Repeat("x", most)},
		"longer than allowed":                 {Ref{URI: w.url("/more")}, offer.ReasonArtifactTooLarge, ""},
		"without end":                         {Ref{URI: w.url("/endless")}, offer.ReasonArtifactTooLarge, ""},
		"one that declares too much":          {Ref{URI: w.url("/declares-more")}, offer.ReasonArtifactTooLarge, ""},
		"one that breaks off":                 {Ref{URI: w.url("/cut")}, offer.ReasonDatarefUnavailable, ""},
		"more than it declares":               {Ref{URI: w.url("/longer")}, "", "data"},
		"more than it declares, and a digest": {Ref{URI: w.url("/longer"), Digest: offer.DigestPrefix + offer.Sum([]byte("data and")).String()}, offer.ReasonDatarefDigestMismatch, ""},
		"two lengths":                         {Ref{URI: w.url("/two-lengths")}, offer.ReasonDatarefUnavailable, ""},
		"no HTTP":                             {Ref{URI: w.url("/no-http")}, offer.ReasonDatarefUnavailable, ""},
		"a byte now and then":                 {Ref{URI: w.url("/drips")}, offer.ReasonDatarefUnavailable, ""},
		"compressed without being asked":      {Ref{URI: w.url("/gzip")}, offer.ReasonDatarefUnavailable, ""},
		"that it is gone":                     {Ref{URI: w.url("/gone")}, offer.ReasonDatarefUnavailable, ""},
		"that it is not found":                {Ref{URI: w.url("/missing")}, offer.ReasonDatarefUnavailable, ""},
		"a part":                              {Ref{URI: w.url("/partial")}, offer.ReasonDatarefUnavailable, ""},
		"other data than declared":            {Ref{URI: w.url("/other"), Digest: offer.DigestPrefix + offer.Sum([]byte("data")).String()}, offer.ReasonDatarefDigestMismatch, ""},
		"a digest of another kind":            {Ref{URI: w.url("/other"), Digest: "md5:0123"}, offer.ReasonNotACloudEvent, ""},
		"a digest that is cut":                {Ref{URI: w.url("/other"), Digest: offer.DigestPrefix + "0123"}, offer.ReasonNotACloudEvent, ""},
		"no URI":                              {Ref{URI: "https://exa mple.com/\x7f"}, offer.ReasonNotACloudEvent, ""},
		"a name that does not exist":          {Ref{URI: "https://nowhere.test/x", Hosts: []string{"nowhere.test"}}, offer.ReasonDatarefUnavailable, ""},
		"a certificate of another name":       {Ref{URI: "https://no-certificate.test:" + w.port + "/exact", Hosts: []string{"no-certificate.test:" + w.port}}, offer.ReasonDatarefUnavailable, ""},
	} {
		t.Run(what, func(t *testing.T) {
			w.t = t
			if c.reason == "" {
				if got, fault := w.fetch(c.ref); fault != nil || got != c.want {
					t.Errorf("got %q, %v", got, fault)
				}
				return
			}
			if fault := w.wantFault(c.ref, c.reason); strings.Contains(fault.Error(), "s3cret") {
				t.Errorf("the message quotes the answer: %v", fault)
			}
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestNoProxyOfTheEnvironmentIsUsed(t *testing.T) {
	w := newWorld(t, Config{})
	w.serve("/x", "data")
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:9")
	}
	if got, fault := w.fetch(Ref{URI: w.url("/x")}); fault != nil || got != "data" {
		t.Errorf("got %q, %v", got, fault)
	}
}

func TestWhatIsNotTheDeliverysFaultIsAnError(t *testing.T) {
	w := newWorld(t, Config{})
	w.serve("/x", "data")
	t.Run("a worker that is told to stop", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, fault, err := w.Fetch(ctx, Ref{URI: w.url("/x"), Hosts: w.hosts()}); !errors.Is(err, context.Canceled) || fault != nil {
			t.Errorf("got %v, %v", fault, err)
		}
	})
	t.Run("a folder that is gone", func(t *testing.T) {
		if err := os.Remove(w.folder); err != nil {
			t.Fatal(err)
		}
		if _, fault, err := w.Fetch(t.Context(), Ref{URI: w.url("/x"), Hosts: w.hosts()}); !errors.Is(err, os.ErrNotExist) || fault != nil {
			t.Errorf("got %v, %v", fault, err)
		}
	})
}
