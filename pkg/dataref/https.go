package dataref

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	maxRedirects   = 3
	connectTimeout = 5 * time.Second // of one address, so that the next one has its turn
)

// newClient makes a client that follows nothing but what is allowed: no proxy of the environment, no cookies, no connection
// kept for another delivery, nothing decompressed, and HTTP/1.1, whose answers end where they say.
func (f *Fetcher) newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            f.dial,
			TLSClientConfig:        &tls.Config{RootCAs: f.cfg.RootCAs, MinVersion: tls.VersionTLS12},
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			req.Header.Del("Referer") // the address left behind may hold a secret
			if len(via) > maxRedirects {
				return forbidden("%s redirects more than %d times", via[0].URL.Host, maxRedirects)
			}
			return allowURL(req.URL, hostsOf(req.Context()))
		},
	}
}

type hostsKey struct{}

// hostsOf are the hosts of the feed whose reference a request follows.
func hostsOf(ctx context.Context) []string {
	hosts, _ := ctx.Value(hostsKey{}).([]string)
	return hosts
}

// openHTTPS asks for what u names. Each hop is checked twice: its URL against the feed's list, before a connection is made;
// and all addresses that its name stands for, where the connection is made.
func (f *Fetcher) openHTTPS(ctx context.Context, u *url.URL, hosts []string) (source, error) {
	if err := allowURL(u, hosts); err != nil {
		return source{}, err
	}
	req, err := http.NewRequestWithContext(context.WithValue(ctx, hostsKey{}, hosts), http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return source{}, invalid("dataref", "is no URI that can be asked for")
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "offerlog")
	res, err := f.client.Do(req)
	if err != nil {
		return source{}, f.unavailable(ctx, u.Host, err)
	}
	name := res.Request.URL.Host // where the redirects led
	why := ""
	switch coding := res.Header.Get("Content-Encoding"); {
	case res.StatusCode != http.StatusOK:
		why = fmt.Sprintf("it answers %d", res.StatusCode)
	case coding != "" && coding != "identity":
		why = fmt.Sprintf("it encodes the data as %q, which was not asked for: have it serve the file as it is", shorten(coding))
	}
	if why != "" {
		return source{}, errors.Join(unavailable(name, why), res.Body.Close())
	}
	return source{res.Body, name, res.ContentLength}, nil
}

// allowURL holds a URL against the hosts of a feed.
func allowURL(u *url.URL, hosts []string) error {
	switch {
	case u.Scheme != "https":
		return forbidden("a redirect leads to scheme %q: want https", shorten(u.Scheme))
	case u.User != nil:
		return forbidden("the reference holds a user name or a password")
	case u.Opaque != "" || u.Hostname() == "":
		return forbidden("the reference names no host")
	case !slices.ContainsFunc(hosts, func(allowed string) bool { return sameHost(allowed, u) }):
		return forbidden("host %q is not on the feed's list: add it to dataref.hosts", shorten(u.Host))
	}
	return nil
}

// sameHost compares an entry of a feed's list, host or host:port, with where a URL leads.
func sameHost(allowed string, u *url.URL) bool {
	const usual = "443"
	host, port := allowed, usual
	if h, p, err := net.SplitHostPort(allowed); err == nil {
		host, port = h, p
	}
	asked := u.Port()
	if asked == "" {
		asked = usual
	}
	return strings.EqualFold(host, u.Hostname()) && port == asked
}

// dial connects to a host, at the very address that was checked. One address that may not be connected to is enough to
// connect to none: whoever controls the name chose to put it there.
func (f *Fetcher) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := f.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if !public(a) && !slices.Contains(f.cfg.AllowAddresses, a) {
			return nil, forbidden("host %q stands for address %s, which is not of the public Internet", shorten(host), a)
		}
	}
	var failed error
	for _, a := range addrs {
		conn, err := f.connect(ctx, network, net.JoinHostPort(a.String(), port))
		if err == nil {
			return conn, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

func (f *Fetcher) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	addrs, err := f.lookup(ctx, host)
	if err == nil && len(addrs) == 0 {
		err = unavailable(host, "the name has no address")
	}
	return addrs, err
}

// lookup asks the system. It may answer IPv4 addresses in the form of IPv6, which says nothing about what the name server
// said; as such they are refused.
func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, err
}

// reserved are the addresses that look like those of the public Internet and are not: the special-purpose registries of IANA,
// without what is reachable everywhere. Of IPv6 only 2000::/3 is looked at: outside of it there are none.
var reserved = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

var globalUnicast = netip.MustParsePrefix("2000::/3")

func prefixes(list ...string) []netip.Prefix {
	var parsed []netip.Prefix
	for _, s := range list {
		parsed = append(parsed, netip.MustParsePrefix(s))
	}
	return parsed
}

// public reports an address of the public Internet. One of IPv4 in the form of IPv6, mapped or translated, is none.
func public(a netip.Addr) bool {
	if a.Zone() != "" || !a.Is4() && !globalUnicast.Contains(a) {
		return false
	}
	return !slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) })
}
