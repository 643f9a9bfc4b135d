package streams_test

import (
	"bytes"
	"context"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/streams/rig"
)

// loadCompose reads a compose file as strictly as compose itself: by its schema, with every reference resolved, and
// with nothing from this machine's environment.
func loadCompose(t *testing.T, content []byte, profiles ...string) (*types.Project, error) {
	t.Helper()
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  "..",
		ConfigFiles: []types.ConfigFile{{Filename: "../docker-compose.yml", Content: content}},
		Environment: types.Mapping{},
	}, loader.WithProfiles(profiles), func(o *loader.Options) { o.SetProjectName("offerlog", false) })
}

func composeFile(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile("../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func mustLoadCompose(t *testing.T, profiles ...string) *types.Project {
	t.Helper()
	project, err := loadCompose(t, composeFile(t), profiles...)
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestComposeStartsTheSearchIndexOnlyWhenAsked(t *testing.T) {
	always := []string{"kafka", "migrate", "offerlog", "postgres", "topics"}
	for _, tt := range []struct {
		profiles, want []string
	}{
		{nil, always},
		{[]string{"search"}, slices.Sorted(slices.Values(append([]string{"opensearch"}, always...)))},
	} {
		project := mustLoadCompose(t, tt.profiles...)
		if got := slices.Sorted(maps.Keys(project.Services)); !slices.Equal(got, tt.want) {
			t.Errorf("profiles %v: got services %v, want %v", tt.profiles, got, tt.want)
		}
	}
}

func TestComposeIsReadStrictly(t *testing.T) {
	for name, edit := range map[string][2]string{
		"an unknown key":       {"    stop_grace_period:", "    stop_grace_perod:"},
		"an unknown volume":    {"volumes: [kafka:", "volumes: [kafkas:"},
		"an unknown service":   {"      migrate: {condition:", "      migration: {condition:"},
		"an unknown condition": {"service_completed_successfully}", "service_done}"},
	} {
		content := bytes.Replace(composeFile(t), []byte(edit[0]), []byte(edit[1]), 1)
		if bytes.Equal(content, composeFile(t)) {
			t.Fatalf("%s: %q is not in the file", name, edit[0])
		}
		if _, err := loadCompose(t, content); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestComposeWaitsForHealthyServers(t *testing.T) {
	project := mustLoadCompose(t, "search")
	for name, want := range map[string]map[string]string{
		"migrate": {"postgres": types.ServiceConditionHealthy},
		"topics": {
			"kafka":   types.ServiceConditionHealthy,
			"migrate": types.ServiceConditionCompletedSuccessfully,
		},
		"offerlog": {
			"kafka":    types.ServiceConditionHealthy,
			"postgres": types.ServiceConditionHealthy,
			"migrate":  types.ServiceConditionCompletedSuccessfully,
			"topics":   types.ServiceConditionCompletedSuccessfully,
		},
	} {
		got := make(map[string]string)
		for on, dependency := range project.Services[name].DependsOn {
			got[on] = dependency.Condition
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s depends on %v, want %v", name, got, want)
		}
	}
	for name, service := range project.Services {
		oneShot := name == "migrate" || name == "topics"
		if hasCheck := service.HealthCheck != nil && len(service.HealthCheck.Test) > 1; hasCheck == oneShot {
			t.Errorf("%s: got health check %v, want one for each service that stays", name, hasCheck)
		}
	}
}

func TestComposeRunsOfferlog(t *testing.T) {
	project := mustLoadCompose(t)
	for name, command := range map[string]string{
		"migrate":  "migrate up --grant-to offerlog_app",
		"topics":   "topics apply",
		"offerlog": "run --roles ingest,relay,project,janitor,serve",
	} {
		service := project.Services[name]
		if got := strings.Join(service.Command, " "); got != command {
			t.Errorf("%s: got command %q, want %q", name, got, command)
		}
		settings := []string{"OFFERLOG_ARCHIVE", "OFFERLOG_ARCHIVE_KEY_FILE", "OFFERLOG_KAFKA", "OFFERLOG_POSTGRES"}
		if name == "offerlog" {
			settings = slices.Insert(settings, 2, "OFFERLOG_GATEWAY_LISTEN")
		}
		if got := slices.Sorted(maps.Keys(service.Environment)); !slices.Equal(got, settings) {
			t.Fatalf("%s: got environment %v, want %v", name, got, settings)
		}
		setting := func(key string) string { return *service.Environment[key] }

		if want := "kafka:19092"; setting("OFFERLOG_KAFKA") != want {
			t.Errorf("%s: got OFFERLOG_KAFKA %s, want %s", name, setting("OFFERLOG_KAFKA"), want)
		}
		if got := setting("OFFERLOG_POSTGRES"); !strings.Contains(got, "@postgres:5432/offerlog") {
			t.Errorf("%s: OFFERLOG_POSTGRES does not name the server and its database: %s", name, got)
		}
		kept := slices.ContainsFunc(service.Volumes, func(v types.ServiceVolumeConfig) bool {
			return v.Type == types.VolumeTypeVolume && strings.HasPrefix(setting("OFFERLOG_ARCHIVE"), v.Target+"/")
		})
		if !kept {
			t.Errorf("%s: the archive %s is in no named volume", name, setting("OFFERLOG_ARCHIVE"))
		}
		key := slices.ContainsFunc(service.Secrets, func(s types.ServiceSecretConfig) bool {
			return setting("OFFERLOG_ARCHIVE_KEY_FILE") == "/run/secrets/"+s.Source
		})
		if !key {
			t.Errorf("%s: no secret is mounted at %s", name, setting("OFFERLOG_ARCHIVE_KEY_FILE"))
		}
	}

	inside := *project.Services["kafka"].Environment["KAFKA_ADVERTISED_LISTENERS"]
	if want := "INSIDE://kafka:19092"; !strings.Contains(inside, want) {
		t.Errorf("Kafka advertises %s, want %s among it", inside, want)
	}
}

// The image's login is a superuser: it migrates, and nothing else runs as it. The other is made by a script that this test
// executes.
func TestComposeRunsOfferlogAsALoginThatRowLevelSecurityHolds(t *testing.T) {
	project := mustLoadCompose(t)
	logins := make(map[string]*url.Userinfo)
	for _, name := range []string{"migrate", "topics", "offerlog"} {
		u, err := url.Parse(*project.Services[name].Environment["OFFERLOG_POSTGRES"])
		if err != nil {
			t.Fatal(err)
		}
		logins[name] = u.User
	}
	server := project.Services["postgres"]
	if got, want := logins["migrate"].String(), *server.Environment["POSTGRES_USER"]+":"+*server.Environment["POSTGRES_PASSWORD"]; got != want {
		t.Errorf("migrate logs in as %s, want %s", got, want)
	}
	script := slices.IndexFunc(server.Configs, func(c types.ServiceConfigObjConfig) bool {
		return strings.HasPrefix(c.Target, "/docker-entrypoint-initdb.d/") && strings.HasSuffix(c.Target, ".sql")
	})
	if script < 0 {
		t.Fatal("no script of the database's image makes a login")
	}
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, rig.PostgresServer(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // the server keeps no such login
	if _, err := tx.Exec(ctx, project.Configs[server.Configs[script].Source].Content); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"topics", "offerlog"} {
		var held bool
		err := tx.QueryRow(ctx, "SELECT rolcanlogin AND NOT rolsuper AND NOT rolbypassrls FROM pg_roles WHERE rolname = $1", logins[name].Username()).Scan(&held)
		if err != nil || !held {
			t.Errorf("%s logs in as %s: got %t, %v, want a login that is held by row-level security", name, logins[name].Username(), held, err)
		}
	}
}

// pinned is an image with a tag that names at least a major and a minor version.
var pinned = regexp.MustCompile(`^[a-z0-9./-]+:\d+\.\d+[a-z0-9.-]*$`)

func TestImagesArePinned(t *testing.T) {
	for name, service := range mustLoadCompose(t, "search").Services {
		switch {
		case service.Build != nil:
			if service.Build.Dockerfile != "Dockerfile" {
				t.Errorf("%s is built from %q, want Dockerfile", name, service.Build.Dockerfile)
			}
		case !pinned.MatchString(service.Image):
			t.Errorf("%s: image %q is not pinned to a version", name, service.Image)
		}
	}

	dockerfile, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stages := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllSubmatch(dockerfile, -1)
	if len(stages) != 2 {
		t.Fatalf("got %d stages in the Dockerfile, want 2", len(stages))
	}
	for _, stage := range stages {
		if image := string(stage[1]); image != "scratch" && !pinned.MatchString(image) {
			t.Errorf("Dockerfile: image %q is not pinned to a version", image)
		}
	}
}

func TestComposePublishesOnThisMachineOnly(t *testing.T) {
	for name, service := range mustLoadCompose(t, "search").Services {
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes port %s on %q, want 127.0.0.1", name, port.Published, port.HostIP)
			}
		}
	}
}
