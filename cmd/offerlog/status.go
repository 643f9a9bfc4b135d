package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/streams"
)

func (a *app) statusCommand() *cobra.Command {
	patience := time.Minute
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print how far each stage has come, what its workers found when they started, what is halted and what waits in quarantine",
		Long: "Prints a line for each partition that ingest or the projector reads: the next offset, the log's end and the lag, the last\n" +
			"number that its lane has given to an event, and the last that the relay has published. The projector's are of the active\n" +
			"generation. Then the starts: what the worker that has a lane now found when it took it over, and of the last 32 starts of each lane\n" +
			"those after a worker that had died. Recognized is what that one had committed without anybody hearing of it, which is not done\n" +
			"again; redone what stood behind its checkpoint, of which the new one has done so much by now. A start is complete where all that\n" +
			"was there is done and nothing waits; stalled where something has waited longer than --patience, nothing was committed for as long\n" +
			"and the worker has not said that it leaves. Then the open entries of quarantine, of all tenants.",
		Example: "  offerlog status\n  offerlog status --json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context(), patience) },
	}
	cmd.Flags().DurationVar(&patience, "patience", patience, "how long what waits may wait until its worker counts as stalled")
	return cmd
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

func (a *app) status(ctx context.Context, patience time.Duration) error {
	in, err := a.lookInto(ctx)
	if err != nil {
		return err
	}
	defer in.close()
	positions, err := in.positions(ctx, []string{streams.Commands, streams.Deliveries})
	if err != nil {
		return err
	}
	starts, err := in.starts(ctx, positions, patience)
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
	if err == nil && len(starts) > 0 {
		a.space()
		err = show(a, "STARTS\tPARTITION\tWORKER\tAT\tAFTER\tRECOGNIZED\tREDONE\tOF\tRESULT\tSTATE", starts, func(s start) string {
			return cells(s.Stage, fmt.Sprintf("%s/%d", s.Topic, s.Partition), s.Worker, s.StartedAt.UTC().Format(time.RFC3339), s.Predecessor,
				decimal(s.Recognized), decimal(s.Redone), decimal(s.ToRedo), strings.Join(s.Results, ", "), s.State)
		})
	}
	if err != nil || len(open) == 0 {
		return err
	}
	a.space()
	return show(a, "QUARANTINE\tOPEN", open, func(s setAside) string { return cells(s.Reason, decimal(s.Open)) })
}

// space is an empty line between two tables.
func (a *app) space() {
	if !a.json {
		fmt.Fprintln(a.stdout)
	}
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
