package main

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) configCommand() *cobra.Command {
	var origin bool
	show := &cobra.Command{
		Use:     "show",
		Short:   "Print every setting, without passwords",
		Example: "  offerlog config show --origin\n  OFFERLOG_PARTITIONS=12 offerlog config show --json",
		Args:    noArgs,
		RunE:    func(*cobra.Command, []string) error { return a.showSettings(origin) },
	}
	show.Flags().BoolVar(&origin, "origin", false, "also print where each value comes from")
	return group("config", "Show the settings", show)
}

// A shownSetting is one line of config show.
type shownSetting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin,omitempty"`
}

func (a *app) showSettings(origin bool) error {
	a.findDev()
	s := a.settings
	values := map[string]string{
		"archive-endpoint":         s.Endpoint,
		"archive-region":           s.Region,
		"archive-credentials-file": s.Credentials,
		"kafka":                    strings.Join(s.Kafka, ","),
		"kafka-prefix":             s.KafkaPrefix,
		"postgres":                 redact(s.Postgres),
		"archive":                  s.Archive,
		"archive-key-file":         s.ArchiveKeyFile,
		"partitions":               strconv.Itoa(s.Partitions),
		"listen":                   s.Listen,
		"tenant":                   s.Tenant,
		"dir":                      s.Dir,
		"log-level":                strings.ToLower(s.LogLevel.String()),
		"dataref-roots":            s.DatarefRoots.String(),
		"dataref-allow-addresses":  s.DatarefAllowAddresses.String(),
		"spool":                    s.Spool,
	}
	var rows []shownSetting
	for _, name := range settingNames()[1:] { // each but the file that they are in
		row := shownSetting{Name: name, Value: values[name]}
		if origin {
			row.Origin = a.origins[name]
		}
		rows = append(rows, row)
	}
	header := "SETTING\tVALUE"
	if origin {
		header += "\tORIGIN"
	}
	return show(a, header, rows, func(r shownSetting) string { return r.Name + "\t" + r.Value + "\t" + r.Origin })
}

var passwordPair = regexp.MustCompile(`(?i)\b((?:ssl)?password\s*=\s*)('(?:[^'\\]|\\.)*'|\S+)`)

// redact hides the passwords of a DSN of either form. One that cannot be read is hidden whole.
func redact(dsn string) string {
	if !strings.Contains(dsn, "://") {
		return passwordPair.ReplaceAllString(dsn, "${1}xxxxx")
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "(malformed)"
	}
	q := u.Query()
	for _, name := range []string{"password", "sslpassword"} {
		if q.Has(name) {
			q.Set(name, "xxxxx")
			u.RawQuery = q.Encode()
		}
	}
	return u.Redacted()
}
