package chaos

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/streams/rig"
)

// Everything that lasts is in Kafka, PostgreSQL and the bucket: a host that dies in the middle of its work, with its disk, is
// replaced by one that has the key file and nothing else.
func TestS_003_24_a_new_host_with_an_empty_disk_resumes(t *testing.T) {
	in := newInstallation(t)
	in.location, in.endpoint = "s3://evidence/offers", rig.S3(t, "evidence")
	bucket, err := archive.OpenS3(archive.S3Config{Location: in.location, Endpoint: in.endpoint, AccessKey: "key", Secret: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	in.reads(bucket)
	key, err := os.ReadFile(filepath.Join(in.host, "archive.key"))
	if err != nil {
		t.Fatal(err)
	}
	roles := []string{"ingest", "relay", "project", "janitor"}
	first := in.start(faulty, "ingest.before_commit=kill:3", roles...)
	in.applyFeed()
	in.deliverUntilDead(first)              // however many batches the deliveries come in
	first.diesOf("ingest.before_commit", 3) // its objects are written, and no row names them
	if err := os.RemoveAll(in.host); err != nil {
		t.Fatal(err)
	}

	in.host = filepath.Join(in.dir, "new host")
	if err := os.Mkdir(in.host, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(in.host, "archive.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	second := in.start(shipped, "", roles...)
	in.deliver(30)
	in.verify()
	second.stop()
	var left []string
	err = filepath.WalkDir(in.host, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != "lock" {
			left = append(left, path)
		}
		return err
	})
	if want := []string{filepath.Join(in.host, "archive.key")}; err != nil || !slices.Equal(left, want) {
		t.Errorf("the new host keeps %v, %v, want the key alone", left, err)
	}
}
