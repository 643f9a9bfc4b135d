package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/quarantine"
	"github.com/offerlog/offerlog/pkg/receipt"
	"github.com/offerlog/offerlog/streams"
)

func (a *app) quarantineCommand() *cobra.Command {
	var f quarantine.Filter
	list := &cobra.Command{
		Use:     "list",
		Short:   "Print what was set aside, the newest first",
		Example: "  offerlog quarantine list --open\n  offerlog quarantine list --reason replay_payload_mismatch --json\n  offerlog quarantine list --tenant _system",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLimit(f.Limit); err != nil {
				return err
			}
			return a.listQuarantine(cmd.Context(), f)
		},
	}
	list.Flags().StringVar(&f.Reason, "reason", "", "only with this reason")
	list.Flags().StringVar(&f.Detail, "detail", "", "only with this detail")
	list.Flags().StringVar(&f.Feed, "feed", "", "only of this feed")
	list.Flags().BoolVar(&f.Open, "open", false, "only what waits for a decision")
	list.Flags().IntVar(&f.Limit, "limit", 100, "at most so many")
	var payload, diff bool
	one := &cobra.Command{
		Use:   "show ID",
		Short: "Print an entry, and what it contradicts",
		Long: "Prints an entry with its fingerprint and, where it contradicts an accepted delivery, the fingerprint and the place of that\n" +
			"one. --payload writes the bytes that were set aside to standard output, and nothing else: they are the supplier's, and are\n" +
			"read from the archive, so --archive and --archive-key-file must name it.",
		Example: "  offerlog quarantine show 6f9619ff-8b86-8d01-b42d-00c04fc964ff\n  offerlog quarantine show 6f9619ff-8b86-8d01-b42d-00c04fc964ff --payload >page.json",
		Args:    oneArg("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := uuid.Parse(args[0])
			if err != nil {
				return usage("run offerlog quarantine list for the ids", "%q is no id of an entry", args[0])
			}
			if payload {
				return a.writePayload(cmd.Context(), id)
			}
			return a.showQuarantined(cmd.Context(), id, diff)
		},
	}
	one.Flags().BoolVar(&diff, "diff", false, "compare it with the payload that it contradicts: bytes, rows, how each was fetched, and what that hints at")
	one.Flags().BoolVar(&payload, "payload", false, "write the payload, decrypted, to standard output")
	return group("quarantine", "Look at what was set aside, and decide about it", list, one,
		a.decideCommand("release", "Send what was set aside through ingest again", streams.QuarantineReleaseType,
			"A delivery that was refused claims again under its own id: release it once its cause is mended. What contradicts an accepted\n"+
				"delivery, and a single row, becomes a correction: a delivery with the id of the one that it corrects and ;release=N behind it,\n"+
				"which takes the place of what it contradicts. Nothing that was accepted is changed or removed."),
		a.decideCommand("reject", "Leave what was set aside where it is, for good", streams.QuarantineRejectType,
			"The evidence stays, with the decision. Another copy of the same payload opens no new entry."))
}

// A quarantined is an entry as it is printed.
type quarantined struct {
	ID               string                 `json:"id"`
	Tenant           string                 `json:"tenant"`
	Feed             string                 `json:"feed,omitempty"`
	State            string                 `json:"state"` // open | resolved
	Reason           string                 `json:"reason"`
	Detail           string                 `json:"detail,omitempty"`
	Message          string                 `json:"message,omitempty"`
	Row              int                    `json:"row,omitempty"` // from 1; absent: the delivery as a whole
	Line             int                    `json:"line,omitempty"`
	Column           int                    `json:"column,omitempty"`
	Path             string                 `json:"path,omitempty"`
	Delivery         string                 `json:"delivery,omitempty"`
	EventSource      string                 `json:"event_source,omitempty"`
	EventID          string                 `json:"event_id,omitempty"`
	Fingerprint      string                 `json:"fingerprint,omitempty"`
	Canonicalization string                 `json:"canonicalization,omitempty"`
	Content          *offer.Content         `json:"content,omitempty"`     // of a row in conflict: what it claimed
	Observation      string                 `json:"observation,omitempty"` // of a row in conflict: what it contradicts
	RecordedAt       string                 `json:"recorded_at"`
	Decisions        []decidedEntry         `json:"decisions,omitempty"`
	Difference       *quarantine.Comparison `json:"difference,omitempty"` // of a mismatch, where it was asked for
	Contexts         []fetched              `json:"contexts,omitempty"`   // of a mismatch: how the first was fetched, and the second
	Event            *receipt.Document      `json:"event,omitempty"`      // the first copy, with its artifact
	Original         *receipt.Document      `json:"original,omitempty"`   // of a mismatch: the delivery that was accepted under the id
}

func newQuarantined(e *quarantine.Entry) quarantined {
	q := quarantined{ID: e.ID.String(), Tenant: e.Tenant, Feed: e.Feed, State: e.State, Reason: e.Fault.Reason, Detail: e.Fault.Detail,
		Message: e.Fault.Message, Row: e.Fault.Row, Line: e.Fault.Line, Column: e.Fault.Column, Path: e.Fault.Path, EventSource: e.EventSource,
		EventID: e.EventID, Canonicalization: e.Fingerprint.Canonicalization, Content: e.Content, RecordedAt: offer.TimeOf(e.RecordedAt).Text}
	if q.Canonicalization != "" {
		q.Fingerprint = e.Fingerprint.Digest.String()
	}
	if e.Delivery != nil {
		q.Delivery = e.Delivery.String()
	}
	if e.Observation != nil {
		q.Observation = e.Observation.String()
	}
	return q
}

func (a *app) listQuarantine(ctx context.Context, f quarantine.Filter) error {
	var entries []quarantined
	err := a.asTenant(ctx, postgres.Audit, func(tx pgx.Tx) error {
		found, err := quarantine.List(ctx, tx, f)
		for i := range found {
			entries = append(entries, newQuarantined(&found[i]))
		}
		return err
	})
	if err != nil {
		return err
	}
	a.atMost(len(entries), f.Limit)
	return show(a, "ID\tREASON\tDETAIL\tFEED\tEVENT ID\tROW\tSTATE\tRECORDED\tMESSAGE", entries, func(q quarantined) string {
		row := ""
		if q.Row > 0 {
			row = decimal(int64(q.Row))
		}
		return cells(q.ID, q.Reason, q.Detail, q.Feed, q.EventID, row, q.State, second(q.RecordedAt), q.Message)
	})
}

func (a *app) showQuarantined(ctx context.Context, id uuid.UUID, diff bool) error {
	var q quarantined
	err := a.asTenant(ctx, postgres.Audit, func(tx pgx.Tx) error {
		e, event, err := a.quarantined(ctx, tx, id)
		if err != nil {
			return err
		}
		q = newQuarantined(&e)
		q.Event = &event
		decisions, err := quarantine.Decisions(ctx, tx, id)
		if err != nil {
			return err
		}
		for i := range decisions {
			q.Decisions = append(q.Decisions, newDecidedEntry(&decisions[i]))
		}
		if e.Fault.Reason != offer.ReasonReplayPayloadMismatch {
			return nil
		}
		attempts, err := receipt.Of(ctx, tx, *e.Delivery)
		for i := range attempts {
			if attempts[i].Outcome == offer.Accepted {
				q.Original = &attempts[i]
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	if q.Original != nil && diff {
		if err := a.compareQuarantined(ctx, &q); err != nil {
			return err
		}
	}
	if a.json {
		return show(a, "", []quarantined{q}, nil)
	}
	fault := offer.Fault{Reason: q.Reason, Detail: q.Detail, Message: q.Message, Row: q.Row, Line: q.Line, Column: q.Column, Path: q.Path}
	lines := []line{{"tenant", q.Tenant}, {"feed", q.Feed}, {"state", q.State}, {"because", fault.Error()},
		{"event", q.Event.Where()}, {"source", q.EventSource}, {"id", q.EventID}, {"recorded", q.RecordedAt}}
	if q.Canonicalization != "" {
		lines = append(lines, line{"fingerprint", q.Canonicalization + ":" + q.Fingerprint})
	}
	if art := q.Event.Artifact; art != nil {
		lines = append(lines, line{"artifact", fmt.Sprintf("%s, entry %d/%d, %d bytes", art.Object, art.Offset, art.Item, art.Length)})
	}
	if o := q.Original; o != nil {
		lines = append(lines, line{"original", o.Where() + ", accepted " + o.RecordedAt},
			line{"", o.Canonicalization + ":" + o.Fingerprint}, line{"", fmt.Sprintf("%d observations, unchanged", len(o.Observations))})
	}
	if q.Content != nil {
		content, err := json.Marshal(q.Content)
		if err != nil {
			return fmt.Errorf("print: %w", err)
		}
		lines = append(lines, line{"claimed", string(content)}, line{"contradicts", "observation " + q.Observation})
	}
	for _, d := range q.Decisions {
		lines = append(lines, line{d.Verdict, fmt.Sprintf("%s by %s: %s (command %s)%s", d.RecordedAt, cmp.Or(d.Actor, "nobody named"), d.Reason, d.Command, d.as())})
	}
	lines = append(lines, differenceLines(&q)...)
	if q.Original != nil && q.Difference == nil {
		lines = append(lines, line{"difference", "with --diff, which reads both payloads from the archive"})
	}
	return a.showLines("ENTRY\t"+q.ID, lines)
}

// quarantined reads an entry and the event that it was made for.
func (a *app) quarantined(ctx context.Context, tx pgx.Tx, id uuid.UUID) (e quarantine.Entry, event receipt.Document, err error) {
	found, err := quarantine.List(ctx, tx, quarantine.Filter{ID: &id, Limit: 1})
	if err != nil {
		return e, event, err
	}
	if len(found) == 0 {
		return e, event, &exitError{exitNotFound, "no_entry", "run offerlog quarantine list for those that there are; another tenant's are not shown",
			fmt.Errorf("tenant %s has no entry %s in quarantine", a.settings.Tenant, id)}
	}
	e = found[0]
	event, err = receipt.In(ctx, tx, receipt.Place{Lane: e.Lane, Offset: e.Offset, Item: e.Item})
	return e, event, err
}

// writePayload writes the bytes of an entry.
func (a *app) writePayload(ctx context.Context, id uuid.UUID) error {
	return a.readEvidence(ctx, func(tx pgx.Tx) (*receipt.Evidence, error) {
		_, event, err := a.quarantined(ctx, tx, id)
		if err == nil && event.Artifact == nil {
			err = &exitError{exitNotFound, "no_payload", "run offerlog quarantine show " + id.String() + " for what is known of it",
				fmt.Errorf("entry %s came without a payload, or the payload is that of an earlier copy", id)}
		}
		return event.Artifact, err
	}, func(c *archive.Content) error {
		_, err := io.Copy(a.stdout, c)
		return err
	})
}

// oneArg wants exactly one argument, called name.
func oneArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage("run "+cmd.CommandPath()+" --help", "%s takes one %s, got %d arguments", cmd.CommandPath(), name, len(args))
		}
		return nil
	}
}
