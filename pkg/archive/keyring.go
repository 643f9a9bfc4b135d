package archive

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tink-crypto/tink-go/v2/aead/subtle"
)

const secretBytes = 32 // of every key here

// A Keyring wraps tenants' keys with a master key: AES-256-GCM with tenant and key id as associated data, so that no wrapped
// key serves another tenant. While the master key is being replaced the ring holds both: the first wraps, each unwraps.
type Keyring struct {
	path string // of the file with the keys; "": there is none

	mu      sync.Mutex
	masters [][]byte
}

// OpenKeyring returns the keyring of master keys of 32 bytes.
func OpenKeyring(masters ...[]byte) *Keyring { return &Keyring{masters: masters} }

// ReadKeyring returns the keyring of a key file: 64 hex digits, or the base64 of 32 bytes, one master key a line. A file that
// others may read is refused. The ring reads the file again before it wraps and where no key of it opens, so that whoever
// replaces the file need not start its readers again.
func ReadKeyring(path string) (*Keyring, error) {
	k := &Keyring{path: path}
	if err := k.reload(); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *Keyring) reload() error {
	if k.path == "" {
		return nil
	}
	masters, err := readMasterKeys(k.path)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.masters = masters
	return nil
}

func (k *Keyring) keys() [][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.masters
}

// Wrap seals a tenant's secret for storage, under the first master key.
func (k *Keyring) Wrap(tenant, id string, secret []byte) ([]byte, error) {
	wrapped, err := k.wrap(tenant, id, secret)
	if err != nil {
		return nil, fmt.Errorf("wrap key %s of tenant %q: %w", id, tenant, err)
	}
	return wrapped, nil
}

func (k *Keyring) wrap(tenant, id string, secret []byte) ([]byte, error) {
	if err := k.reload(); err != nil {
		return nil, err
	}
	aead, err := masterAEAD(k.keys()[0])
	if err != nil {
		return nil, err
	}
	return aead.Encrypt(secret, keyContext(tenant, id))
}

// Unwrap opens what Wrap sealed for the same tenant and id under one of the ring's master keys.
func (k *Keyring) Unwrap(tenant, id string, wrapped []byte) ([]byte, error) {
	secret, _, err := k.unwrap(tenant, id, wrapped)
	if err != nil {
		return nil, fmt.Errorf("unwrap key %s of tenant %q: %w", id, tenant, err)
	}
	return secret, nil
}

// unwrap also says which of the master keys it was.
func (k *Keyring) unwrap(tenant, id string, wrapped []byte) (secret []byte, by int, err error) {
	for range 2 {
		for i, master := range k.keys() {
			aead, err := masterAEAD(master)
			if err != nil {
				return nil, 0, err
			}
			if secret, err := aead.Decrypt(wrapped, keyContext(tenant, id)); err == nil {
				return secret, i, nil
			}
		}
		if err := k.reload(); err != nil { // it may have been wrapped again since
			return nil, 0, err
		}
	}
	return nil, 0, errors.New("not sealed under this master key; start with the key file that this database was used with")
}

func masterAEAD(master []byte) (*subtle.AESGCM, error) {
	if len(master) != secretBytes {
		return nil, fmt.Errorf("master key of %d bytes: want %d", len(master), secretBytes)
	}
	return subtle.NewAESGCM(master)
}

func keyContext(tenant, id string) []byte {
	b := binary.BigEndian.AppendUint64([]byte("offerlog tenant key 1\n"), uint64(len(tenant)))
	return append(append(b, tenant...), id...)
}

// readMasterKeys reads a key file.
func readMasterKeys(path string) ([][]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read master key: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("read master key: %s has mode %#o, so others may read it: run chmod 600 %[1]s", path, mode)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read master key: %w", err)
	}
	var masters [][]byte
	for _, line := range strings.Fields(string(text)) {
		for _, decode := range []func(string) ([]byte, error){hex.DecodeString, base64.StdEncoding.DecodeString} {
			if key, err := decode(line); err == nil && len(key) == secretBytes {
				masters = append(masters, key)
				break
			}
		}
	}
	if n := len(strings.Fields(string(text))); n == 0 || len(masters) != n {
		return nil, fmt.Errorf("read master key: %s holds neither 64 hex digits nor the base64 of %d bytes in each line", path, secretBytes)
	}
	return masters, nil
}

// CreateMasterKey writes a new key file that only its owner may read. It never replaces one (fs.ErrExist), since all
// evidence would be lost with the old key, and never leaves half a one.
func CreateMasterKey(path string) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), ".key-*") // mode 0600
	if err != nil {
		return fmt.Errorf("create master key: %w", err)
	}
	defer func() {
		if e := errors.Join(temp.Close(), os.Remove(temp.Name())); err == nil && e != nil {
			err = fmt.Errorf("create master key: %w", e)
		}
	}()
	secret := make([]byte, secretBytes)
	rand.Read(secret)
	if _, err = temp.WriteString(hex.EncodeToString(secret) + "\n"); err == nil {
		err = temp.Sync()
	}
	if err == nil {
		err = os.Link(temp.Name(), path)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create master key: %s is there already and is kept: %w", path, fs.ErrExist)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("create master key: %w", err)
	}
	return nil
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
