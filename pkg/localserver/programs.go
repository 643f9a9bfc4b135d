package localserver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// oldest is the first major version with all that offerlog's SQL uses.
const oldest = 15

// pinned is the version that is downloaded where no installation is found.
const pinned = embeddedpostgres.V18

// programs is a folder with initdb and postgres of one major version.
type programs struct {
	bin   string
	major int
}

func (p programs) path(program string) string { return filepath.Join(p.bin, program) }

// findPrograms takes the first installation that will do: the one in PATH, the one pg_config speaks of, the newest
// where Debian puts them; else the pinned version, unpacked in dir.
func findPrograms(ctx context.Context, dir string, as account) (programs, error) {
	for _, bin := range installations(ctx) {
		if p, err := inspect(ctx, bin); err == nil && p.major >= oldest {
			return p, nil
		}
	}
	root := filepath.Join(dir, "postgresql-"+string(pinned))
	if err := unpack(root, as); err != nil {
		return programs{}, fmt.Errorf("no PostgreSQL %d or later is installed, and %s could not be downloaded: %w", oldest, pinned, err)
	}
	return inspect(ctx, filepath.Join(root, "bin"))
}

// installations lists folders that may hold PostgreSQL's programs, the preferred first.
func installations(ctx context.Context) []string {
	var bins []string
	if initdb, err := exec.LookPath("initdb"); err == nil {
		if initdb, err = filepath.EvalSymlinks(initdb); err == nil {
			bins = append(bins, filepath.Dir(initdb))
		}
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		bins = append(bins, strings.TrimSpace(string(out)))
	}
	debian, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is right
	slices.SortFunc(debian, func(a, b string) int { return cmp.Compare(debianMajor(b), debianMajor(a)) })
	return append(bins, debian...)
}

func debianMajor(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin))) // a name that is no number comes last
	return n
}

// inspect asks the programs in bin for their version.
func inspect(ctx context.Context, bin string) (programs, error) {
	p := programs{bin: bin}
	if _, err := os.Stat(p.path("initdb")); err != nil {
		return p, err
	}
	out, err := exec.CommandContext(ctx, p.path("postgres"), "--version").Output()
	if err != nil {
		return p, fmt.Errorf("%s --version: %w", p.path("postgres"), err)
	}
	if _, err := fmt.Sscanf(string(out), "postgres (PostgreSQL) %d", &p.major); err != nil {
		return p, fmt.Errorf("read the version in %q: %w", out, err)
	}
	return p, nil
}

// unpack downloads the pinned version into root, unless it is there.
//
// The library cannot merely unpack, and it cannot start a server as root. So it is given a data folder that no server
// starts from, and must fail there: what the program that it unpacked last says to the log proves that it came so far.
func unpack(root string, as account) error {
	if _, err := os.Stat(root); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	fresh := root + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	data := filepath.Join(fresh, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	major, _, _ := strings.Cut(string(pinned), ".")
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(major), 0o644); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	var said bytes.Buffer
	err = embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(pinned).
		Port(uint32(port)). //nolint:gosec // a port that the system has dealt out
		CachePath(filepath.Join(fresh, "download")).
		RuntimePath(filepath.Join(fresh, "runtime")).
		BinariesPath(filepath.Join(fresh, "programs")).
		DataPath(data).
		Logger(&said)).Start()
	if said.Len() == 0 {
		return cmp.Or(err, errors.New("the downloaded programs do not run"))
	}
	if err := as.ownTree(filepath.Join(fresh, "programs")); err != nil {
		return err
	}
	return os.Rename(filepath.Join(fresh, "programs"), root)
}
