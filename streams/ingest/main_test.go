package ingest_test

import (
	"testing"

	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

func TestMain(m *testing.M) { pipeline.Main(m) }
