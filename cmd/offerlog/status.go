package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
)

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Print how far each stage has come, what is halted and what waits in quarantine",
		Long: "Prints a line for each partition that ingest or the projector reads: the next offset, the log's end and the lag, the last\n" +
			"number that its lane has given to an event, and the last that the relay has published. The projector's are of the active\n" +
			"generation. Then the open entries of quarantine, of all tenants.",
		Example: "  offerlog status\n  offerlog status --json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context()) },
	}
}

// lookInto opens the servers of the settings, or of a running dev, to look at them.
func (a *app) lookInto(ctx context.Context) (_ *installation, err error) {
	a.findDev()
	in := &installation{app: a}
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	if in.kafka, err = a.openKafka(ctx); err != nil {
		return nil, err
	}
	in.undo = append(in.undo, in.kafka.Close)
	if in.pool, err = a.openPostgres(ctx); err != nil {
		return nil, err
	}
	in.undo = append(in.undo, in.pool.Close)
	return in, checkRoles(ctx, in.pool, []postgres.Role{postgres.Inspect})
}

// A standing is where a stage stands in one partition.
type standing struct {
	Kind      string `json:"kind"` // position
	Stage     string `json:"stage"`
	Topic     string `json:"topic"` // by its own name
	Partition int32  `json:"partition"`
	Next      int64  `json:"next"`      // the first offset that is not done
	End       int64  `json:"end"`       // of the log, with open transactions
	Lag       int64  `json:"lag"`       // offsets, marks of transactions among them
	Sequence  int64  `json:"sequence"`  // the last number that the lane has given
	Published int64  `json:"published"` // of them
	Halt      string `json:"halt,omitempty"`
}

// A setAside counts open entries of quarantine.
type setAside struct {
	Kind   string `json:"kind"` // quarantine
	Reason string `json:"reason"`
	Open   int64  `json:"open"`
}

func (a *app) status(ctx context.Context) error {
	in, err := a.lookInto(ctx)
	if err != nil {
		return err
	}
	defer in.close()
	positions, err := in.positions(ctx, []string{streams.Commands, streams.Deliveries})
	if err != nil {
		return err
	}
	open, err := in.openQuarantine(ctx)
	if err != nil {
		return err
	}
	err = show(a, "STAGE\tPARTITION\tNEXT\tEND\tLAG\tSEQUENCE\tPUBLISHED\tHALT", positions, func(s standing) string {
		return cells(s.Stage, fmt.Sprintf("%s/%d", s.Topic, s.Partition), decimal(s.Next), decimal(s.End), decimal(s.Lag), decimal(s.Sequence),
			decimal(s.Published), s.Halt)
	})
	if err != nil || len(open) == 0 {
		return err
	}
	if !a.json {
		fmt.Fprintln(a.stdout)
	}
	return show(a, "QUARANTINE\tOPEN", open, func(s setAside) string { return cells(s.Reason, decimal(s.Open)) })
}

// positions says where ingest stands in each partition of inputs, and of other topics that it has read, and the projector
// in each of observations. PostgreSQL is asked before Kafka: an end that grows meanwhile counts as lag, which it is.
func (in *installation) positions(ctx context.Context, inputs []string) ([]standing, error) {
	var list []standing
	err := inspect(ctx, in.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			WITH at AS (
			    SELECT $1::text AS stage, p.topic, p.partition, p.next, p.lane, p.sequence
			      FROM audit_v1.position AS p
			     WHERE p.kind = 'input' AND p.retired_at IS NULL
			     UNION ALL
			    SELECT $2, $3::text, c.partition, c.next, c.lane, p.sequence
			      FROM audit_v1.checkpoint AS c
			      JOIN audit_v1.generation AS g ON g.id = c.generation AND g.active
			      JOIN audit_v1.position AS p ON p.lane = c.lane)
			SELECT a.stage, a.topic, a.partition, a.next, a.sequence, coalesce(r.published_seq, 0),
			       coalesce((SELECT string_agg(h.reason || coalesce(' ' || h.from_offset || ' to ' || h.to_offset, ''), ', ' ORDER BY h.reason)
			                   FROM audit_v1.halt AS h
			                  WHERE h.lane = a.lane), '')
			  FROM at AS a
			  LEFT JOIN audit_v1.relay AS r ON r.lane = a.lane`, roleIngest, roleProject, streams.Observations)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s standing, err error) {
			s.Kind = "position"
			err = row.Scan(&s.Stage, &s.Topic, &s.Partition, &s.Next, &s.Sequence, &s.Published, &s.Halt)
			return s, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read positions: %w", err)
	}
	type place struct {
		stage, topic string
		partition    int32
	}
	known := map[place]standing{}
	for _, s := range list {
		known[place{s.Stage, s.Topic, s.Partition}] = s
		if s.Stage == roleIngest {
			inputs = append(inputs, s.Topic)
		}
	}
	inputs = slices.Compact(slices.Sorted(slices.Values(inputs)))
	var all []standing
	for _, topic := range append(inputs, streams.Observations) {
		stage := roleIngest
		if topic == streams.Observations {
			stage = roleProject
		}
		t, err := kafka.Describe(ctx, in.kafka, in.app.settings.Cluster().Topic(topic), false)
		if err != nil {
			return nil, err
		}
		for p := range t.Ends {
			at := place{stage, topic, int32(p)}
			s, ok := known[at]
			if !ok { // no stage has ever read it
				s = standing{Kind: "position", Stage: stage, Topic: topic, Partition: at.partition, Next: t.Starts[p]}
			}
			s.End, s.Lag = t.Ends[p], max(0, t.Ends[p]-s.Next)
			all = append(all, s)
		}
	}
	return all, nil
}

func (in *installation) openQuarantine(ctx context.Context) (list []setAside, err error) {
	err = inspect(ctx, in.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT 'quarantine', q.reason, count(*) FROM audit_v1.quarantine AS q WHERE q.state = 'open' GROUP BY q.reason ORDER BY q.reason`)
		if err == nil {
			list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[setAside])
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count the quarantine: %w", err)
	}
	return list, nil
}

// shortOf names the positions that are short of something, and of what.
func shortOf(positions []standing) string {
	var short []string
	for _, s := range positions {
		at := fmt.Sprintf("%s/%d", s.Topic, s.Partition)
		if s.Lag > 0 {
			short = append(short, fmt.Sprintf("%s of %s is at offset %d of %d", s.Stage, at, s.Next, s.End))
		}
		if s.Published < s.Sequence {
			short = append(short, fmt.Sprintf("relay has published %d of %d events of %s", s.Published, s.Sequence, at))
		}
		if s.Halt != "" {
			short = append(short, fmt.Sprintf("%s is halted (%s)", at, s.Halt))
		}
	}
	if len(short) == 0 {
		return "by now nothing is short"
	}
	return strings.Join(short, "; ")
}
