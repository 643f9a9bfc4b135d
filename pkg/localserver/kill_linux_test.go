package localserver

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// The server of a killed parent ends by itself, and the next start waits for that: twice, in one folder, each time with
// the rows that were committed before the kill, as root and as a user who is not.
func TestPostgresSurvivesKill9OfItsParent(t *testing.T) {
	accounts := map[string]account{"this user": {}}
	if os.Geteuid() == 0 {
		u, err := user.Lookup("nobody")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		accounts["a user who is not root"] = account{"nobody", &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	for name, as := range accounts {
		t.Run(name, func(t *testing.T) {
			dir := openDir(t)
			if err := as.own(dir); err != nil {
				t.Fatal(err)
			}
			for round := 1; round <= 3; round++ {
				helper, dsn := hold(t, as, "hold-postgres", dir)
				execute(t, dsn, `CREATE TABLE IF NOT EXISTS kept (round int)`)
				execute(t, dsn, fmt.Sprintf(`INSERT INTO kept VALUES (%d)`, round))
				if got, want := query(t, dsn, `SELECT count(*)::text FROM kept`), strconv.Itoa(round); got != want {
					t.Fatalf("after %d kills: got %s rows, want %s", round-1, got, want)
				}
				if err := helper.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			// Nothing is left behind by the last kill either.
			data, err := filepath.Glob(filepath.Join(dir, "pg*", "postmaster.pid"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range data {
				awaitGone(t, file)
			}
		})
	}
}

// awaitGone waits until a file is removed.
func awaitGone(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(name); os.IsNotExist(err) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s is still there", name)
		}
	}
}
