package gateway

import (
	"net/http"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/pkg/token"
	"github.com/offerlog/offerlog/streams"
)

// A Receipt is what became of a delivery: the attempt that stands, which is the accepted one, or the latest where none is
// accepted yet, with the fields of offerlog deliveries --json; and all attempts, the oldest first.
type Receipt struct {
	receipt.Document
	History []receipt.Document `json:"history"`
}

// receipt answers what became of a delivery of the bearer's tenant, by its replay key or its id.
func (s *Stage) receipt(w http.ResponseWriter, r *http.Request, who token.Bearer, key string) error {
	none := problem(codeNoDelivery, "one that was sent just now has no outcome yet: ask again in a moment")
	id, err := uuid.Parse(key)
	if err != nil {
		k, err := offer.ParseReplayKey(key)
		if err != nil || k.Tenant != who.Tenant {
			return none // another tenant's is as unknown as one that nobody has
		}
		id = uuid.UUID(k.ID())
	}
	var attempts []receipt.Document
	err = postgres.AsTenant(r.Context(), s.pool, postgres.Audit, who.Tenant, func(tx pgx.Tx) (err error) {
		attempts, err = receipt.Of(r.Context(), tx, offer.DeliveryID(id))
		return err
	})
	if err != nil {
		return err
	}
	// Commands have receipts too. They are decisions, and a publisher's deliveries are not among them.
	if len(attempts) == 0 || attempts[0].Topic == streams.Commands && !who.Role.May(token.Decide) {
		return none
	}
	stands := attempts[len(attempts)-1]
	for _, a := range attempts {
		if a.Outcome == offer.Accepted {
			stands = a
		}
	}
	writeJSON(w, http.StatusOK, "application/json", Receipt{stands, attempts})
	return nil
}
