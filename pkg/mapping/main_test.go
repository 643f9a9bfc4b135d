package mapping

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if served, code := ServeIfChild(); served {
		os.Exit(code)
	}
	os.Exit(m.Run())
}
