package streams_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// TestS_003_25_EachFixtureHasOriginRightsAndDate holds testdata and its inventory together.
func TestS_003_25_EachFixtureHasOriginRightsAndDate(t *testing.T) {
	b, err := os.ReadFile("../testdata/inventory.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type source struct {
		Path, Holds, Origin, Rights, Access, Date string
	}
	var sources []source
	if err := yaml.UnmarshalWithOptions(b, &sources, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, s := range sources {
		if _, twice := used[s.Path]; twice {
			t.Errorf("%s is listed twice", s.Path)
		}
		used[s.Path] = false
		for field, value := range reflect.ValueOf(s).Fields() {
			if value.String() == "" {
				t.Errorf("%s says nothing of its %s", s.Path, strings.ToLower(field.Name))
			}
		}
		if _, err := time.Parse(time.DateOnly, s.Date); err != nil {
			t.Errorf("%s: the date %q is none; want YYYY-MM-DD", s.Path, s.Date)
		}
	}
	err = filepath.WalkDir("../testdata", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file := strings.TrimPrefix(filepath.ToSlash(path), "../")
		if file == "testdata/inventory.yaml" || strings.HasSuffix(file, ".go") {
			return nil
		}
		best := ""
		for _, s := range sources {
			if (s.Path == file || strings.HasSuffix(s.Path, "/") && strings.HasPrefix(file, s.Path)) && len(s.Path) > len(best) {
				best = s.Path
			}
		}
		if best == "" {
			t.Errorf("%s is not in testdata/inventory.yaml", file)
		}
		used[best] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, is := range used {
		if !is {
			t.Errorf("%s is in testdata/inventory.yaml, and no file is", path)
		}
	}
}
