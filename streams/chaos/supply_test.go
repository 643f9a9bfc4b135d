package chaos

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/offerlog/offerlog/pkg/history"
	"github.com/offerlog/offerlog/streams"
)

const acme = `
feed: acme-eu
tenant: t1
connector: acme-eu
account: ACC-1
accepts: {topics: [deliveries], source: /acme-eu/export}
order: version
mapping:
  version: 1
  fields: {source_record: .sku, source_version: .rev, item: {mpn: .sku}, quantity: .qty, price: .price, currency: .cur, deleted: .del}
`

// A row is one record of the supplier in one version, as it is delivered. Its content follows from sku and version.
type row struct {
	SKU      string `json:"sku"`
	Version  int    `json:"rev"`
	Quantity string `json:"qty,omitempty"`
	Price    string `json:"price,omitempty"`
	Currency string `json:"cur,omitempty"`
	Deleted  bool   `json:"del,omitempty"`
}

// newRow makes a row: every seventh version deletes the record.
func newRow(sku, version int) row {
	r := row{SKU: fmt.Sprint("A-", sku), Version: version}
	if version%7 == 0 {
		r.Deleted = true
		return r
	}
	r.Quantity, r.Price, r.Currency = strconv.Itoa(sku+version), fmt.Sprintf("%d.%d5", version, sku%10), "EUR"
	return r
}

// claim is what is stored of a row, from what is shown of an observation.
func claim(d history.Document) (row, error) {
	version, err := strconv.Atoi(d.Version)
	return row{SKU: d.Record, Version: version, Quantity: d.Quantity.String(), Price: d.Price.String(), Currency: d.Currency, Deleted: d.Deleted}, err
}

// A supply makes deliveries and knows what must come of them, whatever happens to those who carry them.
type supply struct {
	random     *rand.Rand
	partitions int32
	versions   map[int]int // by sku: the last version

	deliveries int            // accepted ones
	outcomes   map[string]int // events of the topic by outcome, quarantined ones by reason
	rows       int            // of accepted deliveries
	claimed    map[row]row    // observations
	offers     map[string]row // by record: the highest version
}

func newSupply(random *rand.Rand, partitions int32) *supply {
	return &supply{random: random, partitions: partitions, versions: map[int]int{}, outcomes: map[string]int{}, claimed: map[row]row{}, offers: map[string]row{}}
}

// skus is how many records the supplier has. Few, so that versions of one overtake each other.
const skus = 60

// wave makes n deliveries and returns the records to publish: everything twice and in any order, two pages of a run among it,
// and what cannot be read; then what contradicts a delivery, in the partition of one of its copies. The order within a
// partition counts.
func (s *supply) wave(n int) []*kgo.Record {
	var readable []*kgo.Record
	for i := range n {
		var attributes []string
		if i < 2 {
			attributes = []string{"runid", fmt.Sprint("run-", s.deliveries-i), "page", fmt.Sprint(i + 1), "pages", "2"}
		}
		r := s.delivery(attributes...)
		readable = append(readable, r, again(r))
	}
	broken := record("broken", []byte(`[{"sku": "A-1", "rev": `))
	alien := &kgo.Record{Topic: streams.Deliveries, Value: []byte{0xff, 0x00}}
	records := slices.Concat(readable, []*kgo.Record{broken, again(broken), alien, again(alien)})
	s.outcomes["schema_invalid"] += 2
	s.outcomes["not_a_cloudevent"] += 2
	s.random.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	for _, r := range records {
		r.Partition = s.random.Int32N(s.partitions)
	}
	for range 1 + n/20 {
		r := again(readable[s.random.IntN(len(readable))])
		r.Value = fmt.Appendf(nil, `[{"sku": "A-1", "rev": 1000000, "qty": "%d"}]`, s.random.IntN(1000))
		records = append(records, r, again(r))
		s.outcomes["replay_payload_mismatch"] += 2
	}
	return records
}

// delivery makes one, of one to three rows: new versions, and now and then one that was delivered before.
func (s *supply) delivery(attributes ...string) *kgo.Record {
	var rows []row
	for _, sku := range s.random.Perm(skus)[:1+s.random.IntN(3)] {
		version := s.versions[sku] + 1
		if version > 1 && s.random.IntN(5) == 0 {
			version = 1 + s.random.IntN(version-1)
		}
		s.versions[sku] = max(s.versions[sku], version)
		r := newRow(sku, version)
		rows = append(rows, r)
		s.claimed[r] = r
		if r.Version >= s.offers[r.SKU].Version {
			s.offers[r.SKU] = r
		}
	}
	body, err := json.Marshal(rows)
	if err != nil {
		panic(err) // strings and numbers
	}
	s.deliveries++
	s.rows += len(rows)
	s.outcomes["accepted"]++
	s.outcomes["duplicate"]++
	return record(fmt.Sprint("D-", s.deliveries), body, attributes...)
}

// record is an event of the supplier.
func record(id string, body []byte, attributes ...string) *kgo.Record {
	r := &kgo.Record{Topic: streams.Deliveries, Value: body, Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/json")}}}
	attributes = append(attributes, "specversion", "1.0", "id", id, "source", "/acme-eu/export", "type", streams.DeliveryType, "time", "2025-03-01T08:00:00Z")
	for pair := range slices.Chunk(attributes, 2) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "ce_" + pair[0], Value: []byte(pair[1])})
	}
	return r
}

// again is another copy of a record.
func again(r *kgo.Record) *kgo.Record {
	c := *r
	return &c
}

// only lists what a has and b has not.
func only[K comparable](a, b map[K]row) (rows []row) {
	for k, r := range a {
		if other, ok := b[k]; !ok || other != r {
			rows = append(rows, r)
		}
	}
	return rows
}
