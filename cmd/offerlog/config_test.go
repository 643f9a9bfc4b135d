package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shown runs config show --origin with a file, an environment and flags, and returns the lines by setting.
func shown(t *testing.T, file string, environ, flags []string) (lines map[string]shownSetting, exit int, stderr string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if file != "" {
		if err := os.WriteFile(defaultConfig, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs, environ: environ}
	exit = a.execute(context.Background(), append([]string{"config", "show", "--origin", "--json"}, flags...))
	lines = map[string]shownSetting{}
	for dec := json.NewDecoder(&out); ; {
		var s shownSetting
		if err := dec.Decode(&s); err == io.EOF {
			return lines, exit, errs.String()
		} else if err != nil {
			t.Fatal(err)
		}
		lines[s.Name] = s
	}
}

func TestSettingsPrecedence(t *testing.T) {
	const file = "# brokers\nkafka: [file:1, file:2]\npartitions: 3\n"
	for name, tt := range map[string]struct {
		file           string
		environ, flags []string
		setting        string
		value, origin  string
	}{
		"nothing is said":                 {"", nil, nil, "partitions", "6", "default"},
		"a file names its line":           {file, nil, nil, "partitions", "3", "file offerlog.yaml:3"},
		"a list is one value":             {file, nil, nil, "kafka", "file:1,file:2", "file offerlog.yaml:2"},
		"the environment beats the file":  {file, []string{"OFFERLOG_KAFKA=env:1"}, nil, "kafka", "env:1", "env OFFERLOG_KAFKA"},
		"a flag beats the environment":    {file, []string{"OFFERLOG_KAFKA=env:1"}, []string{"--kafka", "a:1,b:2"}, "kafka", "a:1,b:2", "flag --kafka"},
		"an empty variable is none":       {file, []string{"OFFERLOG_KAFKA="}, nil, "kafka", "file:1,file:2", "file offerlog.yaml:2"},
		"an empty flag is a value":        {file, nil, []string{"--kafka-prefix="}, "kafka-prefix", "", "flag --kafka-prefix"},
		"dashes are underscores":          {"", []string{"OFFERLOG_ARCHIVE_KEY_FILE=/k"}, nil, "archive-key-file", "/k", "env OFFERLOG_ARCHIVE_KEY_FILE"},
		"variables of tests are let pass": {"", []string{"OFFERLOG_TEST_KAFKA=x", "OFFERLOG_SOAK=1"}, nil, "kafka", "", "default"},
		"folders of tenants":              {"", nil, []string{"--dataref-roots", "a=/srv/a, b=s3://drops/b"}, "dataref-roots", "a=/srv/a,b=s3://drops/b", "flag --dataref-roots"},
		"addresses":                       {"dataref-allow-addresses: [10.0.0.1, '::1']\n", nil, nil, "dataref-allow-addresses", "10.0.0.1,::1", "file offerlog.yaml:1"},
		"a file of comments":              {"# kafka: a:1\n", nil, nil, "kafka", "", "default"},
		"a password is not shown":         {"", nil, []string{"--postgres", "postgres://u:secret@h/db"}, "postgres", "postgres://u:xxxxx@h/db", "flag --postgres"},
	} {
		t.Run(name, func(t *testing.T) {
			lines, exit, stderr := shown(t, tt.file, tt.environ, tt.flags)
			if exit != 0 {
				t.Fatalf("exit %d: %s", exit, stderr)
			}
			want := shownSetting{tt.setting, tt.value, tt.origin}
			if got := lines[tt.setting]; got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestAFileNamedInTheEnvironmentIsReadAndOneThatIsMissingIsNot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(file, []byte("tenant: acme\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, _, _ := shown(t, "tenant: default\n", []string{"OFFERLOG_CONFIG=" + file}, nil)
	if got, want := lines["tenant"], (shownSetting{"tenant", "acme", "file " + file + ":1"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, exit, _ := shown(t, "", nil, []string{"--config", file + ".missing"}); exit != exitUsage {
		t.Errorf("a missing file that was named: got exit %d, want %d", exit, exitUsage)
	}
}

func TestWrongSettingsAreErrorsWithAPlaceAndANextStep(t *testing.T) {
	for name, tt := range map[string]struct {
		file           string
		environ, flags []string
		want, hint     string
	}{
		"an unknown key in the file":     {"tenant: a\nkafak: b:1\n", nil, nil, `offerlog.yaml:2: "kafak" is no setting`, "did you mean kafka?"},
		"the file names another file":    {"config: x.yaml\n", nil, nil, `offerlog.yaml:1: "config" is no setting`, "settings"},
		"an unknown variable":            {"", []string{"OFFERLOG_POSTGRESS=x"}, nil, "environment variable OFFERLOG_POSTGRESS is no setting", "did you mean OFFERLOG_POSTGRES?"},
		"an unknown flag":                {"", nil, []string{"--kafak", "b:1"}, "unknown flag: --kafak", "did you mean --kafka?"},
		"a key twice":                    {"tenant: a\ntenant: b\n", nil, nil, "offerlog.yaml", "check the file"},
		"no YAML":                        {"kafka: [a:1\n", nil, nil, "offerlog.yaml", "check the file"},
		"a network is no address":        {"dataref-allow-addresses: 10.0.0.0/8\n", nil, nil, "dataref-allow-addresses", "config show"},
		"a folder of nobody":             {"dataref-roots: /srv\n", nil, nil, `"/srv": want tenant=/folder or tenant=s3://bucket/prefix`, "config show"},
		"a list of files":                {"- kafka\n", nil, nil, "want settings", "for example"},
		"a number that is none":          {"", nil, []string{"--partitions", "six"}, "partitions", "--origin"},
		"a number out of bounds":         {"partitions: 0\n", nil, nil, "partitions 0: want 1 to 10000", "--help"},
		"an address without a port":      {"", nil, []string{"--kafka", "localhost"}, `address "localhost": want host:port`, "--help"},
		"a level that is none":           {"", nil, []string{"--log-level", "loud"}, "loud", "--origin"},
		"a map where a value is awaited": {"tenant: {a: b}\n", nil, nil, "tenant", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, exit, stderr := shown(t, tt.file, tt.environ, tt.flags)
			var got struct{ Error, Code, Hint string }
			if err := json.Unmarshal([]byte(stderr), &got); err != nil {
				t.Fatalf("%v: %s", err, stderr)
			}
			if exit != exitUsage || got.Code != "usage" || !strings.Contains(got.Error, tt.want) || !strings.Contains(got.Hint, tt.hint) {
				t.Errorf("got exit %d, %+v; want exit %d, an error with %q and a hint with %q", exit, got, exitUsage, tt.want, tt.hint)
			}
		})
	}
}

func TestRedact(t *testing.T) {
	for dsn, want := range map[string]string{
		"":                                "",
		"postgres://u:p%40ss@h:5432/db":   "postgres://u:xxxxx@h:5432/db",
		"postgres://u@h/db?password=p":    "postgres://u@h/db?password=xxxxx",
		"host=h user=u password=p x=y":    "host=h user=u password=xxxxx x=y",
		`host=h password = 'p q\' r' x=y`: "host=h password = xxxxx x=y",
		"sslpassword=p":                   "sslpassword=xxxxx",
		"postgres://u:p@h:port/%zz":       "(malformed)",
		"postgres://u:p ss@h:not a port/": "(malformed)",
		"postgresql:///db?sslpassword=p":  "postgresql:///db?sslpassword=xxxxx",
		"postgres://h/db?sslmode=disable": "postgres://h/db?sslmode=disable",
	} {
		if got := redact(dsn); got != want {
			t.Errorf("%q: got %q, want %q", dsn, got, want)
		}
	}
}
