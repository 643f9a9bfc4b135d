package rig

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/postgres"

	"github.com/offerlog/offerlog/pkg/localserver"
)

// maxWAL bounds what a server's log takes of the memory that its folder may lie in.
const maxWAL = "max_wal_size=512MB"

const postgresImage = "postgres:18"

// PostgresServer returns a DSN with a superuser's rights on a PostgreSQL server that all tests of this process share.
func PostgresServer(t testing.TB) string {
	t.Helper()
	requireMain(t)
	dsn, err := postgresServer()
	if err != nil {
		t.Fatalf("rig: PostgreSQL: %v", err)
	}
	return dsn
}

var postgresServer = sync.OnceValues(func() (string, error) {
	if dsn := os.Getenv("OFFERLOG_TEST_POSTGRES"); dsn != "" {
		return dsn, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if engine() {
		return postgresContainer(ctx)
	}
	dir, err := temporary()
	if err != nil {
		return "", err
	}
	server, err := localserver.StartPostgres(ctx, dir, 0, "fsync=off", maxWAL)
	if err != nil {
		return "", err
	}
	servers.push(server.Stop)
	return server.DSN(), nil
})

func postgresContainer(ctx context.Context) (string, error) {
	c, err := postgres.Run(ctx, postgresImage, postgres.BasicWaitStrategies(),
		testcontainers.WithCmdArgs("-c", "fsync=off", "-c", "max_connections=100"))
	if c != nil {
		servers.push(func(ctx context.Context) error { return c.Terminate(ctx) })
	}
	if err != nil {
		return "", err
	}
	return c.ConnectionString(ctx, "sslmode=disable")
}
