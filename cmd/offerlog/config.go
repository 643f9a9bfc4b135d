package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/offerlog/offerlog/pkg/kafka"
)

// Settings is all that the commands can be told, by a file, by the environment or by flags.
type Settings struct {
	Kafka          brokers    `koanf:"kafka"`
	KafkaPrefix    string     `koanf:"kafka-prefix"`
	Postgres       string     `koanf:"postgres"`
	Archive        string     `koanf:"archive"`
	ArchiveKeyFile string     `koanf:"archive-key-file"`
	Endpoint       string     `koanf:"archive-endpoint"`
	Region         string     `koanf:"archive-region"`
	Credentials    string     `koanf:"archive-credentials-file"`
	Partitions     int        `koanf:"partitions"`
	Listen         string     `koanf:"listen"`
	GatewayListen  string     `koanf:"gateway-listen"`
	Tenant         string     `koanf:"tenant"`
	Dir            string     `koanf:"dir"`
	LogLevel       slog.Level `koanf:"log-level"`

	DatarefRoots          roots     `koanf:"dataref-roots"`
	DatarefAllowAddresses addresses `koanf:"dataref-allow-addresses"`
	Spool                 string    `koanf:"spool"`
}

// brokers are host:port, in one text separated by commas.
type brokers []string

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *brokers) UnmarshalText(text []byte) error {
	*b = brokenAtCommas(text)
	return nil
}

// brokenAtCommas are the parts of a text that commas or blanks separate.
func brokenAtCommas(text []byte) []string {
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == ',' || r == ' ' })
}

// Cluster is the Kafka that the settings name.
func (s Settings) Cluster() kafka.Cluster {
	return kafka.Cluster{Brokers: s.Kafka, Prefix: s.KafkaPrefix}
}

// A setting is one of Settings as it is written: --kafka-prefix, OFFERLOG_KAFKA_PREFIX, kafka-prefix in the file.
type setting struct{ name, value, about string }

const defaultConfig = "offerlog.yaml"

// allSettings are in the order in which they are shown, with their defaults. The file cannot name another file.
var allSettings = []setting{
	{"config", "", "settings file (default ./" + defaultConfig + " where there is one)"},
	{"kafka", "", "Kafka brokers, host:port,..."},
	{"kafka-prefix", "", "before the name of every topic and group, so that installations can share a cluster"},
	{"postgres", "", "PostgreSQL, as postgres://user:password@host:port/database"},
	{"archive", "", "folder of the archive, or s3://bucket/prefix"},
	{"archive-key-file", "", "file with the archive's master key"},
	{"archive-endpoint", "", "of an archive in a bucket, as https://host:port (default https://s3.amazonaws.com)"},
	{"archive-region", "", "of an archive in a bucket (default: the server is asked)"},
	{"archive-credentials-file", "", "of an archive in a bucket, in the form of ~/.aws/credentials (default: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, else that file)"},
	{"dataref-roots", "", "folders and buckets whose files the events of a tenant may name, tenant=/folder or tenant=s3://bucket/prefix (as the archive's), separated by commas"},
	{"dataref-allow-addresses", "", "addresses that data is fetched from though they are not of the public Internet: exactly these"},
	{"spool", defaultSpool(), "folder for data that is fetched or read, until it is stored: as large as the largest delivery, twice"},
	{"partitions", "6", "of the keyed topics"},
	{"listen", "127.0.0.1:8080", "address of health and metrics"},
	{"gateway-listen", defaultGatewayListen, "address of the HTTP gateway, which takes deliveries"},
	{"tenant", "", "whose data the reading commands show"},
	{"dir", defaultDevDir(), "folder of offerlog dev"},
	{"log-level", "info", "debug, info, warn or error"},
}

const defaultGatewayListen = "127.0.0.1:8081"

const envPrefix = "OFFERLOG_"

// notSettings are variables of the tests of this project and of its builds with fault points; offerlog may run among them.
var notSettings = []string{"OFFERLOG_TEST_", "OFFERLOG_CASES", "OFFERLOG_SOAK", "OFFERLOG_FAULT"}

func settingNames() []string {
	names := make([]string, len(allSettings))
	for i, s := range allSettings {
		names[i] = s.name
	}
	return names
}

// A layer is one source of settings: what it says of each, and where.
type layer struct{ values, places map[string]any }

// Read implements koanf.Provider.
func (l layer) Read() (map[string]any, error) { return l.values, nil }

// ReadBytes implements koanf.Provider.
func (layer) ReadBytes() ([]byte, error) { return nil, errors.ErrUnsupported }

// readSettings reads file, environment and flags: the later win. Keys that nobody knows are errors.
func (a *app) readSettings(flags *pflag.FlagSet) error {
	a.origins = map[string]string{}
	byEnv, err := a.envLayer()
	if err != nil {
		return err
	}
	byFlag := layer{map[string]any{}, map[string]any{}}
	for _, s := range allSettings {
		if f := flags.Lookup(s.name); f != nil && f.Changed {
			byFlag.values[s.name], byFlag.places[s.name] = f.Value.String(), "flag --"+s.name
		}
	}
	file, _ := byEnv.values["config"].(string)
	if f, ok := byFlag.values["config"].(string); ok {
		file = f
	}
	byFile, err := fileLayer(file)
	if err != nil {
		return err
	}
	defaults := layer{map[string]any{}, map[string]any{}}
	for _, s := range allSettings {
		defaults.values[s.name], defaults.places[s.name] = s.value, "default"
	}
	k := koanf.New(".")
	for _, l := range []layer{defaults, byFile, byEnv, byFlag} {
		if err := k.Load(l, nil); err != nil {
			return fmt.Errorf("read settings: %w", err)
		}
		for name, place := range l.places {
			a.origins[name] = place.(string)
		}
	}
	a.settings = Settings{}
	if err := k.Unmarshal("", &a.settings); err != nil {
		return usage("run offerlog config show --origin where the settings can be read", "settings: %w", err)
	}
	return a.settings.validate()
}

// validate reports all problems at once.
func (s Settings) validate() error {
	var errs []error
	for _, b := range append(slices.Clone(s.Kafka), s.Listen, s.GatewayListen) {
		if _, _, err := net.SplitHostPort(b); err != nil {
			errs = append(errs, fmt.Errorf("address %q: want host:port", b))
		}
	}
	if s.Partitions < 1 || s.Partitions > 10_000 {
		errs = append(errs, fmt.Errorf("partitions %d: want 1 to 10000", s.Partitions))
	}
	if err := errors.Join(errs...); err != nil {
		return usage("run offerlog --help for what each setting means", "settings: %w", err)
	}
	return nil
}

// envLayer reads OFFERLOG_*; an empty variable counts as none.
func (a *app) envLayer() (layer, error) {
	l := layer{map[string]any{}, map[string]any{}}
	var unknown error
	provider := env.Provider("", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return a.environ },
		TransformFunc: func(variable, value string) (string, any) {
			if slices.ContainsFunc(notSettings, func(p string) bool { return strings.HasPrefix(variable, p) }) || value == "" {
				return "", nil
			}
			name := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(variable, envPrefix)), "_", "-")
			if !slices.Contains(settingNames(), name) {
				var names []string
				for _, n := range settingNames() {
					names = append(names, envPrefix+strings.ToUpper(strings.ReplaceAll(n, "-", "_")))
				}
				unknown = usage(didYouMean(variable, names, "run offerlog --help for the settings"), "environment variable %s is no setting", variable)
			}
			l.places[name] = "env " + variable
			return name, value
		},
	})
	values, err := provider.Read()
	if err != nil {
		return l, fmt.Errorf("read the environment: %w", err)
	}
	l.values = values
	return l, unknown
}

// fileLayer reads a settings file; the default one may be missing.
func fileLayer(name string) (layer, error) {
	l := layer{map[string]any{}, map[string]any{}}
	missing := name == ""
	if missing {
		name = defaultConfig
	}
	content, err := os.ReadFile(name)
	if missing && errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, usage("check --config", "read settings: %w", err)
	}
	file, err := parser.ParseBytes(content, 0)
	if err != nil {
		return l, usage("check the file", "%s: %s", name, yaml.FormatError(err, false, false))
	}
	for _, doc := range file.Docs {
		var pairs []*ast.MappingValueNode
		switch body := doc.Body.(type) {
		case nil, *ast.NullNode, *ast.CommentGroupNode:
		case *ast.MappingNode:
			pairs = body.Values
		default:
			return l, usage("write kafka: localhost:9092, for example", "%s: want settings, one a line", name)
		}
		for _, pair := range pairs {
			key := pair.Key.GetToken()
			place := fmt.Sprintf("%s:%d", name, key.Position.Line)
			if !slices.Contains(settingNames(), key.Value) || key.Value == "config" {
				return l, usage(didYouMean(key.Value, settingNames()[1:], "run offerlog --help for the settings"), "%s: %q is no setting", place, key.Value)
			}
			var value any
			if err := yaml.NodeToValue(pair.Value, &value); err != nil {
				return l, usage("check the file", "%s: %s", place, yaml.FormatError(err, false, false))
			}
			if value != nil {
				l.values[key.Value], l.places[key.Value] = value, "file "+place
			}
		}
	}
	return l, nil
}
