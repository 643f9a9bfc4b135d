package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/offerlog/offerlog/pkg/archive"
	"github.com/offerlog/offerlog/pkg/lane"
	"github.com/offerlog/offerlog/pkg/offer"
	"github.com/offerlog/offerlog/pkg/postgres"
	"github.com/offerlog/offerlog/pkg/receipt"
)

func (a *app) artifactCommand() *cobra.Command {
	var file string
	get := &cobra.Command{
		Use:   "get KEY|PLACE",
		Short: "Write exactly the bytes that a supplier sent",
		Long: "Writes the payload of a delivery as it came, decrypted and held against its SHA-256. KEY is a replay key or a delivery's id\n" +
			"and means the accepted attempt, or the newest refused one; PLACE is topic/partition/offset, and /item in a batch. Only\n" +
			"auditors may read payloads.",
		Example: "  offerlog artifact get demo/acme-eu/ACC-1/%2Facme-eu%2Fexport/EXP-8821%2F2 -o export.json\n" +
			"  offerlog artifact get deliveries/3/1042 | sha256sum",
		Args: oneArg("KEY or PLACE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var found receipt.Document
			find := func(tx pgx.Tx) (_ *receipt.Evidence, err error) {
				found, err = a.findEvidence(cmd.Context(), tx, args[0])
				return found.Artifact, err
			}
			return a.readEvidence(cmd.Context(), find, func(c *archive.Content) error {
				if err := a.writeContent(c, file); err != nil {
					return err
				}
				fmt.Fprintf(a.stderr, "%d bytes, sha256 %s, retrieved at %s\n", c.Length, c.Sum, found.RetrievedAt)
				return nil
			})
		},
	}
	get.Flags().StringVarP(&file, "output", "o", "", "write to this file, whole or not at all (default: standard output)")
	return group("artifact", "Read the evidence", get)
}

// findEvidence returns the attempt that a key or a place means, which has a payload.
func (a *app) findEvidence(ctx context.Context, tx pgx.Tx, what string) (receipt.Document, error) {
	var (
		attempts []receipt.Document
		err      error
	)
	if topic, position, item, ok := parsePlace(what); ok {
		attempts, err = at(ctx, tx, topic, position, item)
	} else {
		var id offer.DeliveryID
		if id, err = parseDelivery(what); err == nil {
			attempts, err = receipt.Of(ctx, tx, id)
		}
	}
	if err != nil {
		return receipt.Document{}, err
	}
	var best *receipt.Document
	for i := range attempts { // the oldest first
		if d := &attempts[i]; d.Artifact != nil && (best == nil || best.Outcome != offer.Accepted) {
			best = d
		}
	}
	if best == nil {
		return receipt.Document{}, &exitError{exitNotFound, "no_payload", "run offerlog deliveries for what there is",
			fmt.Errorf("tenant %s has no payload of %s", a.settings.Tenant, what)}
	}
	return *best, nil
}

// parsePlace reads topic/partition/offset or topic/partition/offset/item; without an item it means all of a record.
func parsePlace(s string) (topic string, p receipt.Position, item int, ok bool) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 && len(parts) != 4 {
		return "", p, 0, false
	}
	partition, err := strconv.ParseInt(parts[1], 10, 32)
	offset, errOffset := strconv.ParseInt(parts[2], 10, 64)
	item = -1
	var errItem error
	if len(parts) == 4 {
		item, errItem = strconv.Atoi(parts[3])
	}
	return parts[0], receipt.Position{Partition: int32(partition), Offset: offset}, item, errors.Join(err, errOffset, errItem) == nil
}

// at returns the attempts at a place.
func at(ctx context.Context, tx pgx.Tx, topic string, p receipt.Position, item int) ([]receipt.Document, error) {
	lanes, err := lane.List(ctx, tx, lane.Input, topic)
	if err != nil || len(lanes) == 0 {
		return nil, err
	}
	p.TopicID = lanes[0].TopicID
	list, err := receipt.At(ctx, tx, []receipt.Position{p})
	if err != nil || item < 0 {
		return list, err
	}
	for _, d := range list {
		if d.Item == item {
			return []receipt.Document{d}, nil
		}
	}
	return nil, nil
}

// readEvidence opens the payload that find names, for an auditor of the settings' tenant, and has it read: what read gets is
// verified to where it has read, and whole if it comes to the end without an error.
func (a *app) readEvidence(ctx context.Context, find func(tx pgx.Tx) (*receipt.Evidence, error), read func(c *archive.Content) error) error {
	a.findDev()
	pool, err := a.openTenant(ctx, postgres.Audit)
	if err != nil {
		return err
	}
	defer pool.Close()
	ring, err := a.openKeyring()
	if err != nil {
		return err
	}
	store, err := a.openStore(a.settings.Archive)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // it was only read
	var c *archive.Content
	err = postgres.AsTenant(ctx, pool, postgres.Audit, a.settings.Tenant, func(tx pgx.Tx) error {
		e, err := find(tx)
		if err != nil {
			return err
		}
		if e.State != "stored" {
			return &exitError{exitNotFound, "artifact_" + e.State, "its digest and length stand in offerlog deliveries; why it is gone, in audit_v1.pruning",
				fmt.Errorf("the payload is %s: it cannot be read any more", e.State)}
		}
		c, err = archive.New(store, archive.NewPostgresKeys(tx, ring)).
			Open(ctx, a.settings.Tenant, archive.Ref{Name: e.Object, KeyID: e.KeyID}, e.Offset, e.Item)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // it was only read
	if err := read(c); err != nil {
		return fmt.Errorf("write the payload: %w", err)
	}
	return nil
}

// writeContent writes a payload to a file, which it puts in place when all of it is verified, or to standard output.
func (a *app) writeContent(c *archive.Content, file string) error {
	if file == "" {
		_, err := io.Copy(a.stdout, c)
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), ".artifact-*") // mode 0600: payloads are private
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // after the rename it is not there
	_, err = io.Copy(temp, c)
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), file)
}
