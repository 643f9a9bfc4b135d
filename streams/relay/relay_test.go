package relay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/offerlog/offerlog/streams"
)

func TestEachEventIsPublishedOnceInTheOrderOfItsLane(t *testing.T) {
	onBothBrokers(t, func(t *testing.T, w *world) {
		w.addLanes(4)
		w.start(Config{MaxEvents: 7}) // so that transactions end inside of ranges
		for i := range 20 {
			for _, l := range w.lanes {
				w.store(l, []string{"o", "ossso", strings.Repeat("o", 30), "cocbc", "c"}[(i+l)%5])
			}
		}
		w.settle()
		w.verify()
		cursors := w.cursors()
		for _, l := range w.lanes {
			got, want := cursors[fmt.Sprint(l)], fmt.Sprintf(`{"lane":%d,"published":%d}`, l, len(w.stored[l]))
			if got != want {
				t.Errorf("cursor of lane %d: got %s, want %s", l, got, want)
			}
		}
		_ = streams.Observations
	})
}
