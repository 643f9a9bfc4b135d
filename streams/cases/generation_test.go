package cases

import (
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/view"
	"github.com/offerlog/offerlog/streams/project"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

var caseOperator = project.Command{Actor: "case", Reason: "a step"}

func (s *scene) operatorBuildsGeneration(st *step) {
	s.ensure("relay", pipeline.Relay)
	s.ensure("projector", pipeline.Project)
	s.p.SettleOffers()
	id, err := project.Make(s.t.Context(), s.p.Pool, caseOperator)
	if err == nil {
		err = project.Fill(s.t.Context(), s.p.Pool, id, func(int) {})
	}
	if err == nil {
		_, err = project.Finish(s.t.Context(), s.p.Pool, id)
	}
	if err != nil {
		s.t.Fatalf("step %d: %v", st.n, err)
	}
	s.built[st.text("name")] = id
}

func (s *scene) operatorVerifies(st *step) {
	p, err := project.Prove(s.t.Context(), s.p.Pool, s.built[st.text("name")])
	if err == nil {
		err = p.Err()
	}
	s.final.step["verify"] = "ok"
	if err != nil {
		s.final.step["verify"] = err.Error()
	}
}

func (s *scene) operatorSwitches(st *step) {
	to := s.built[st.text("to")]
	var before, after offer.Digest
	var active int
	digest := func(generation int) (d offer.Digest, err error) {
		err = postgres.InTx(s.t.Context(), s.p.Pool, postgres.Project, func(tx pgx.Tx) error {
			if active, err = view.Active(s.t.Context(), tx); err != nil {
				return err
			}
			d, err = view.Digest(s.t.Context(), tx, generation)
			return err
		})
		return d, err
	}
	_, err := digest(to)
	if err == nil {
		before, err = digest(active)
	}
	if err == nil {
		_, err = project.Switch(s.t.Context(), s.p.Pool, to, caseOperator)
	}
	if err == nil {
		after, err = digest(to)
	}
	if err != nil {
		s.t.Fatalf("step %d: %v", st.n, err)
	}
	s.final.step["pointer"] = "another generation"
	if active == to {
		s.final.step["pointer"] = st.text("to")
	}
	s.final.step["digest_equal_to_previous"] = before == after
}
