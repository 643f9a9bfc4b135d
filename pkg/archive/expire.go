package archive

import (
	"context"
	_ "embed" // for the statements
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/offerlog/offerlog/pkg/offer"
)

var (
	//go:embed expirable.sql
	expirableSQL string
	//go:embed expire.sql
	expireSQL string
)

// expireObjects is how many objects one call of Expire takes.
const expireObjects = 1000

// Aged says up to when the payloads of a feed are no longer kept.
type Aged struct {
	Feed   string
	Before time.Time
}

// Expire notes of a tenant's objects, those that nothing needs any more, that they have expired, a thousand at most, and returns
// the id of their receipt and how many they are. An object goes as a whole: when all of its payloads were recorded before
// their feeds keep them, none is asked about in quarantine, and none waits for the decision on a held run. Commands and what
// no feed expected are kept. Names, digests and places stay; Collect removes the objects after the commit.
func Expire(ctx context.Context, tx pgx.Tx, tenant string, feeds []Aged) (receipt uuid.UUID, expired int64, err error) {
	var (
		names      []string
		before     []time.Time
		topics     []uuid.UUID
		partitions []int32
		firsts     []int64
		objects    []string
		topic      uuid.UUID
		partition  int32
		first      int64
		object     string
	)
	for _, f := range feeds {
		names, before = append(names, f.Feed), append(before, f.Before)
	}
	rows, err := tx.Query(ctx, expirableSQL, tenant, names, before, expireObjects)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&topic, &partition, &first, &object}, func() error {
			topics, partitions = append(topics, topic), append(partitions, partition)
			firsts, objects = append(firsts, first), append(objects, object)
			return nil
		})
	}
	if err != nil {
		return receipt, 0, fmt.Errorf("expire objects of tenant %q: %w", tenant, err)
	}
	if len(objects) == 0 {
		return receipt, 0, nil
	}
	receipt = offer.Derive("pruning", "artifacts", tenant, objects[0]) // which expires once
	tag, err := tx.Exec(ctx, expireSQL, tenant, receipt, topics, partitions, firsts, objects)
	if err != nil {
		return receipt, 0, fmt.Errorf("expire objects of tenant %q: %w", tenant, err)
	}
	return receipt, tag.RowsAffected(), nil
}
