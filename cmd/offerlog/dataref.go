package main

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/dataref"
)

// addresses are IP addresses, in one text separated by commas.
type addresses []netip.Addr

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *addresses) UnmarshalText(text []byte) error {
	*a = nil
	for _, s := range brokenAtCommas(text) {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			return fmt.Errorf("dataref-allow-addresses: %w", err)
		}
		*a = append(*a, addr)
	}
	return nil
}

func (a addresses) String() string {
	texts := make([]string, len(a))
	for i, addr := range a {
		texts[i] = addr.String()
	}
	return strings.Join(texts, ",")
}

// roots are tenant=folder or tenant=s3://bucket/prefix, in one text separated by commas.
type roots []dataref.Root

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *roots) UnmarshalText(text []byte) error {
	*r = nil
	for _, s := range brokenAtCommas(text) {
		tenant, folder, ok := strings.Cut(s, "=")
		if !ok || tenant == "" || !filepath.IsAbs(folder) && !strings.HasPrefix(folder, archive.S3Scheme) {
			return fmt.Errorf("dataref-roots: %q: want tenant=/folder or tenant=s3://bucket/prefix", s)
		}
		*r = append(*r, dataref.Root{Tenant: tenant, Folder: folder})
	}
	return nil
}

func (r roots) String() string {
	texts := make([]string, len(r))
	for i, root := range r {
		texts[i] = root.Tenant + "=" + root.Folder
	}
	return strings.Join(texts, ",")
}

// openFetcher returns what follows references as the settings allow, what it fetches lying in a folder of this process.
func (in *installation) openFetcher() (*dataref.Fetcher, *dataref.Folder, error) {
	s := in.app.settings
	folder, err := dataref.OpenFolder(s.Spool)
	if err != nil {
		return nil, nil, err
	}
	in.undo = append(in.undo, func() { _ = folder.Close() }) // the next start removes what is left
	cfg := dataref.Config{AllowAddresses: s.DatarefAllowAddresses}
	for _, r := range s.DatarefRoots {
		if !strings.HasPrefix(r.Folder, archive.S3Scheme) {
			cfg.Roots = append(cfg.Roots, r)
			continue
		}
		store, err := in.app.openStore(r.Folder)
		if err != nil {
			return nil, nil, err
		}
		cfg.Buckets = append(cfg.Buckets, dataref.Bucket{Tenant: r.Tenant, Location: r.Folder, Objects: store})
	}
	f, err := dataref.Open(cfg, folder.Path())
	if err != nil {
		return nil, nil, usage("set --dataref-roots to folders that are there", "%w", err)
	}
	in.undo = append(in.undo, func() { _ = f.Close() }) // it was only read from
	return f, folder, nil
}

func defaultSpool() string { return filepath.Join(os.TempDir(), "offerlog-spool") }
