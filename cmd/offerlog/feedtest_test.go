package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/offerlog/offerlog/pkg/feed"
)

// The fixtures beside the feeds of testdata come out as their expectations say. Among them are, for S-004-22, rows without
// a key and rows without a version on a source that numbers them: rejected, never stamped.
func TestS_004_22_FixturesOfTheFeeds(t *testing.T) {
	feeds, err := filepath.Glob("../../testdata/feeds/*/feed.yaml")
	if err != nil || len(feeds) < 2 {
		t.Fatalf("got feeds %v, %v", feeds, err)
	}
	for _, file := range feeds {
		var out, errors bytes.Buffer
		a := &app{stdout: &out, stderr: &errors}
		if exit := a.execute(t.Context(), []string{"feed", "test", file}); exit != 0 || !strings.Contains(out.String(), "expectation: agrees") {
			t.Errorf("%s: exit code %d\n%s%s", file, exit, &out, &errors)
		}
	}
}

// Each draft of a sample is a feed file, and whatever has none says what to do next.
func TestDraftsOfTheCases(t *testing.T) {
	samples, err := filepath.Glob("../../testdata/cases/*/payload*")
	if err != nil || len(samples) < 30 {
		t.Fatalf("got %d samples, %v", len(samples), err)
	}
	drafts := 0
	for _, sample := range samples {
		payload, err := readPayload(sample)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(sample))
		text, err := draftFeed(t.Context(), filepath.Base(sample), payload, name, "demo")
		if err != nil {
			if explain(err).hint == "" {
				t.Errorf("%s: %v, and no next step", name, err)
			}
			continue
		}
		if _, err := feed.ParseYAML(name, []byte(text)); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		drafts++
	}
	if drafts*10 < len(samples)*7 {
		t.Errorf("got drafts of %d among %d samples", drafts, len(samples))
	}
}

func TestNamesOfFeeds(t *testing.T) {
	for file, want := range map[string]string{
		"export.csv": "export", "/tmp/Stock List (EU).csv.gz": "stock-list-eu", "ÄÖ.xml": "feed", "_x": "x", "a.b.c": "a", strings.Repeat("a", 100): strings.Repeat("a", 64),
	} {
		if got := feedName(file); got != want {
			t.Errorf("%s: got %s, want %s", file, got, want)
		}
	}
}
