package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print what this binary was built from",
		Example: "  offerlog version\n  offerlog version --json",
		Args:    noArgs,
		// It tells also where the settings are wrong.
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			return show(a, "VERSION\tREVISION\tGO", []version{v}, func(v version) string {
				revision := v.Revision
				if v.Modified {
					revision += " (modified)"
				}
				return fmt.Sprintf("%s\t%s\t%s", v.Version, revision, v.Go)
			})
		},
	}
}

// A version is what a binary was built from.
type version struct {
	Version  string `json:"version"`  // of the module; "(devel)" in a checkout without a tag
	Revision string `json:"revision"` // of the repository; "unknown" where the build was not told
	Modified bool   `json:"modified"` // files differed from the revision
	Go       string `json:"go"`
}

func buildVersion() version {
	v := version{Version: "(devel)", Revision: "unknown", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
