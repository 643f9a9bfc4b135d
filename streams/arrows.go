package streams

// A Box is one of the four kinds of record that offerlog keeps. None does another's work: what was fetched, what was sent, what was
// claimed, what is shown.
type Box struct {
	Name  string `json:"box"`
	ID    string `json:"id"` // what names one
	Holds string `json:"holds"`
}

// Boxes are the four, in the order data moves.
var Boxes = []Box{
	{"run", "derived from tenant, feed and the run id of its events", "one attempt of a connector: start, pages, completed or not"},
	{"artifact", "tenant/topic id/partition/first-last/digest", "the literal bytes of deliveries, encrypted, with checksum and retrieval time"},
	{"observation", "derived from offer, revision key and mapping version", "what one source claimed about one record in one revision; immutable"},
	{"projection", "tenant/account/record, and a revision that only grows", "each offer as it stands: the fold of its observations"},
}

// Transaction is where outcomes become true: one PostgreSQL transaction for each batch.
const Transaction = "lanes locked and compared > accounts > registry > receipts > runs > observations > sightings > quarantine > outbox > lanes moved: all of it, or none"

// An Arrow is a step that a process may die after, or whose answer may be lost.
type Arrow struct {
	After string `json:"after"` // the step
	Left  string `json:"left"`  // what a death or a timeout then leaves
	Next  string `json:"next"`  // who goes on, and how
}

// Arrows are all of them, in the order data moves. docs/design.md says which fault points belong to each; the shipped binary does
// not, since it has none.
var Arrows = []Arrow{
	{"a poll", "nothing", "the next worker reads the same offsets from `lane`"},
	{"an object is written, synced or verified", "an object that no row names", "the batch is done again, derives the same name, verifies the object and reuses it"},
	{"locks, receipts, some rows, just before the commit", "nothing: PostgreSQL rolls back", "as above"},
	{"the commit, its answer lost or not", "everything, and the lane moved", "the lane row is read FOR UPDATE: it says that the batch is done"},
	{"the mirror", "everything; without it, Kafka's copy of the offsets is behind", "the next mirror mends it"},
	{"a replay begins, is half through a page, or has sent the last", "the replay as of the last page that was committed", "it stands in `replay_run` where it goes on; whoever reads commands asks for the page once more"},
	{"a relay's fence, or some of its records", "an open Kafka transaction, invisible to readers", "the next fence aborts it; the cursor in the log says where to go on"},
	{"the end of a Kafka transaction, its answer lost", "either all of it or nothing", "never retried: fence, read the cursor, go on"},
	{"the relay's copy of the cursor", "a copy that is at the log, or behind it", "the log's cursor counts"},
	{"some of the outbox is pruned", "nothing: PostgreSQL rolls back", "the ring is pruned again"},
	{"some rows of the view", "nothing: PostgreSQL rolls back", "the partition is read again from `projection.next`"},
	{"the projector's commit", "view, outbox and checkpoint", "repeats are skipped: `applied` knows each lane's number"},
	{"part of a generation is filled", "a generation that is `building`, and into which is projected", "`generation build` with its number goes on, or `retire` ends it"},
	{"the pointer's move, before its commit", "nothing: PostgreSQL rolls back", "`generation switch` is done again"},
	{"the pointer's move", "the generation is active; partitions publish the one before", "each hands over with its next batch"},
	{"an export's objects, or its manifest", "files that nothing names; the export before, if there was one", "`generation export` is done again"},
	{"some keys are wrapped anew", "keys under either master key, and a ring that holds both", "`keys rotate --master` goes on where it stopped"},
}
