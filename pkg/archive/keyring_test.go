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

func TestReadMasterKey(t *testing.T) {
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
		key, err := archive.ReadMasterKey(path)
		switch {
		case c.want == "" && (err != nil || !bytes.Equal(key, master)):
			t.Errorf("%s: got %x, %v, want the key", sentence, key, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want an error with %q", sentence, err, c.want)
		case err != nil && c.text != "" && strings.Contains(err.Error(), strings.TrimSpace(c.text)):
			t.Errorf("%s: the error shows the file's content", sentence)
		}
	}
	if _, err := archive.ReadMasterKey(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v, want ErrNotExist", err)
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
	key, err := archive.ReadMasterKey(path)
	if err != nil || made != 1 {
		t.Errorf("got %d keys made, %v, want one that can be read", made, err)
	}
	if err := archive.CreateMasterKey(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("again: got %v, want ErrExist", err)
	}
	if again, err := archive.ReadMasterKey(path); err != nil || !bytes.Equal(again, key) {
		t.Errorf("the key changed: %v", err)
	}
	if left := listFiles(t, dir); len(left) != 1 {
		t.Errorf("got files %v, want the key alone", left)
	}
}
