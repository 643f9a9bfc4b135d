package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/delivery"
	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams"
	"github.com/offerlog/offerlog/streams/ingest"
)

func (a *app) adoptCommand() *cobra.Command {
	var (
		d       decision
		dryRun  bool
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "adopt TOPIC PARTITION",
		Short: "Let a halted partition go on without what its log does not hold",
		Long: "A partition of an input topic halts where its log does not hold what comes next. Nothing is skipped in silence: it goes on\n" +
			"only by this decision, which is kept with the range, who decided and why.\n\n" +
			"  log_gap          goes on where the log begins; what stood before it is gone\n" +
			"  log_truncated    goes on where it stands, once the log has grown to there again; records that the log holds under\n" +
			"                   offsets that were read before are not read: publish them again, repeats are known by their ids\n" +
			"  topic_recreated  all partitions of the topic go on with the new topic, from its log start\n\n" +
			"Workers that have the partition go on by themselves. Of commands themselves, which cannot be read, the decision is written\n" +
			"into the database and the archive directly.",
		Example: "  offerlog adopt deliveries 3 --dry-run\n  offerlog adopt deliveries 3 --reason \"retention was too short, ticket 4411\"",
		Args:    cobra.MatchAll(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			partition, err := strconv.ParseInt(args[1], 10, 32)
			if err != nil {
				return usage("run offerlog status for the partitions", "%q is no partition", args[1])
			}
			if !dryRun {
				if err := d.needReason(); err != nil {
					return err
				}
			}
			ctx, cancel := withTimeout(cmd.Context(), timeout)
			defer cancel()
			return a.adopt(ctx, args[0], int32(partition), d, dryRun)
		},
	}
	d.flags(cmd, &timeout)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only print what would be adopted")
	return cmd
}

// An adoption is what a partition goes on without.
type adoption struct {
	Topic     string `json:"topic"` // by its own name
	Partition int32  `json:"partition"`
	Halt      string `json:"halt"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`                // exclusive
	Command   string `json:"command,omitempty"` // the event's id; absent: nothing was decided
}

func (a *app) adopt(ctx context.Context, topic string, partition int32, d decision, dryRun bool) error {
	a.settings.Tenant = offer.SystemTenant // partitions are no tenant's
	a.findDev()
	cl, err := a.openKafka(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	pool, err := a.openTenant(ctx, postgres.Audit)
	if err != nil {
		return err
	}
	defer pool.Close()
	var halted lane.Lane
	err = postgres.AsTenant(ctx, pool, postgres.Audit, offer.SystemTenant, func(tx pgx.Tx) (err error) {
		halted, err = findHalted(ctx, tx, topic, partition)
		return err
	})
	if err != nil {
		return err
	}
	if halted.HaltReason == lane.LogTruncated {
		t, err := kafka.Describe(ctx, cl, a.settings.Cluster().Topic(topic), false)
		if err != nil {
			return err
		}
		if end := t.Ends[partition]; end < halted.Next {
			return &exitError{exitConflict, "log_too_short", "try again once it has grown, or make the topic again and adopt that",
				fmt.Errorf("the log of %s/%d ends at offset %d, before offset %d, where the partition would go on", topic, partition, end, halted.Next)}
		}
	}
	result := adoption{Topic: topic, Partition: partition, Halt: halted.HaltReason, From: halted.HaltFrom, To: halted.HaltTo}
	if !dryRun {
		payload, err := json.Marshal(ingest.LaneAdopt{Topic: topic, Partition: partition, Halt: result.Halt, From: result.From, To: result.To})
		if err != nil {
			return fmt.Errorf("write the command: %w", err)
		}
		if topic == streams.Commands {
			result.Command, err = a.adoptCommands(ctx, halted.TopicID, payload, d)
		} else {
			var doc receipt.Document
			doc, err = sendCommand(ctx, cl, a.settings.Cluster(), pool, offer.SystemTenant, streams.LaneAdoptType, payload, d)
			result.Command = doc.EventID
		}
		if err != nil {
			return err
		}
	}
	return show(a, "PARTITION\tHALT\tFROM\tTO\tCOMMAND", []adoption{result}, func(r adoption) string {
		return cells(fmt.Sprintf("%s/%d", r.Topic, r.Partition), r.Halt, decimal(r.From), decimal(r.To), r.Command)
	})
}

func findHalted(ctx context.Context, tx pgx.Tx, topic string, partition int32) (lane.Lane, error) {
	lanes, err := lane.List(ctx, tx, lane.Input, topic)
	if err != nil {
		return lane.Lane{}, err
	}
	i := slices.IndexFunc(lanes, func(l lane.Lane) bool { return l.Partition == partition })
	if i < 0 {
		return lane.Lane{}, &exitError{exitNotFound, "no_partition", "run offerlog status for those that are",
			fmt.Errorf("%s/%d was never read", topic, partition)}
	}
	if lanes[i].HaltReason == "" {
		return lane.Lane{}, &exitError{exitConflict, "not_halted", "run offerlog status for what is halted",
			fmt.Errorf("%s/%d is not halted: there is nothing to adopt", topic, partition)}
	}
	return lanes[i], nil
}

// adoptCommands decides without the topic, and returns the id of the command that it would have carried.
func (a *app) adoptCommands(ctx context.Context, topicID uuid.UUID, payload []byte, d decision) (string, error) {
	id := uuid.NewString()
	rec, err := commandEvent(id, offer.SystemTenant, streams.LaneAdoptType, payload, d)
	if err != nil {
		return "", err
	}
	pool, err := a.openTenant(ctx, postgres.Ingest)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	arch, files, err := a.openArchive(pool)
	if err != nil {
		return "", err
	}
	defer func() { _ = files.Close() }() // what was written is synced
	return id, ingest.AdoptCommands(ctx, pool, arch, topicID, &delivery.Decode(rec)[0].Event)
}
