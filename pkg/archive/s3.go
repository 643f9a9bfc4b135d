package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/offerlog/offerlog/pkg/fault"
)

// S3Scheme begins the location of an archive in a bucket: s3://bucket/prefix.
const S3Scheme = "s3://"

// S3Config says how to reach a bucket.
type S3Config struct {
	Location  string // s3://bucket or s3://bucket/prefix
	Endpoint  string // URL of the server; "": https://s3.amazonaws.com
	Region    string // "": the server is asked
	AccessKey string
	Secret    string
	Session   string // token of temporary credentials; "" for others
	// CredentialsFile is a file in the form of ~/.aws/credentials, read where AccessKey is "".
	CredentialsFile string
}

// S3 is a Store in a bucket of Amazon S3, or of another server that speaks its protocol, conditional writes (If-None-Match: *)
// included. An object's name is its key, below the prefix.
type S3 struct {
	client         minio.Core
	bucket, prefix string
}

// OpenS3 returns the store that cfg describes. It does not ask the server.
func OpenS3(cfg S3Config) (*S3, error) {
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(cfg.Location, S3Scheme), "/")
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	if bucket == "" {
		return nil, fmt.Errorf("archive %q: want s3://bucket/prefix", cfg.Location)
	}
	endpoint := cfg.Endpoint
	if endpoint == "" {
		endpoint = "https://s3.amazonaws.com"
	}
	u, err := url.Parse(endpoint) // which may hold a password, so it is not told
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil {
		return nil, errors.New("the archive's endpoint is malformed: want https://host:port, credentials are given apart")
	}
	creds := credentials.New(&credentials.FileAWSCredentials{Filename: cfg.CredentialsFile})
	if cfg.AccessKey != "" {
		creds = credentials.NewStaticV4(cfg.AccessKey, cfg.Secret, cfg.Session)
	}
	client, err := minio.NewCore(u.Host, &minio.Options{Creds: creds, Secure: u.Scheme == "https", Region: cfg.Region, TrailingHeaders: true, MaxRetries: 3})
	if err != nil {
		return nil, fmt.Errorf("open archive %s: %w", cfg.Location, err)
	}
	return &S3{*client, bucket, prefix}, nil
}

// Close implements Store; there is nothing to release.
func (s *S3) Close() error { return nil }

// Put implements Store: one request that the server takes only while the name is free, and only with the SHA-256 that follows
// the content.
func (s *S3) Put(ctx context.Context, name string, content io.Reader, size int64) error {
	if err := checkName(name); err != nil {
		return err
	}
	opts := minio.PutObjectOptions{ContentType: "application/octet-stream", Checksum: minio.ChecksumSHA256, DisableMultipart: true}
	opts.SetMatchETagExcept("*")
	fault.Point("ingest.artifact_written")
	_, err := s.client.Client.PutObject(ctx, s.bucket, s.prefix+name, content, size, opts)
	if err != nil && status(err) == http.StatusPreconditionFailed {
		return ErrExists
	}
	if err != nil {
		return s.failed("put", err)
	}
	fault.Point("ingest.artifact_synced")
	return nil
}

// Get implements Store.
func (s *S3) Get(ctx context.Context, name string, offset int64) (io.ReadCloser, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	var opts minio.GetObjectOptions
	if offset > 0 {
		if err := opts.SetRange(offset, 0); err != nil {
			return nil, err
		}
	}
	body, _, _, err := s.client.GetObject(ctx, s.bucket, s.prefix+name, opts)
	switch {
	case err == nil:
		return body, nil
	case minio.ToErrorResponse(err).Code == minio.NoSuchKey:
		return nil, fmt.Errorf("object %s: %w", name, fs.ErrNotExist)
	case status(err) == http.StatusRequestedRangeNotSatisfiable: // the object ends before
		return io.NopCloser(strings.NewReader("")), nil
	}
	return nil, s.failed("get", err)
}

// Remove implements Store.
func (s *S3) Remove(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := s.client.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{}); err != nil {
		return s.failed("remove", err)
	}
	return nil
}

// Names implements Store.
func (s *S3) Names(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for o := range s.client.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix, Recursive: true}) {
			if o.Err != nil {
				yield("", s.failed("list", o.Err))
				return
			}
			if !yield(strings.TrimPrefix(o.Key, s.prefix), nil) {
				return
			}
		}
	}
}

// Ready implements Store: the bucket is there, and the credentials open it.
func (s *S3) Ready(ctx context.Context) error {
	there, err := s.client.BucketExists(ctx, s.bucket)
	if err == nil && !there {
		err = errors.New("there is no such bucket: make it, or check --archive and --archive-endpoint")
	}
	if err != nil {
		return s.failed("reach", err)
	}
	return nil
}

func (s *S3) failed(verb string, err error) error {
	return fmt.Errorf("%s in bucket %s: %w", verb, s.bucket, err)
}

func status(err error) int { return minio.ToErrorResponse(err).StatusCode }
