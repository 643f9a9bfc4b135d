// Package dataref fetches the data that an event names instead of carrying it: the CloudEvents attribute dataref.
//
// It keeps no table. What an event names is a supplier's word, so a reference is followed only where its feed and this
// installation say so: https to hosts that the feed lists, at addresses of the public Internet; files under folders, and
// objects in buckets, that are the tenant's. Anything else is the fault dataref_forbidden, before any connection is made.
// What is fetched goes to a file of this process's Folder, with its SHA-256; a crash leaves the file, and the next start
// removes it.
package dataref

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/offerlog/offerlog/pkg/offer"
)

// Config has what an installation allows; its zero value works.
type Config struct {
	Roots          []Root         // folders of files; default none
	Buckets        []Bucket       // of objects; default none
	AllowAddresses []netip.Addr   // that are connected to though they are not of the public Internet; default none
	MaxBytes       int64          // of the data; default 1 GiB
	Timeout        time.Duration  // from the first look-up to the last byte; default 30 s
	RootCAs        *x509.CertPool // that certificates are verified against; default those of the system
}

// A Root is a folder whose files the events of one tenant may name.
type Root struct{ Tenant, Folder string }

// A Bucket holds objects that the events of one tenant may name.
type Bucket struct {
	Tenant   string
	Location string  // s3://bucket or s3://bucket/prefix
	Objects  Objects // by their names below the location
}

// Objects is what a bucket is read through; *archive.S3 is one. What is not there is fs.ErrNotExist.
type Objects interface {
	Get(ctx context.Context, name string, offset int64) (io.ReadCloser, error)
}

// A Ref is a reference to follow.
type Ref struct {
	Tenant string
	Hosts  []string // that the feed lists: host, or host:port where it is not 443
	URI    string   // the event's attribute dataref
	Digest string   // its attribute datadigest, sha256:<64 hex digits>; "": it declares none
}

// A File is fetched data. Whoever has one removes it.
type File struct {
	Path   string
	Length int64
	Sum    offer.Digest
}

// Remove removes the data.
func (f *File) Remove() error { return os.Remove(f.Path) }

// A Fetcher follows references. It is safe for concurrent use.
type Fetcher struct {
	cfg    Config
	roots  []openRoot
	folder string
	client *http.Client

	lookup  func(ctx context.Context, host string) ([]netip.Addr, error)
	connect func(ctx context.Context, network, address string) (net.Conn, error)
}

// Open makes a Fetcher that puts what it fetches into a folder, which must exist.
func Open(cfg Config, folder string) (*Fetcher, error) {
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 1 << 30
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	roots, err := openRoots(cfg.Roots)
	if err != nil {
		return nil, fmt.Errorf("open dataref roots: %w", err)
	}
	f := &Fetcher{cfg: cfg, roots: roots, folder: folder, lookup: lookup, connect: (&net.Dialer{Timeout: connectTimeout}).DialContext}
	f.client = f.newClient()
	return f, nil
}

// Close releases the roots.
func (f *Fetcher) Close() error {
	var errs []error
	for _, r := range f.roots {
		errs = append(errs, r.root.Close())
	}
	return errors.Join(errs...)
}

// Fetch follows a reference. The fault is the delivery's: dataref_forbidden, dataref_unavailable, dataref_digest_mismatch,
// artifact_too_large, or not_a_cloudevent where the reference or the digest is none. The error is ctx's, or says that the
// folder cannot be written: no delivery is at fault. No message quotes more of the reference than its host, since paths and
// queries may hold secrets.
func (f *Fetcher) Fetch(ctx context.Context, r Ref) (*File, *offer.Fault, error) {
	file, err := f.fetch(ctx, r)
	var fault *offer.Fault
	switch {
	case err == nil:
		return file, nil, nil
	case ctx.Err() != nil:
		return nil, nil, fmt.Errorf("fetch data: %w", ctx.Err())
	case errors.As(err, &fault):
		return nil, fault, nil
	}
	return nil, nil, fmt.Errorf("fetch data: %w", err)
}

func (f *Fetcher) fetch(ctx context.Context, r Ref) (*File, error) {
	u, err := url.Parse(r.URI)
	if err != nil {
		return nil, invalid("dataref", "is no URI")
	}
	want, err := parseDigest(r.Digest)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	var src source
	switch u.Scheme {
	case "https":
		src, err = f.openHTTPS(ctx, u, r.Hosts)
	case "file":
		src, err = f.openFile(u, r.Tenant)
	case "s3":
		src, err = f.openObject(ctx, u, r.Tenant)
	default:
		err = forbidden("scheme %q is not followed: want https, or file or s3 where the installation has a folder or a bucket for the tenant", shorten(u.Scheme))
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = src.Close() }() // it was only read
	file, err := f.spool(ctx, src)
	if err != nil {
		return nil, err
	}
	if want != nil && *want != file.Sum {
		return nil, errors.Join(&offer.Fault{Reason: offer.ReasonDatarefDigestMismatch,
			Message: fmt.Sprintf("the data of %s has SHA-256 %s, and the event declares %s", src.name, file.Sum, want)}, file.Remove())
	}
	return file, nil
}

// A source is data that was found, and is yet to be read.
type source struct {
	io.ReadCloser
	name   string // for messages
	length int64  // -1: it does not say
}

// spool reads a source into a file.
func (f *Fetcher) spool(ctx context.Context, src source) (*File, error) {
	if src.length > f.cfg.MaxBytes {
		return nil, f.tooLarge(src, fmt.Sprintf("%d bytes", src.length))
	}
	out, err := os.CreateTemp(f.folder, "data-*")
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	to := &localWriter{w: io.MultiWriter(out, sum)}
	n, err := io.Copy(to, io.LimitReader(bounded{ctx, src}, f.cfg.MaxBytes+1))
	switch {
	case to.err != nil:
		err = to.err
	case err != nil:
		err = f.unavailable(ctx, src.name, err)
	case n > f.cfg.MaxBytes:
		err = f.tooLarge(src, "more")
	case src.length >= 0 && n != src.length:
		err = unavailable(src.name, fmt.Sprintf("%d bytes came of %d", n, src.length))
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(out.Name()))
	}
	return &File{Path: out.Name(), Length: n, Sum: offer.Digest(sum.Sum(nil))}, nil
}

// A localWriter remembers its error: a disk that is full is no fault of what is read.
type localWriter struct {
	w   io.Writer
	err error
}

func (l *localWriter) Write(b []byte) (n int, err error) {
	n, l.err = l.w.Write(b)
	return n, l.err
}

// bounded ends with its context, also where what it reads does not know of one.
type bounded struct {
	ctx context.Context
	r   io.Reader
}

func (b bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.r.Read(p)
}

func parseDigest(s string) (*offer.Digest, error) {
	if s == "" {
		return nil, nil
	}
	digits, ok := strings.CutPrefix(s, offer.DigestPrefix)
	b, err := hex.DecodeString(digits)
	if !ok || err != nil || len(b) != sha256.Size {
		return nil, invalid("datadigest", "want "+offer.DigestPrefix+" and 64 hexadecimal digits")
	}
	d := offer.Digest(b)
	return &d, nil
}

func invalid(attribute, message string) *offer.Fault {
	return &offer.Fault{Reason: offer.ReasonNotACloudEvent, Detail: "ce_invalid_attribute", Path: attribute, Message: message}
}

func forbidden(format string, args ...any) *offer.Fault {
	return &offer.Fault{Reason: offer.ReasonDatarefForbidden, Message: fmt.Sprintf(format, args...)}
}

func (f *Fetcher) tooLarge(src source, size string) *offer.Fault {
	return &offer.Fault{Reason: offer.ReasonArtifactTooLarge, Message: fmt.Sprintf("the data of %s has %s; at most %d bytes are taken", src.name, size, f.cfg.MaxBytes)}
}

// unavailable says why no data came from a place. A fault that is known already, such as one of an address, stays.
func (f *Fetcher) unavailable(ctx context.Context, name string, err error) error {
	var (
		fault   *offer.Fault
		request *url.Error
		network net.Error
		cert    *tls.CertificateVerificationError
	)
	if errors.As(err, &request) {
		err = request.Err // without the URL, whose path may hold a secret
	}
	switch {
	case errors.As(err, &fault):
		return fault
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("not all of it came within %v", f.cfg.Timeout)
	case errors.As(err, &network), errors.As(err, &cert), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
	default:
		err = errors.New("its answer cannot be read as HTTP") // the error's text quotes the answer
	}
	return unavailable(name, err.Error())
}

func unavailable(name, why string) *offer.Fault {
	return &offer.Fault{Reason: offer.ReasonDatarefUnavailable, Message: fmt.Sprintf("fetch from %s: %s", name, why)}
}

// shorten makes foreign text fit for a message.
func shorten(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
