// Package export keeps a generation of the view as files that need no database to be read, or to be proved.
//
//	objects/SHA-256.ndjson     offers of one tenant, a document a line
//	manifests/SHA-256.json     what the generation holds, and which objects hold it
//	current.json               names the manifest that readers go by
//
// An object is durable before a manifest names it, and a manifest before the pointer names it, which is replaced in one step. So a
// kill at any moment leaves the export that was there before, or none; what is half written is named by nothing, and the next export
// into the folder removes it. Names are those of contents, so a file that is gone or was changed is found by its name, and the same
// generation written again is the same files.
package export

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/offerlog/offerlog/pkg/fault"
	"github.com/offerlog/offerlog/pkg/view"
)

// ErrNone reports a folder in which no export is complete.
var ErrNone = errors.New("no export is complete here")

// ErrDamaged reports an export that does not hold what it says.
var ErrDamaged = errors.New("the export is damaged")

// A Manifest is that of a generation, with the objects that hold its rows.
type Manifest struct {
	view.Manifest
	Objects []Object `json:"objects"`
}

// An Object holds offers of one tenant.
type Object struct {
	Name   string `json:"name"`
	Tenant string `json:"tenant"`
	Offers int64  `json:"offers"`
	Bytes  int64  `json:"bytes"`
}

// A Pointer names the manifest that readers go by.
type Pointer struct {
	Generation int    `json:"generation"`
	Manifest   string `json:"manifest"`
}

const (
	objects   = "objects"
	manifests = "manifests"
	current   = "current.json"
)

// objectOffers is how many offers an object holds at most.
const objectOffers = 100_000

// A Writer writes one export. What it has written stays unseen until Finish.
type Writer struct {
	root *os.Root
	lock *os.File
	list []Object
	open *object
}

// An object is one that is being written, under a name that begins with a dot.
type object struct {
	Object
	temp string
	file *os.File
	sum  hash.Hash
}

// Create begins an export in a folder, which it makes if need be. What exports before it have left there unfinished it removes.
func Create(dir string) (*Writer, error) {
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = syncFolder(filepath.Dir(filepath.Clean(dir)))
	}
	if err != nil {
		return nil, fmt.Errorf("begin an export: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("begin an export: %w", err)
	}
	for _, folder := range []string{objects, manifests} {
		if err := root.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, errors.Join(fmt.Errorf("begin an export: %w", err), root.Close())
		}
	}
	err = syncFolder(dir)
	w := &Writer{root: root}
	if err == nil {
		w.lock, err = enter(root)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("begin an export: %w", err), root.Close())
	}
	return w, nil
}

// Add writes an offer. They come tenant by tenant.
func (w *Writer) Add(c *view.Change) (err error) {
	body, err := c.Body()
	tenant := c.Winner.Key.Tenant
	if err == nil && w.open != nil && (w.open.Tenant != tenant || w.open.Offers == objectOffers) {
		err = w.seal()
	}
	if err == nil && w.open == nil {
		w.open = &object{Object: Object{Tenant: tenant}, temp: newTemp(objects), sum: sha256.New()}
		w.open.file, err = w.root.OpenFile(w.open.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	}
	if err == nil {
		body = append(body, '\n')
		w.open.Offers++
		w.open.Bytes += int64(len(body))
		w.open.sum.Write(body)
		_, err = w.open.file.Write(body)
	}
	if err != nil {
		return fmt.Errorf("export offer %s: %w", c.Winner.Key, err)
	}
	return nil
}

// seal makes the open object durable and gives it its name.
func (w *Writer) seal() error {
	o := w.open
	w.open = nil
	o.Name = objects + "/" + hex.EncodeToString(o.sum.Sum(nil)) + ".ndjson"
	if err := errors.Join(o.file.Sync(), o.file.Close()); err != nil {
		return err
	}
	w.list = append(w.list, o.Object)
	return w.root.Rename(o.temp, o.Name)
}

// Finish makes what was written durable, then its manifest, and lets readers go by it.
func (w *Writer) Finish(m view.Manifest) (err error) {
	if w.open != nil {
		err = w.seal()
	}
	if err == nil {
		err = w.sync(objects)
	}
	if err != nil {
		return fmt.Errorf("export generation %d: %w", m.Generation, err)
	}
	fault.Point("export.objects_durable")
	text, err := json.Marshal(Manifest{m, append([]Object{}, w.list...)})
	sum := sha256.Sum256(text)
	p := Pointer{m.Generation, manifests + "/" + hex.EncodeToString(sum[:]) + ".json"}
	if err == nil {
		err = w.put(p.Manifest, text)
	}
	if err != nil {
		return fmt.Errorf("export the manifest of generation %d: %w", m.Generation, err)
	}
	fault.Point("export.manifest_durable")
	if text, err = json.Marshal(p); err == nil {
		err = w.put(current, text)
	}
	if err != nil {
		return fmt.Errorf("point to the export of generation %d: %w", m.Generation, err)
	}
	return nil
}

// put makes a file durable and lets it take the place of what has its name, in one step.
func (w *Writer) put(name string, content []byte) error {
	temp := newTemp(path.Dir(name))
	file, err := w.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := w.root.Rename(temp, name); err != nil {
		return err
	}
	return w.sync(path.Dir(name))
}

// Close releases the folder. Of an export that is not finished it removes the object that is half written.
func (w *Writer) Close() (err error) {
	if w.open != nil {
		err = errors.Join(w.open.file.Close(), w.root.Remove(w.open.temp))
	}
	return errors.Join(err, w.lock.Close(), w.root.Close())
}

func (w *Writer) sync(folder string) error {
	d, err := w.root.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Verify reads the export that a folder's pointer names, all of it, and holds it against its manifest: each file is there and is what
// its name says, and the offers count and hash to what the manifest states. ErrNone, or ErrDamaged with the name of the file.
func Verify(dir string) (m Manifest, err error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNone
	}
	if err != nil {
		return m, fmt.Errorf("verify the export in %s: %w", dir, err)
	}
	defer root.Close()
	if m, err = verify(root); err != nil {
		return m, fmt.Errorf("verify the export in %s: %w", dir, err)
	}
	return m, nil
}

func verify(root *os.Root) (m Manifest, err error) {
	text, err := root.ReadFile(current)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNone
	}
	if err != nil {
		return m, err
	}
	var p Pointer
	if err := json.Unmarshal(text, &p); err != nil {
		return m, damaged(current, err)
	}
	sum := sha256.New()
	if err := read(root, manifests, ".json", p.Manifest, sum, func(r io.Reader) error { return json.NewDecoder(r).Decode(&m) }); err != nil {
		return m, err
	}
	tenants := map[string]view.Rows{}
	for _, o := range m.Objects {
		var rows view.Rows
		err := read(root, objects, ".ndjson", o.Name, sha256.New(), func(r io.Reader) (err error) {
			rows, err = tally(r, o.Tenant)
			return err
		})
		if err == nil && rows.Offers != o.Offers {
			err = damaged(o.Name, fmt.Errorf("it has %d offers, its manifest says %d", rows.Offers, o.Offers))
		}
		if err != nil {
			return m, err
		}
		tenants[o.Tenant] = tenants[o.Tenant].Plus(rows)
	}
	for _, t := range m.Tenants {
		if tenants[t.Tenant] != t.Rows {
			return m, damaged(p.Manifest, fmt.Errorf("it says that tenant %s has %d offers with digest %s, its objects have %d with %s", t.Tenant, t.Offers, t.Digest,
				tenants[t.Tenant].Offers, tenants[t.Tenant].Digest))
		}
		delete(tenants, t.Tenant)
	}
	if len(tenants) > 0 {
		return m, damaged(p.Manifest, fmt.Errorf("it has objects of %q, of which it says nothing", slices.Sorted(maps.Keys(tenants))))
	}
	return m, nil
}

// read lets f read a file, and holds its content against its name: FOLDER/SHA-256EXT.
func read(root *os.Root, folder, ext, name string, sum hash.Hash, f func(io.Reader) error) error {
	file, err := root.Open(name)
	if err != nil {
		return damaged(name, err)
	}
	defer file.Close()
	content := io.TeeReader(file, sum)
	if err := f(content); err != nil {
		return damaged(name, err)
	}
	if _, err := io.Copy(io.Discard, content); err != nil {
		return damaged(name, err)
	}
	if got := folder + "/" + hex.EncodeToString(sum.Sum(nil)) + ext; got != name {
		return damaged(name, errors.New("its content is another one"))
	}
	return nil
}

// tally counts and hashes documents of a tenant.
func tally(r io.Reader, tenant string) (rows view.Rows, err error) {
	for in := json.NewDecoder(r); ; {
		var d view.Document
		if err := in.Decode(&d); err == io.EOF {
			return rows, nil
		} else if err != nil {
			return rows, err
		}
		if d.Tenant != tenant {
			return rows, fmt.Errorf("it has an offer of tenant %s", d.Tenant)
		}
		o, err := d.Offer()
		if err != nil {
			return rows, err
		}
		rows.Add(o)
	}
}

func damaged(name string, err error) error { return fmt.Errorf("%s: %w: %w", name, err, ErrDamaged) }
