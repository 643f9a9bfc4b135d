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

	"github.com/tink-crypto/tink-go/v2/aead/subtle"
)

const secretBytes = 32

// A Keyring wraps tenants' keys with the master key: AES-256-GCM with tenant and key id as associated data, so that no
// wrapped key serves another tenant.
type Keyring struct{ master []byte }

// OpenKeyring returns the keyring of a master key of 32 bytes.
func OpenKeyring(master []byte) *Keyring { return &Keyring{master} }

// Wrap seals a tenant's secret for storage.
func (k *Keyring) Wrap(tenant, id string, secret []byte) ([]byte, error) {
	aead, err := k.aead()
	if err != nil {
		return nil, fmt.Errorf("wrap key %s of tenant %q: %w", id, tenant, err)
	}
	wrapped, err := aead.Encrypt(secret, keyContext(tenant, id))
	if err != nil {
		return nil, fmt.Errorf("wrap key %s of tenant %q: %w", id, tenant, err)
	}
	return wrapped, nil
}

// Unwrap opens what Wrap sealed for the same tenant and id under the same master key.
func (k *Keyring) Unwrap(tenant, id string, wrapped []byte) ([]byte, error) {
	aead, err := k.aead()
	if err != nil {
		return nil, fmt.Errorf("unwrap key %s of tenant %q: %w", id, tenant, err)
	}
	secret, err := aead.Decrypt(wrapped, keyContext(tenant, id))
	if err != nil {
		return nil, fmt.Errorf("unwrap key %s of tenant %q: not sealed under this master key; "+
			"start with the key file that this database was used with", id, tenant)
	}
	return secret, nil
}

func (k *Keyring) aead() (*subtle.AESGCM, error) {
	if len(k.master) != secretBytes {
		return nil, fmt.Errorf("master key of %d bytes: want %d", len(k.master), secretBytes)
	}
	return subtle.NewAESGCM(k.master)
}

func keyContext(tenant, id string) []byte {
	b := binary.BigEndian.AppendUint64([]byte("offerlog tenant key 1\n"), uint64(len(tenant)))
	return append(append(b, tenant...), id...)
}

// ReadMasterKey reads a key file: 64 hex digits, or the base64 of 32 bytes. A file that others may read is refused.
func ReadMasterKey(path string) ([]byte, error) {
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
	s := strings.TrimSpace(string(text))
	for _, decode := range []func(string) ([]byte, error){hex.DecodeString, base64.StdEncoding.DecodeString} {
		if key, err := decode(s); err == nil && len(key) == secretBytes {
			return key, nil
		}
	}
	return nil, fmt.Errorf("read master key: %s holds neither 64 hex digits nor the base64 of %d bytes", path, secretBytes)
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
