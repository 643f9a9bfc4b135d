package archive

import (
	"context"
	_ "embed" // for the statements
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

var (
	//go:embed settled.sql
	settledSQL string
	//go:embed unneeded.sql
	unneededSQL string
)

// ErrStore reports that the store kept Collect from going on; it may let it at the next call.
var ErrStore = errors.New("the archive is out of reach")

// collectNames is how many names are looked up at once.
const collectNames = 1000

// Collect removes objects that nothing needs and nothing can need any more, a thousand at most, and returns how many: 0 when it
// has seen them all. Nothing needs an object that no row says is stored: a failed attempt left it behind, it has expired, or its
// key was destroyed. Nothing can need it once its lane has passed its first offset, since whoever would name it then is
// fenced; that is looked up first, so that a row which comes meanwhile is seen. An attempt that began at the same offset and
// ended at another one is found like any other. It runs as the janitor.
func Collect(ctx context.Context, tx pgx.Tx, s Store) (removed int, err error) {
	var names objectNames
	for name, err := range s.Names(ctx) {
		if err != nil {
			return removed, fmt.Errorf("collect objects: %w: %w", ErrStore, err)
		}
		names.add(name)
		if len(names.names) < collectNames {
			continue
		}
		if removed, err = names.collect(ctx, tx, s); err != nil || removed > 0 {
			return removed, err
		}
		names = objectNames{}
	}
	return names.collect(ctx, tx, s)
}

// objectNames are names of objects, taken apart.
type objectNames struct {
	names, tenants []string
	topics         [][16]byte
	partitions     []int32
	firsts         []int64
}

// add takes a name as Pack.Name writes it, and leaves any other alone: it is not ours to remove.
func (o *objectNames) add(name string) {
	parts := strings.Split(name, "/")
	if len(parts) != 5 {
		return
	}
	tenant, err := url.PathUnescape(parts[0])
	topic, errTopic := uuid.Parse(parts[1])
	partition, errPartition := strconv.ParseInt(parts[2], 10, 32)
	span, _, _ := strings.Cut(parts[3], "-")
	first, errFirst := strconv.ParseInt(span, 10, 64)
	if errors.Join(err, errTopic, errPartition, errFirst) != nil {
		return
	}
	o.names, o.tenants, o.topics = append(o.names, name), append(o.tenants, tenant), append(o.topics, topic)
	o.partitions, o.firsts = append(o.partitions, int32(partition)), append(o.firsts, first)
}

func (o *objectNames) collect(ctx context.Context, tx pgx.Tx, s Store) (removed int, err error) {
	settled, err := list(ctx, tx, settledSQL, o.names, o.topics, o.partitions, o.firsts)
	if err != nil || len(settled) == 0 {
		return 0, err
	}
	// In a statement of its own, which sees what was committed before the lanes stood where they were seen.
	unneeded, err := list(ctx, tx, unneededSQL, o.names, o.tenants, o.topics, o.partitions, o.firsts, settled)
	if err != nil {
		return 0, err
	}
	for _, name := range unneeded {
		if err := s.Remove(ctx, name); err != nil {
			return removed, fmt.Errorf("collect object %s: %w: %w", name, ErrStore, err)
		}
		removed++
	}
	return removed, nil
}

func list(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]string, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("collect objects: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("collect objects: %w", err)
	}
	return names, nil
}
