package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/streams/ingest"
)

// What this process has done, from its own ingest stage.
var deliveriesTotal = prometheus.NewDesc("offerlog_deliveries_total", "Outcomes recorded by this process.", []string{"outcome"}, nil)

var versionGapsTotal = prometheus.NewDesc("offerlog_version_gaps_total", "Rows stored by this process that skip versions of a source that numbers them without gaps.", nil, nil)

// What stands in the servers, whoever did it.
var (
	lagRecords      = prometheus.NewDesc("offerlog_stage_lag_records", "Records or events that a stage has not yet done.", []string{"stage"}, nil)
	lagSeconds      = prometheus.NewDesc("offerlog_stage_lag_seconds", "Age of the oldest of them; 0 where there is none.", []string{"stage"}, nil)
	quarantineOpen  = prometheus.NewDesc("offerlog_quarantine_open", "Entries that wait for a decision.", []string{"reason"}, nil)
	partitionHalted = prometheus.NewDesc("offerlog_partition_halted", "Lanes that have stopped and wait for an operator.", []string{"reason"}, nil)
)

// snapshotAge is how long what stands in the servers is not asked again, however many scrape.
const snapshotAge = 5 * time.Second

// A collector gives Prometheus what the ingest stage of this process counts, and what the servers say.
type collector struct {
	kafka   *kgo.Client
	cluster kafka.Cluster
	pool    *pgxpool.Pool
	log     *slog.Logger
	ingest  func() ingest.Stats // nil where this process does not ingest

	batchRecords  prometheus.Histogram
	commitSeconds prometheus.Histogram

	mu    sync.Mutex
	last  snapshot
	asked time.Time
}

// newCollector returns a collector of a process that ingests nothing yet.
func newCollector(kafka *kgo.Client, cluster kafka.Cluster, pool *pgxpool.Pool, log *slog.Logger) *collector {
	return &collector{kafka: kafka, cluster: cluster, pool: pool, log: log,
		batchRecords: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "offerlog_batch_records",
			Help: "Records of each batch that this process has stored.", Buckets: prometheus.ExponentialBuckets(1, 4, 8)}),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "offerlog_commit_seconds",
			Help: "Length of each transaction that stored a batch, in this process.", Buckets: prometheus.ExponentialBuckets(0.002, 2, 14)}),
	}
}

// stored observes a batch.
func (c *collector) stored(records int, took time.Duration) {
	c.batchRecords.Observe(float64(records))
	c.commitSeconds.Observe(took.Seconds())
}

// registry returns a registry of its own with c and the usual figures of a Go process.
func (c *collector) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(c, c.batchRecords, c.commitSeconds, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{deliveriesTotal, versionGapsTotal, lagRecords, lagSeconds, quarantineOpen, partitionHalted} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. Where a server does not answer, its figures are left out: an old one would
// look like rest.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	if c.ingest != nil {
		s := c.ingest()
		ch <- prometheus.MustNewConstMetric(versionGapsTotal, prometheus.CounterValue, float64(s.Gaps))
		for outcome, n := range s.Outcomes {
			ch <- prometheus.MustNewConstMetric(deliveriesTotal, prometheus.CounterValue, float64(n), string(outcome))
		}
	}
	s := c.snapshot()
	for stage, l := range s.lags {
		ch <- prometheus.MustNewConstMetric(lagRecords, prometheus.GaugeValue, float64(l.records), stage)
		ch <- prometheus.MustNewConstMetric(lagSeconds, prometheus.GaugeValue, l.age.Seconds(), stage)
	}
	for reason, n := range s.quarantine {
		ch <- prometheus.MustNewConstMetric(quarantineOpen, prometheus.GaugeValue, float64(n), reason)
	}
	for reason, n := range s.halted {
		ch <- prometheus.MustNewConstMetric(partitionHalted, prometheus.GaugeValue, float64(n), reason)
	}
}

// A snapshot is what the servers said at one time.
type snapshot struct {
	lags       map[string]lag // by stage
	quarantine map[string]int // open, by reason
	halted     map[string]int // lanes, by reason
}

func (c *collector) snapshot() snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.asked) < snapshotAge {
		return c.last
	}
	ctx, cancel := context.WithTimeout(context.Background(), snapshotAge)
	defer cancel()
	s := snapshot{quarantine: map[string]int{}, halted: map[string]int{}}
	var err error
	if s.quarantine, err = openQuarantine(ctx, c.pool); err != nil {
		c.log.Warn("metrics incomplete", "error", err)
	}
	halts, err := halted(ctx, c.pool)
	if err != nil {
		c.log.Warn("metrics incomplete", "error", err)
	}
	for _, h := range halts {
		s.halted[h.Reason]++
	}
	if s.lags, err = lags(ctx, c.kafka, c.cluster, c.pool, time.Now()); err != nil {
		c.log.Warn("metrics incomplete", "error", err)
	}
	c.last, c.asked = s, time.Now()
	return s
}
