package archive_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/offerlog/offerlog/pkg/archive"
)

var master, secret = bytes.Repeat([]byte{7}, 32), bytes.Repeat([]byte{9}, 32)

func TestAKeyUnwrapsOnlyWhereItBelongs(t *testing.T) {
	ring := archive.OpenKeyring(master)
	wrapped, err := ring.Wrap("demo", "k1", secret)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(wrapped, secret) {
		t.Error("the wrapped key shows the secret")
	}
	if got, err := ring.Unwrap("demo", "k1", wrapped); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("got %x, %v, want the secret", got, err)
	}
	other := archive.OpenKeyring(secret)
	for sentence, unwrap := range map[string]func() ([]byte, error){
		"another tenant": func() ([]byte, error) { return ring.Unwrap("acme", "k1", wrapped) },
		"another id":     func() ([]byte, error) { return ring.Unwrap("demo", "k2", wrapped) },
		"text moved from tenant to id": func() ([]byte, error) {
			return ring.Unwrap("demok", "1", wrapped)
		},
		"another master key": func() ([]byte, error) { return other.Unwrap("demo", "k1", wrapped) },
		"nothing wrapped":    func() ([]byte, error) { return ring.Unwrap("demo", "k1", nil) },
	} {
		if got, err := unwrap(); err == nil {
			t.Errorf("%s: got %x, want an error", sentence, got)
		}
	}
	if _, err := archive.OpenKeyring(master[:16]).Wrap("demo", "k1", secret); err == nil {
		t.Error("a master key of 16 bytes: got no error")
	}
}

func TestReadKeyring(t *testing.T) {
	for sentence, c := range map[string]struct {
		text string
		mode fs.FileMode
		want string // of the error; empty: the key
	}{
		"64 hex digits":          {hex.EncodeToString(master), 0o600, ""},
		"with a newline":         {hex.EncodeToString(master) + "\n", 0o400, ""},
		"base64":                 {base64.StdEncoding.EncodeToString(master), 0o600, ""},
		"others may read it":     {hex.EncodeToString(master), 0o640, "chmod 600"},
		"others may write it":    {hex.EncodeToString(master), 0o602, "chmod 600"},
		"an empty file":          {"", 0o600, "neither"},
		"a key of another size":  {hex.EncodeToString(master[:31]), 0o600, "neither"},
		"two keys":               {hex.EncodeToString(master) + "\n" + hex.EncodeToString(secret) + "\n", 0o600, ""},
		"a key and half a one":   {hex.EncodeToString(master) + "\n" + hex.EncodeToString(secret[:16]), 0o600, "neither"},
		"a text that is no key":  {strings.Repeat("z!", 32), 0o600, "neither"},
		"base64 of another size": {base64.StdEncoding.EncodeToString(master[:16]), 0o600, "neither"},
	} {
		path := filepath.Join(t.TempDir(), "master.key")
		if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil { // whatever the umask
			t.Fatal(err)
		}
		ring, err := archive.ReadKeyring(path)
		switch {
		case c.want == "" && (err != nil || !opens(t, ring, master)):
			t.Errorf("%s: got %v, want the key", sentence, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want an error with %q", sentence, err, c.want)
		case err != nil && c.text != "" && strings.Contains(err.Error(), strings.TrimSpace(c.text)):
			t.Errorf("%s: the error shows the file's content", sentence)
		}
	}
	if _, err := archive.ReadKeyring(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v, want ErrNotExist", err)
	}
}

// opens reports whether what a ring wraps is opened by a master key.
func opens(t *testing.T, ring *archive.Keyring, master []byte) bool {
	t.Helper()
	wrapped, err := ring.Wrap("demo", "k1", secret)
	if err != nil {
		t.Fatal(err)
	}
	got, err := archive.OpenKeyring(master).Unwrap("demo", "k1", wrapped)
	return err == nil && bytes.Equal(got, secret)
}

// The steps of a rotation, while one process runs: it never fails to open a key, whoever wrapped it.
func TestARingFollowsItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master.key")
	write := func(keys ...[]byte) {
		t.Helper()
		var text string
		for _, k := range keys {
			text += hex.EncodeToString(k) + "\n"
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old, fresh := master, bytes.Repeat([]byte{9}, 32)
	write(old)
	ring, err := archive.ReadKeyring(path)
	if err != nil || !opens(t, ring, old) {
		t.Fatalf("got %v, want the old key", err)
	}
	byOld, err := ring.Wrap("demo", "k1", secret)
	if err != nil {
		t.Fatal(err)
	}
	byFresh, err := archive.OpenKeyring(fresh).Wrap("demo", "k1", secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range [][][]byte{{old, fresh}, {fresh, old}} {
		write(step...)
		for by, wrapped := range map[string][]byte{"the old key": byOld, "the new key": byFresh} {
			if got, err := ring.Unwrap("demo", "k1", wrapped); err != nil || !bytes.Equal(got, secret) {
				t.Errorf("wrapped by %s: %v", by, err)
			}
		}
		if !opens(t, ring, step[0]) {
			t.Error("the first key of the file does not wrap")
		}
	}
	write(fresh)
	if !opens(t, ring, fresh) {
		t.Error("the new key does not wrap")
	}
	if _, err := ring.Unwrap("demo", "k1", byOld); err == nil || !strings.Contains(err.Error(), "master key") {
		t.Errorf("wrapped by a key that is gone: got %v", err)
	}
}

func TestCreateMasterKeyNeverReplacesOne(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "master.key")
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() { errs[i] = archive.CreateMasterKey(path) })
	}
	wg.Wait()
	made := 0
	for _, err := range errs {
		switch {
		case err == nil:
			made++
		case !errors.Is(err, fs.ErrExist):
			t.Errorf("got %v, want ErrExist", err)
		}
	}
	first, err := os.ReadFile(path)
	if _, errRead := archive.ReadKeyring(path); err != nil || errRead != nil || made != 1 {
		t.Errorf("got %d keys made, %v, want one that can be read", made, err)
	}
	if err := archive.CreateMasterKey(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("again: got %v, want ErrExist", err)
	}
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, first) {
		t.Errorf("the key changed: %v", err)
	}
	if left := listFiles(t, dir); len(left) != 1 {
		t.Errorf("got files %v, want the key alone", left)
	}
}
