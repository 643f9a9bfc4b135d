package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A TopicSpec is a topic as offerlog wants it.
type TopicSpec struct {
	Name       string // on the cluster
	Partitions int    // to make it with
	AnySize    bool   // one that is there may have another number of partitions: nothing depends on where its keys lie
	Configs    map[string]string
}

// An Action is what a plan does with a topic.
type Action string

// Actions of a plan.
const (
	Create Action = "create"
	Alter  Action = "alter"  // settings only
	Keep   Action = "keep"   // as wanted
	Refuse Action = "refuse" // partitions that differ: never changed here, since keys would move
)

// A Change is one line of a plan.
type Change struct {
	Topic  string            `json:"topic"`
	Action Action            `json:"action"`
	Have   int               `json:"have_partitions,omitempty"`
	Want   int               `json:"partitions"`
	Set    map[string]string `json:"set,omitempty"` // settings that differ, with the values wanted
}

// Plan compares the cluster with what is wanted and changes nothing.
func Plan(ctx context.Context, cl *kgo.Client, specs []TopicSpec) ([]Change, error) {
	adm, ctx := kadm.NewClient(cl), fresh(ctx)
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	have, err := adm.ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("plan topics: %w", err)
	}
	var there []string
	for _, n := range names {
		if d, ok := have[n]; ok && d.Err == nil {
			there = append(there, n)
		}
	}
	configs := map[string]map[string]string{}
	if len(there) > 0 {
		list, err := adm.DescribeTopicConfigs(ctx, there...)
		if err != nil {
			return nil, fmt.Errorf("plan topics: %w", err)
		}
		for _, rc := range list {
			m := map[string]string{}
			for _, c := range rc.Configs {
				m[c.Key] = c.MaybeValue()
			}
			configs[rc.Name] = m
		}
	}
	var plan []Change
	for _, s := range specs {
		c := Change{Topic: s.Name, Action: Keep, Want: s.Partitions}
		d, ok := have[s.Name]
		switch {
		case !ok || errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			c.Action, c.Set = Create, s.Configs
		case d.Err != nil:
			return nil, fmt.Errorf("plan topic %s: %w", s.Name, d.Err)
		default:
			c.Have = len(d.Partitions)
			set := map[string]string{}
			for k, v := range s.Configs {
				if configs[s.Name][k] != v {
					set[k] = v
				}
			}
			if len(set) > 0 {
				c.Action, c.Set = Alter, set
			}
			switch {
			case c.Have == c.Want:
			case s.AnySize:
				c.Want = c.Have
			default:
				c.Action = Refuse
			}
		}
		plan = append(plan, c)
	}
	return plan, nil
}

// Apply carries a plan out, and returns when the brokers show every topic. What the plan refuses is an error, and nothing is
// changed then.
func Apply(ctx context.Context, cl *kgo.Client, plan []Change) error {
	for _, c := range plan {
		if c.Action == Refuse {
			return fmt.Errorf("topic %s has %d partitions, %d are wanted: keys would move between partitions: make a new topic, or set --partitions %d", c.Topic, c.Have, c.Want, c.Have)
		}
	}
	adm := kadm.NewClient(cl)
	for _, c := range plan {
		switch c.Action {
		case Create:
			set := make(map[string]*string, len(c.Set))
			for k, v := range c.Set {
				set[k] = kadm.StringPtr(v)
			}
			if _, err := adm.CreateTopic(ctx, int32(c.Want), -1, set, c.Topic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) { //nolint:gosec // a small number from the configuration
				return fmt.Errorf("create topic %s: %w", c.Topic, err)
			}
		case Alter:
			var alter []kadm.AlterConfig
			for _, k := range slices.Sorted(maps.Keys(c.Set)) {
				alter = append(alter, kadm.AlterConfig{Op: kadm.SetConfig, Name: k, Value: kadm.StringPtr(c.Set[k])})
			}
			resps, err := adm.AlterTopicConfigs(ctx, alter, c.Topic)
			if err == nil {
				for _, r := range resps {
					err = errors.Join(err, r.Err)
				}
			}
			if err != nil {
				return fmt.Errorf("alter topic %s: %w", c.Topic, err)
			}
		}
	}
	for _, c := range plan {
		if err := shown(ctx, cl, c.Topic); err != nil {
			return err
		}
	}
	return nil
}

// shown waits until the brokers know of a topic: for a moment after it was made, one may not.
func shown(ctx context.Context, cl *kgo.Client, topic string) error {
	_, err := backoff.Retry(ctx, func() (Topic, error) {
		t, err := Describe(ctx, cl, topic, false)
		if err != nil && !errors.Is(err, ErrNoTopic) {
			return t, backoff.Permanent(err)
		}
		return t, err
	}, backoff.WithMaxElapsedTime(30*time.Second))
	return err
}

// MaxMessageBytes is what a topic with deliveries takes in one batch: one of the largest payload with its attributes.
const MaxMessageBytes = 17 << 20

// Specs returns the topics of an installation: those that offerlog writes, and the input topics.
func (c Cluster) Specs(own []TopicSpec, inputs []string, partitions int) []TopicSpec {
	specs := make([]TopicSpec, 0, len(own)+len(inputs))
	for _, s := range own {
		s.Name = c.Topic(s.Name)
		specs = append(specs, s)
	}
	for _, in := range inputs {
		specs = append(specs, TopicSpec{Name: c.Topic(in), Partitions: partitions, AnySize: true, Configs: map[string]string{
			"cleanup.policy":         "delete",
			"max.message.bytes":      strconv.Itoa(MaxMessageBytes),
			"message.timestamp.type": "LogAppendTime", // the time of arrival is the broker's word, not the publisher's
			"retention.ms":           strconv.Itoa(7 * 24 * 3600 * 1000),
		}})
	}
	return specs
}
