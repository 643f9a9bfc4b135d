package project_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/offerlog/offerlog/pkg/export"
	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/streams/project"
)

// twoTenants is an installation with offers of two tenants, one of them deleted.
func twoTenants(t *testing.T) *installation {
	t.Helper()
	in := install(t, fake(t), 2)
	in.start()
	var claims []history.Observation
	for i, c := range []claim{{record: "A", version: 1, price: "1"}, {record: "B", price: "2.50"}, {record: "C", version: 7, deleted: true}, {record: "A", tenant: "t2", price: "3"}} {
		claims = append(claims, c.observation(t, numberedDelivery(i)))
	}
	in.say(100, claims...)
	in.settle()
	return in
}

func TestS_003_16_a_file_of_an_export_that_is_gone_or_changed_is_named(t *testing.T) {
	in := twoTenants(t)
	write := func(t *testing.T) (dir string, m export.Manifest) {
		t.Helper()
		dir = filepath.Join(t.TempDir(), "exported")
		for range 2 { // again: the same files
			if err := project.Export(t.Context(), in.pool, 1, dir); err != nil {
				t.Fatal(err)
			}
		}
		m, err := export.Verify(dir)
		if err != nil {
			t.Fatal(err)
		}
		return dir, m
	}
	dir, m := write(t)
	if m.Offers != 4 || m.Deleted != 1 || m.Digest != in.digestOf(1) || len(m.Objects) != 2 || m.Objects[0].Tenant != "t1" || m.Objects[0].Offers != 3 {
		t.Errorf("got %+v", m)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(files) != 3 {
		t.Errorf("got files %v and error %v, want two objects and a manifest", files, err)
	}
	named := func(dir string) string {
		var p export.Pointer
		b, err := os.ReadFile(filepath.Join(dir, "current.json"))
		if err == nil {
			err = json.Unmarshal(b, &p)
		}
		if err != nil {
			t.Fatal(err)
		}
		return p.Manifest
	}
	edit := func(file string, f func([]byte) []byte) error {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return os.WriteFile(file, f(b), 0o600)
	}
	other := func(old, new string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, []byte(old), []byte(new), 1) }
	}
	for name, c := range map[string]struct {
		do   func(dir string, m export.Manifest) error
		name func(dir string, m export.Manifest) string
	}{
		"an object is gone": {
			func(dir string, m export.Manifest) error { return os.Remove(filepath.Join(dir, m.Objects[1].Name)) },
			func(_ string, m export.Manifest) string { return m.Objects[1].Name }},
		"a price was changed": {
			func(dir string, m export.Manifest) error {
				return edit(filepath.Join(dir, m.Objects[0].Name), other(`"price":"2.5"`, `"price":"2.6"`))
			},
			func(_ string, m export.Manifest) string { return m.Objects[0].Name }},
		"a line is gone": {
			func(dir string, m export.Manifest) error {
				return edit(filepath.Join(dir, m.Objects[0].Name), func(b []byte) []byte { return b[bytes.IndexByte(b, '\n')+1:] })
			},
			func(_ string, m export.Manifest) string { return m.Objects[0].Name }},
		"a line is half there": {
			func(dir string, m export.Manifest) error {
				return edit(filepath.Join(dir, m.Objects[0].Name), func(b []byte) []byte { return b[:len(b)-9] })
			},
			func(_ string, m export.Manifest) string { return m.Objects[0].Name }},
		"the manifest is gone": {
			func(dir string, _ export.Manifest) error { return os.Remove(filepath.Join(dir, named(dir))) },
			func(dir string, _ export.Manifest) string { return named(dir) }},
		"the manifest was changed": {
			func(dir string, _ export.Manifest) error {
				return edit(filepath.Join(dir, named(dir)), other(`"deleted":1`, `"deleted":0`))
			},
			func(dir string, _ export.Manifest) string { return named(dir) }},
		"the pointer is no pointer": {
			func(dir string, _ export.Manifest) error {
				return os.WriteFile(filepath.Join(dir, "current.json"), []byte("{"), 0o600)
			},
			func(string, export.Manifest) string { return "current.json" }},
		"the pointer leads out of the folder": {
			func(dir string, _ export.Manifest) error {
				return os.WriteFile(filepath.Join(dir, "current.json"), []byte(`{"generation": 1, "manifest": "../x"}`), 0o600)
			},
			func(string, export.Manifest) string { return "../x" }},
	} {
		t.Run(name, func(t *testing.T) {
			dir, m := write(t)
			want := c.name(dir, m)
			if err := c.do(dir, m); err != nil {
				t.Fatal(err)
			}
			if _, err := export.Verify(dir); !errors.Is(err, export.ErrDamaged) || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want that %s is damaged", err, want)
			}
		})
	}
}

// What is not finished is as if it were not there, and takes nothing away from what is.
func TestS_003_06_an_export_that_is_not_finished_is_absent(t *testing.T) {
	in := twoTenants(t)
	dir := filepath.Join(t.TempDir(), "exported")
	if _, err := export.Verify(dir); !errors.Is(err, export.ErrNone) {
		t.Errorf("before there is a folder: got error %v", err)
	}
	in.superuser("UPDATE current_offer SET flags = '{x}' WHERE record = 'B'")
	if err := project.Export(t.Context(), in.pool, 1, dir); !errors.Is(err, project.ErrIncomplete) {
		t.Errorf("a generation that is not complete: got error %v", err)
	}
	in.superuser("UPDATE current_offer SET flags = '{}' WHERE record = 'B'")
	w, err := export.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := export.Verify(dir); !errors.Is(err, export.ErrNone) {
		t.Errorf("begun: got error %v", err)
	}
	if err := project.Export(t.Context(), in.pool, 1, dir); err != nil {
		t.Fatal(err)
	}
	before, err := export.Verify(dir)
	if err != nil {
		t.Fatal(err)
	}
	in.say(100, claim{record: "D", version: 1, price: "4"}.observation(t, "D"))
	in.settle()
	// The next one's manifest cannot take its name: as if the process had been killed before.
	if err := os.Rename(filepath.Join(dir, "manifests"), filepath.Join(dir, "kept")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "manifests"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := project.Export(t.Context(), in.pool, 1, dir); err == nil {
		t.Error("an export without a place for its manifest: got no error")
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "manifests")), os.Rename(filepath.Join(dir, "kept"), filepath.Join(dir, "manifests"))); err != nil {
		t.Fatal(err)
	}
	after, err := export.Verify(dir)
	if err != nil || after.Part != before.Part || !slices.Equal(after.Objects, before.Objects) {
		t.Errorf("got %+v and error %v, want the export from before", after, err)
	}
	if err := project.Export(t.Context(), in.pool, 1, dir); err != nil {
		t.Fatal(err)
	}
	if after, err := export.Verify(dir); err != nil || after.Offers != 5 {
		t.Errorf("got %d offers and error %v, want the new one", after.Offers, err)
	}
}
