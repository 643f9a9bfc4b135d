package history_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/pkg/offer"
)

func TestADocumentSaysWhetherTheOfferIsDeletedEitherWay(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		o := history.New("acme-eu", offer.Key{Tenant: "t1", Account: "ACC-1", Record: "A"}, 1, offer.DeliveryID{}, false,
			&offer.Row{Number: 1, Record: "A", ObservedAt: offer.TimeOf(time.Unix(0, 0)), Content: offer.Content{Deleted: deleted}})
		e := history.Event{Observation: o}
		b, err := e.Body()
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]any
		if err := json.Unmarshal(b, &members); err != nil {
			t.Fatal(err)
		}
		if members["deleted"] != deleted {
			t.Errorf("got deleted %v, want %v: %s", members["deleted"], deleted, b)
		}
	}
}
