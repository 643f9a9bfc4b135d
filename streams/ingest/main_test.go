package ingest_test

import (
	"testing"

	"github.com/offerlog/offerlog/pkg/mapping"
	"github.com/offerlog/offerlog/streams/rig"
)

func TestMain(m *testing.M) {
	rig.Main(m, func() bool { served, _ := mapping.ServeIfChild(); return served })
}
