package cases

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
	"github.com/offerlog/offerlog/streams/rig/pipeline"
)

// databaseStoresNextOffset moves a partition on, as a worker does that has stored what stands before.
func (s *scene) databaseStoresNextOffset(st *step) {
	ctx := s.t.Context()
	s.register(ctx)
	err := postgres.InTx(ctx, s.p.Pool, postgres.Ingest, func(tx pgx.Tx) error {
		lanes, err := lane.List(ctx, tx, lane.Input, streams.Deliveries)
		if err != nil {
			return err
		}
		l := lanes[st.int("partition")]
		held, err := lane.Lock(ctx, tx, []lane.Span{{Lane: l.ID, From: l.Next, To: int64(st.int("next"))}})
		if err != nil {
			return err
		}
		return lane.Advance(ctx, tx, held, "case")
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// topicBeginsLater puts events behind others that the topic no longer holds.
func (s *scene) topicBeginsLater(partition int32, st *step) {
	var lost []*kgo.Record
	for range st.int("log_start") {
		lost = append(lost, &kgo.Record{Topic: streams.Deliveries, Value: []byte("lost")})
	}
	s.p.PublishTo(partition, lost...)
	at, _ := st.args["events"].(map[string]any)
	for offset := st.int("log_start"); offset < st.int("log_end"); offset++ {
		e, err := at[text(offset)].(json.Number).Int64()
		if err != nil {
			s.t.Fatal(err)
		}
		s.published[int(e)] = s.p.PublishTo(partition, s.c.events[e])[0]
	}
	before := kadm.Offsets{}
	before.Add(kadm.Offset{Topic: s.p.Cluster.Topic(streams.Deliveries), Partition: partition, At: int64(st.int("log_start"))})
	resp, err := kadm.NewClient(s.p.Client).DeleteRecords(s.t.Context(), before)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// A halt is a partition that has stopped, with the offsets that its log lacks; To is the last of them.
type halt struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Reason    string `json:"reason"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
}

func (s *scene) halts(view string) ([]halt, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), pipeline.Patience)
	defer cancel()
	var list []halt
	err := postgres.InTx(ctx, s.p.Pool, postgres.Inspect, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT p.topic, h.partition, h.reason, h.from_offset, h.to_offset - 1
		                              FROM audit_v1.`+view+` AS h JOIN audit_v1.position AS p USING (lane) ORDER BY 1, 2`)
		if err == nil {
			list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[halt])
		}
		return err
	})
	return list, err
}

// halted waits until a partition has stopped.
func (s *scene) halted() (list []halt) {
	s.p.Until("a partition to halt", func(context.Context) (_ bool, err error) {
		list, err = s.halts("halt")
		return len(list) > 0, err
	})
	return list
}

func (s *scene) operatorAdoptsGap(st *step) {
	s.gate.open()
	for _, h := range s.halted() {
		if int(h.Partition) != st.int("partition") {
			continue
		}
		data, err := json.Marshal(ingest.LaneAdopt{Topic: h.Topic, Partition: h.Partition, Halt: h.Reason, From: h.From, To: h.To + 1})
		if err == nil {
			if refusal := s.p.Command(offer.SystemTenant, streams.LaneAdoptType, data, nil); refusal != "" {
				err = errors.New(refusal)
			}
		}
		if err != nil {
			s.t.Fatal(err)
		}
		return
	}
	s.t.Fatalf("step %d: partition %d is not halted", st.n, st.int("partition"))
}
