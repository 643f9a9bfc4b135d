package archive_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/streams/rig"
)

func openS3(t *testing.T, endpoint string) *archive.S3 {
	t.Helper()
	s, err := archive.OpenS3(archive.S3Config{Location: "s3://evidence/offers", Endpoint: endpoint, Region: "us-east-1", AccessKey: "key", Secret: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Both stores keep what the interface says.
func stores(t *testing.T) map[string]archive.Store {
	files, _ := openFiles(t)
	return map[string]archive.Store{"files": files, "S3": openS3(t, rig.S3(t, "evidence"))}
}

func TestStoresKeepTheirPromises(t *testing.T) {
	for kind, s := range stores(t) {
		t.Run(kind, func(t *testing.T) {
			if err := s.Ready(t.Context()); err != nil {
				t.Errorf("ready: %v", err)
			}
			content := strings.Repeat("0123456789", 1000)
			if err := put(t, s, "t%2F1/a/0/5-9/digest", content); err != nil {
				t.Fatal(err)
			}
			if err := put(t, s, "t%2F1/a/0/5-9/digest", "other"); !errors.Is(err, archive.ErrExists) {
				t.Errorf("a name that is taken: got %v, want ErrExists", err)
			}
			if err := s.Put(t.Context(), "t1/a/short", strings.NewReader("ab"), 3); err == nil {
				t.Error("content that ends early: got no error")
			}
			for offset, want := range map[int64]string{0: content, 1: content[1:], 9999: "9", 10_000: "", 10_001: ""} {
				r, err := s.Get(t.Context(), "t%2F1/a/0/5-9/digest", offset)
				if err != nil {
					t.Fatalf("from %d: %v", offset, err)
				}
				got, err := io.ReadAll(r)
				if err := errors.Join(err, r.Close()); err != nil || string(got) != want {
					t.Errorf("from %d: got %d bytes, %v, want %d", offset, len(got), err, len(want))
				}
			}
			for _, absent := range []string{"t1/a/short", "t1/b"} {
				if _, err := s.Get(t.Context(), absent, 0); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: got %v, want ErrNotExist", absent, err)
				}
			}
			if err := put(t, s, "t2/b", "x"); err != nil {
				t.Fatal(err)
			}
			if got := names(t, s); !slices.Equal(got, []string{"t%2F1/a/0/5-9/digest", "t2/b"}) {
				t.Errorf("got names %v", got)
			}
			for range 2 {
				if err := s.Remove(t.Context(), "t2/b"); err != nil {
					t.Error(err)
				}
			}
			if got := names(t, s); !slices.Equal(got, []string{"t%2F1/a/0/5-9/digest"}) {
				t.Errorf("got names %v after a removal", got)
			}
		})
	}
}

func names(t *testing.T, s archive.Store) (names []string) {
	t.Helper()
	for name, err := range s.Names(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestEightWritersOfOneNameLeaveOneObject(t *testing.T) {
	for kind, s := range stores(t) {
		t.Run(kind, func(t *testing.T) {
			a := archive.New(s, &keys{"k1"})
			var wg sync.WaitGroup
			refs, errs := make([]archive.Ref, 8), make([]error, 8)
			for i := range refs {
				wg.Go(func() { refs[i], errs[i] = a.Write(t.Context(), pack()) })
			}
			wg.Wait()
			fresh := 0
			for i, ref := range refs {
				if errs[i] != nil {
					t.Errorf("writer %d: %v", i, errs[i])
				}
				if !ref.Reused {
					fresh++
				}
			}
			if got := names(t, s); fresh != 1 || len(got) != 1 {
				t.Errorf("got %d fresh writes and objects %v, want one of each", fresh, got)
			}
		})
	}
}

func TestALargePayloadInABucketReadsBackAsItWas(t *testing.T) {
	s := openS3(t, rig.S3(t, "evidence"))
	a := archive.New(s, &keys{"k1"})
	p := large(t, 40<<20) // more than one part of a multipart upload would hold
	ref, again := mustWrite(t, a, p), mustWrite(t, a, p)
	if ref.Reused || !again.Reused {
		t.Errorf("got %+v, then %+v", ref, again)
	}
	want, err := os.ReadFile(p.Entries[2].File)
	if err != nil {
		t.Fatal(err)
	}
	got, err := a.Read(t.Context(), "demo", ref, 12, 1)
	if err != nil || !bytes.Equal(got.Payload, want[:40<<20]) {
		t.Errorf("got %d bytes, %v", len(got.Payload), err)
	}
}

// A bucket that is out of reach, or breaks off, is no fault of the evidence.
func TestABucketOutOfReachIsNoFaultOfTheEvidence(t *testing.T) {
	target, err := url.Parse(rig.S3(t, "evidence"))
	if err != nil {
		t.Fatal(err)
	}
	var breaking bool
	proxy := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !breaking || r.Method != http.MethodGet {
			proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Length", "400")
		w.Header().Set("Last-Modified", "Mon, 02 Mar 2026 08:00:00 GMT")
		w.Header().Set("ETag", `"e"`)
		_, _ = w.Write([]byte("offerlog\x01\x02k1"))
		panic(http.ErrAbortHandler)
	}))
	front.Config.ErrorLog = nil
	a := archive.New(openS3(t, front.URL), &keys{"k1"})
	ref := mustWrite(t, a, pack())
	breaking = true
	_, err = a.Verify(t.Context(), "demo", ref)
	var coded interface{ Code() string }
	if err == nil || errors.As(err, &coded) {
		t.Errorf("broken off: got %v, want an error without a code", err)
	}
	front.Close()
	if _, err := a.Verify(t.Context(), "demo", ref); err == nil || errors.As(err, &coded) {
		t.Errorf("out of reach: got %v, want an error without a code", err)
	}
	if err := openS3(t, front.URL).Ready(t.Context()); err == nil {
		t.Error("a bucket out of reach is ready")
	}
	if err := openS3(t, target.String()).Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOpenS3(t *testing.T) {
	credentials := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(credentials, []byte("[default]\naws_access_key_id = file-key\naws_secret_access_key = file-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	endpoint := rig.S3(t, "evidence")
	for sentence, c := range map[string]struct {
		cfg  archive.S3Config
		want string // in the error; "": none
	}{
		"a bucket without a prefix":    {archive.S3Config{Location: "s3://evidence", Endpoint: endpoint, AccessKey: "k", Secret: "s"}, ""},
		"credentials in a file":        {archive.S3Config{Location: "s3://evidence/", Endpoint: endpoint, CredentialsFile: credentials}, ""},
		"no bucket":                    {archive.S3Config{Location: "s3:///x"}, "want s3://bucket/prefix"},
		"an endpoint without a scheme": {archive.S3Config{Location: "s3://evidence", Endpoint: "localhost:9000"}, "want https://host:port"},
		"an endpoint with a password":  {archive.S3Config{Location: "s3://evidence", Endpoint: "https://me:swordfish@localhost"}, "want https://host:port"},
		"another bucket":               {archive.S3Config{Location: "s3://elsewhere", Endpoint: endpoint, AccessKey: "k", Secret: "s"}, "no such bucket"},
	} {
		t.Run(sentence, func(t *testing.T) {
			s, err := archive.OpenS3(c.cfg)
			if err == nil {
				err = s.Ready(t.Context())
			}
			if c.want == "" && err == nil {
				err = put(t, s, "t1/"+strings.ReplaceAll(sentence, " ", "-"), "x")
			}
			if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "swordfish")) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
