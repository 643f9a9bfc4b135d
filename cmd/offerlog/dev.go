package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/localserver"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/gateway"
)

// defaultDevDir is where offerlog dev keeps its data. As root, PostgreSQL runs as another user, who cannot enter root's
// home.
func defaultDevDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/offerlog/dev"
	}
	data := os.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(data) {
		home, err := os.UserHomeDir()
		if err != nil {
			home = os.TempDir()
		}
		data = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(data, "offerlog", "dev")
}

const (
	// devKafkaPort is tried first; clients outside find Kafka where they look for it.
	devKafkaPort = 9092
	// devTenant is whose data the reading commands show where nobody says otherwise.
	devTenant = "demo"
)

func (a *app) devCommand() *cobra.Command {
	port := -1
	var demo, exit bool
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process: Kafka, PostgreSQL, archive and all stages",
		Long: "Runs an in-process Kafka, a private PostgreSQL, a file archive and all stages, with their data in --dir, until told\n" +
			"to stop. The other commands find it by themselves. Kafka is for development: it is one process and one disk.",
		Example: "  offerlog dev\n  offerlog dev --dir /tmp/offerlog --port 0\n  offerlog dev --demo --exit",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if port >= 0 {
				a.settings.Listen = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
			}
			if port == 0 {
				a.settings.GatewayListen = "127.0.0.1:0"
			}
			if exit && !demo {
				return usage("run offerlog dev --demo --exit", "--exit is the end of the story that --demo plays")
			}
			return a.dev(cmd.Context(), port == 0, func(ctx context.Context, in *installation) error {
				if demo {
					return a.runDemo(ctx, in, exit)
				}
				return in.run(ctx)
			})
		},
	}
	cmd.Flags().IntVar(&port, "port", port, "of health and metrics on 127.0.0.1, instead of --listen; 0: any free ports, for Kafka and the gateway too")
	cmd.Flags().BoolVar(&demo, "demo", false, "play a supplier's story first: an export, its repeats, contradictions and latecomers")
	cmd.Flags().BoolVar(&exit, "exit", false, "with --demo: end after the story, with 0 if it went as told")
	return cmd
}

// A devInstance is what run.json says about a running offerlog dev.
type devInstance struct {
	PID            int    `json:"pid"`
	Kafka          string `json:"kafka"`
	Postgres       string `json:"postgres"`
	HTTP           string `json:"http"`
	Gateway        string `json:"gateway"`
	Archive        string `json:"archive"`
	ArchiveKeyFile string `json:"archive_key_file"`
	Tenant         string `json:"tenant"`
	Partitions     int    `json:"partitions"`
}

// dev makes an installation and runs it, as run says, until ctx is done.
func (a *app) dev(ctx context.Context, anyPorts bool, run func(context.Context, *installation) error) error {
	begin := time.Now()
	dir, err := filepath.Abs(a.settings.Dir)
	if err != nil {
		return fmt.Errorf("start dev: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { // PostgreSQL may be another user, who must get through
		return &exitError{exitFailed, "dev_dir", "choose another folder with --dir", fmt.Errorf("start dev: %w", err)}
	}
	unlock, err := lockDev(dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.Remove(runFile(dir)); err == nil {
		fmt.Fprintf(a.stderr, "note: the last offerlog dev in %s was not stopped cleanly; going on from what it stored\n", dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("start dev: %w", err)
	}

	servers, err := startServers(ctx, dir, anyPorts)
	defer servers.stop(a)
	if err != nil {
		return err
	}
	if err := a.prepareDev(ctx, dir, servers); err != nil {
		return err
	}
	in, err := a.open(ctx, allRoles)
	if err != nil {
		return err
	}
	defer in.close()
	if err := repairLog(ctx, in, a.log()); err != nil {
		return err
	}
	instance := devInstance{os.Getpid(), a.settings.Kafka[0], a.settings.Postgres, in.http.Addr().String(), in.gateway.Addr().String(), a.settings.Archive,
		a.settings.ArchiveKeyFile, a.settings.Tenant, a.settings.Partitions}
	if err := instance.write(runFile(dir)); err != nil {
		return err
	}
	defer os.Remove(runFile(dir))
	if err := a.introduce(instance, servers.postgres.Version(), time.Since(begin)); err != nil {
		return err
	}
	return run(ctx, in)
}

// devServers are the servers that dev runs; each is nil until it is started.
type devServers struct {
	postgres *localserver.Postgres
	kafka    *localserver.Kafka
}

func startServers(ctx context.Context, dir string, anyPorts bool) (devServers, error) {
	var s devServers
	var g errgroup.Group
	g.Go(func() (err error) {
		s.postgres, err = localserver.StartPostgres(ctx, filepath.Join(dir, "postgres"), 0)
		return err
	})
	g.Go(func() (err error) {
		data := filepath.Join(dir, "kafka")
		if err := os.MkdirAll(data, 0o700); err != nil {
			return err
		}
		if !anyPorts {
			if s.kafka, err = localserver.StartKafka(data, devKafkaPort); !errors.Is(err, syscall.EADDRINUSE) {
				return err
			}
		}
		s.kafka, err = localserver.StartKafka(data, 0)
		return err
	})
	if err := g.Wait(); err != nil {
		return s, fmt.Errorf("start dev: %w", err)
	}
	return s, nil
}

// stop ends the servers after all that uses them.
func (s devServers) stop(a *app) {
	if s.kafka != nil {
		s.kafka.Close()
	}
	if s.postgres != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.postgres.Stop(ctx); err != nil {
			fmt.Fprintln(a.stderr, "note:", err)
		}
	}
}

// prepareDev makes what is missing on the servers and points the settings at them.
func (a *app) prepareDev(ctx context.Context, dir string, servers devServers) error {
	dsn, err := prepareDatabase(ctx, servers.postgres.DSN())
	if err != nil {
		return fmt.Errorf("prepare the database: %w", err)
	}
	s := &a.settings
	s.Kafka, s.KafkaPrefix, s.Postgres = []string{servers.kafka.Addr()}, "", dsn
	s.Archive, s.ArchiveKeyFile, s.Spool = filepath.Join(dir, "archive"), filepath.Join(dir, "archive.key"), filepath.Join(dir, "spool")
	if s.Tenant == "" {
		s.Tenant = devTenant
	}
	if err := archive.CreateMasterKey(s.ArchiveKeyFile); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	cl, err := a.openKafka(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	plan, err := kafka.Plan(ctx, cl, s.Cluster().Specs(streams.OwnTopics(s.Partitions), []string{streams.Deliveries}, s.Partitions))
	if err != nil {
		return err
	}
	return applyTopics(ctx, cl, plan)
}

// devLogin is the database and the login of offerlog dev: no superuser, so that grants and row-level security hold as they
// do elsewhere.
const devLogin = "offerlog"

// prepareDatabase makes database, schema and login with the superuser's DSN and returns the login's. The password is a new
// one at each start and is written nowhere but in run.json.
func prepareDatabase(ctx context.Context, superuser string) (string, error) {
	if err := execute(ctx, superuser, func(conn *pgx.Conn) error {
		var there bool
		err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", devLogin).Scan(&there)
		if err == nil && !there {
			_, err = conn.Exec(ctx, "CREATE DATABASE "+devLogin)
		}
		return err
	}); err != nil {
		return "", err
	}
	u, err := url.Parse(superuser)
	if err != nil {
		return "", err
	}
	u.Path = "/" + devLogin
	if _, err := postgres.Migrate(ctx, u.String()); err != nil {
		return "", err
	}
	password := rand.Text()
	if err := execute(ctx, u.String(), func(conn *pgx.Conn) error {
		var there bool
		err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", devLogin).Scan(&there)
		if err == nil && !there {
			_, err = conn.Exec(ctx, "CREATE ROLE "+devLogin+" LOGIN NOSUPERUSER NOBYPASSRLS")
		}
		if err == nil {
			_, err = conn.Exec(ctx, "ALTER ROLE "+devLogin+" PASSWORD '"+password+"'")
		}
		return err
	}); err != nil {
		return "", err
	}
	if err := grantRoles(ctx, u.String(), devLogin); err != nil {
		return "", err
	}
	u.User = url.UserPassword(devLogin, password)
	return u.String(), nil
}

func execute(ctx context.Context, dsn string, f func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	return errors.Join(f(conn), conn.Close(context.WithoutCancel(ctx)))
}

// introduce prints the addresses and three next commands.
func (a *app) introduce(i devInstance, version string, took time.Duration) error {
	if a.json {
		i.Postgres = redact(i.Postgres)
		return json.NewEncoder(a.stdout).Encode(i)
	}
	database, err := url.Parse(i.Postgres)
	if err != nil {
		return fmt.Errorf("start dev: %w", err)
	}
	version, _, _ = strings.Cut(version, " ") // the rest is the packager's
	_, err = fmt.Fprintf(a.stdout, "ready    kafka %s · postgres %s %s · archive %s · http://%s   (%.1f s)\n"+
		"gateway  http://%s%s   (token: offerlog token create --role publisher --name NAME)\n"+
		"try      offerlog status      offerlog offers      offerlog quarantine list\n",
		i.Kafka, version, database.Host, i.Archive, i.HTTP, took.Seconds(), i.Gateway, gateway.Path)
	return err
}

func runFile(dir string) string { return filepath.Join(dir, "run.json") }

// write puts the file in place whole.
func (i devInstance) write(name string) error {
	content, err := json.MarshalIndent(i, "", "  ")
	if err == nil {
		err = os.WriteFile(name+".new", append(content, '\n'), 0o600) // it holds a password
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// findDev points the settings at a running offerlog dev, where neither flags nor environment nor file name a server.
func (a *app) findDev() {
	s := &a.settings
	if len(s.Kafka) > 0 || s.Postgres != "" {
		return
	}
	name := runFile(s.Dir)
	content, err := os.ReadFile(name)
	if err != nil {
		return // there is none, or it is somebody else's
	}
	var i devInstance
	if err := json.Unmarshal(content, &i); err != nil || i.PID <= 0 || errors.Is(syscall.Kill(i.PID, 0), syscall.ESRCH) {
		fmt.Fprintf(a.stderr, "note: %s is left over from an offerlog dev that has ended, and is ignored\n", name)
		return
	}
	s.Kafka, s.KafkaPrefix, s.Postgres, s.Archive, s.ArchiveKeyFile = []string{i.Kafka}, "", i.Postgres, i.Archive, i.ArchiveKeyFile
	found := []string{"kafka", "kafka-prefix", "postgres", "archive", "archive-key-file"}
	if s.Tenant == "" {
		s.Tenant = i.Tenant
		found = append(found, "tenant")
	}
	if a.origins["partitions"] == "default" {
		s.Partitions = i.Partitions
		found = append(found, "partitions")
	}
	for _, setting := range found {
		a.origins[setting] = "dev " + name
	}
}

// lockDev makes this process the only offerlog dev in dir; the kernel forgets the lock with the process, however it ends.
func lockDev(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, &exitError{exitFailed, "dev_dir", "choose another folder with --dir", fmt.Errorf("start dev: %w", err)}
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, &exitError{exitConflict, "dev_running", "stop it first, or choose another folder with --dir",
			fmt.Errorf("another offerlog dev runs in %s", dir)}
	}
	return func() { _ = f.Close() }, nil
}
