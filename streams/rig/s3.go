package rig

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// S3 starts an S3 server of its own for the test, in this process and in memory, with an empty bucket, and returns its URL. It
// takes any credentials, refuses a write whose checksum is missing or wrong, and honours If-None-Match.
func S3(t testing.TB, bucket string) (endpoint string) {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(bucket); err != nil {
		t.Fatalf("rig: make a bucket: %v", err)
	}
	server := httptest.NewServer(unframed(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()))
	t.Cleanup(server.Close)
	return server.URL
}

// unframed takes the frames of a body that is sent in chunks with a checksum behind it, which the server behind would store as
// if they were content.
func unframed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
			body, err := unframe(bufio.NewReader(r.Body), r.Header.Get("X-Amz-Decoded-Content-Length"))
			if err != nil {
				http.Error(w, "<Error><Code>BadDigest</Code><Message>"+err.Error()+"</Message></Error>", http.StatusBadRequest)
				return
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Header.Set("Content-Length", strconv.Itoa(len(body)))
			r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
		}
		next.ServeHTTP(w, r)
	})
}

// unframe reads chunks, each after a line with its length in hex, and the trailer with the SHA-256 of them all.
func unframe(r *bufio.Reader, length string) ([]byte, error) {
	line := func() (string, error) {
		s, err := r.ReadString('\n')
		return strings.TrimRight(s, "\r\n"), err
	}
	var body bytes.Buffer
	for {
		head, err := line()
		if err != nil {
			return nil, err
		}
		hex, _, _ := strings.Cut(head, ";")
		n, err := strconv.ParseInt(hex, 16, 64)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		if _, err := io.CopyN(&body, r, n); err != nil {
			return nil, err
		}
		if _, err := line(); err != nil {
			return nil, err
		}
	}
	if length != strconv.Itoa(body.Len()) {
		return nil, fmt.Errorf("%d bytes came, %s were announced", body.Len(), length)
	}
	sum := sha256.Sum256(body.Bytes())
	want := "x-amz-checksum-sha256:" + base64.StdEncoding.EncodeToString(sum[:])
	for {
		trailer, err := line()
		if trailer == want {
			return body.Bytes(), nil
		}
		if err != nil {
			return nil, errors.New("no trailer has the SHA-256 of the body")
		}
	}
}
