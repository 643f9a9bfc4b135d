package view

import (
	"bytes"
	"context"
	_ "embed" // for the statement
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
)

//go:embed diff.sql
var diffSQL string

// A Difference is an offer that two generations show otherwise.
type Difference struct {
	Tenant  string `json:"tenant"`
	Account string `json:"supplier_account"`
	Record  string `json:"source_record"`
	// In is both, or the generation that alone has it: before or after.
	In     string            `json:"in"`
	Fields []FieldDifference `json:"fields,omitempty"` // of both
}

// A FieldDifference is one field of an offer in either generation, named as the database has it; null where it has no value.
type FieldDifference struct {
	Field string          `json:"field"`
	Was   json.RawMessage `json:"was"`
	Is    json.RawMessage `json:"is"`
}

// A Comparison counts the offers of two generations.
type Comparison struct {
	Before     int   `json:"before"` // generation
	After      int   `json:"after"`  // likewise
	Same       int64 `json:"same"`
	Changed    int64 `json:"changed"`
	OnlyBefore int64 `json:"only_before"`
	OnlyAfter  int64 `json:"only_after"`
}

// Differ reports that some offer is shown otherwise.
func (c *Comparison) Differ() bool { return c.Changed+c.OnlyBefore+c.OnlyAfter > 0 }

// places are what is stored with an observation and says where and when it came, not what it says. Which one is shown tells its id.
var places = map[string]bool{
	"tenant": true, "generation": true, "offer": true, "account": true, "record": true, "strong": true, "id": true, "lane": true, "seq": true,
	"row": true, "run": true, "held": true, "due_ns": true, "unresolved": true, "observed_ns": true, "retrieved_ns": true, "weak_identity": true,
}

// Compare compares two generations and calls f with each offer that they show otherwise, by tenant, account and record.
func Compare(ctx context.Context, tx pgx.Tx, before, after int, f func(Difference) error) (c Comparison, err error) {
	c = Comparison{Before: before, After: after}
	all, err := Count(ctx, tx, before)
	if err != nil {
		return c, err
	}
	rows, err := tx.Query(ctx, diffSQL, before, after)
	if err != nil {
		return c, fmt.Errorf("compare generations %d and %d: %w", before, after, err)
	}
	var (
		d       Difference
		was, is []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&d.Tenant, &d.Account, &d.Record, &was, &is}, func() error {
		d.Fields = nil
		switch {
		case is == nil:
			d.In = "before"
			c.OnlyBefore++
		case was == nil:
			d.In = "after"
			c.OnlyAfter++
		default:
			d.In = "both"
			c.Changed++
			if d.Fields, err = fieldsOf(was, is); err != nil {
				return err
			}
		}
		return f(d)
	})
	if err != nil {
		return c, fmt.Errorf("compare generations %d and %d: %w", before, after, err)
	}
	c.Same = all.Offers - c.OnlyBefore - c.Changed
	return c, nil
}

// fieldsOf compares two JSON objects field by field. Values stay as PostgreSQL writes them: no number goes through a float.
func fieldsOf(was, is []byte) (list []FieldDifference, err error) {
	var before, after map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(was, &before), json.Unmarshal(is, &after)); err != nil {
		return nil, err
	}
	fields := maps.Clone(before) // one that shows nothing lacks those of an observation
	maps.Copy(fields, after)
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if b, a := orNull(before[field]), orNull(after[field]); !places[field] && !bytes.Equal(b, a) {
			list = append(list, FieldDifference{field, b, a})
		}
	}
	return list, nil
}

func orNull(value json.RawMessage) json.RawMessage {
	if value == nil {
		return json.RawMessage("null")
	}
	return value
}
