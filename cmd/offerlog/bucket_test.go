package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/streams/rig"
)

func TestDoctorTriesAnArchiveInABucket(t *testing.T) {
	target, err := url.Parse(rig.S3(t, "evidence"))
	if err != nil {
		t.Fatal(err)
	}
	// An older server does not know that a write can be conditional.
	proxy := httputil.NewSingleHostReverseProxy(target)
	older := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("If-None-Match")
		proxy.ServeHTTP(w, r)
	}))
	defer older.Close()
	for name, c := range map[string]struct{ location, endpoint, want string }{
		"a bucket":                     {"s3://evidence/offers", target.String(), ""},
		"a bucket that is not there":   {"s3://elsewhere", target.String(), "no such bucket"},
		"one whose server is too old":  {"s3://evidence/offers", older.URL, "a name that is taken is not refused"},
		"an endpoint that is none":     {"s3://evidence", "evidence.example", "want https://host:port"},
		"a server that does not reply": {"s3://evidence", "http://127.0.0.1:1", "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &app{settings: Settings{Archive: c.location, Endpoint: c.endpoint}, environ: []string{"AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=swordfish"}}
			err := a.tryArchive(t.Context())
			if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "swordfish")) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			store, err := archive.OpenS3(archive.S3Config{Location: "s3://evidence", Endpoint: target.String(), AccessKey: "key", Secret: "swordfish"})
			if err != nil {
				t.Fatal(err)
			}
			for name, err := range store.Names(t.Context()) {
				t.Errorf("left behind: %s, %v", name, err)
			}
		})
	}
}
