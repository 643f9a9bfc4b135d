// Package streams is the map of offerlog: topics, groups, events and steps in the order data moves.
//
//	deliveries, commands -> ingest -> outbox -> relay -> observations -> project -> outbox -> relay -> current-offers
//	                          |                                             |
//	                 receipts, artifacts, history                  the current view  <- command line, API
//
// Deliveries come by Kafka, or by HTTP through streams/gateway, which writes them to the same topics.
//
// Read the stages in this order: streams/ingest, streams/relay, streams/project. Two stages meet in a topic or a table and
// never in memory; each can be killed at any moment and run again elsewhere.
package streams

import (
	"strconv"

	"github.com/offerlog/offerlog/pkg/kafka"
	"github.com/offerlog/offerlog/pkg/run"
)

// Topics, by their own names. An installation may put a prefix before all of them, so that several share a cluster.
const (
	// Deliveries is the default input topic; feeds may list others. Written by publishers.
	Deliveries = "deliveries"
	// Commands carries decisions of operators and of offerlog itself, as CloudEvents. Key: tenant.
	Commands = "commands"
	// Replays carries references to archived evidence that is to go through ingest again. Key: what is replayed. Written by the
	// relay; a worker joins it once a replay was ever asked for. Operators put records there that an input topic holds and that
	// were never stored.
	Replays = "replays"
	// Observations is the log of what was claimed: every observation and sighting once. Key: offer. Written by the relay.
	Observations = "observations"
	// DeliveryResults tells what became of deliveries: one event an attempt, as the feed's policy wants. Key: replay key. Written
	// by the relay.
	DeliveryResults = "delivery-results"
	// CurrentOffers holds each offer as it now stands, compacted; a deleted offer is a value until its feed's horizon has passed.
	// Key: offer. Written by the relay.
	CurrentOffers = "current-offers"
	// RelayCursor holds what the relay has published, compacted. Key: lane. Written by the relay, in the same transaction.
	RelayCursor = "offerlog-relay-cursor"
)

// Consumer groups. Their members share partitions; what is stored stands in PostgreSQL.
const (
	IngestGroup  = "offerlog-ingest"
	ProjectGroup = "offerlog-project"
)

// Event types that publishers write.
const (
	DeliveryType  = "offerlog.delivery.v1"
	RunStarted    = "offerlog.run.started.v1"
	RunCompleted  = "offerlog.run.completed.v1"
	RunFailed     = "offerlog.run.failed.v1"
	FeedApplyType = "offerlog.command.feed.apply.v1"
	RunRelease    = "offerlog.command.run.release.v1" // data: feed and run; reason needed
	RunReject     = "offerlog.command.run.reject.v1"  // likewise

	TokenCreateType = "offerlog.command.token.create.v1" // its data is a token.Grant: never the token
	TokenRevokeType = "offerlog.command.token.revoke.v1" // a token.Revocation

	KeyRotateType = "offerlog.command.key.rotate.v1" // its data names the tenant: {"tenant": "demo"}
	KeyShredType  = "offerlog.command.key.shred.v1"  // likewise; the extension reason says why
	LaneAdoptType = "offerlog.command.lane.adopt.v1" // an ingest.LaneAdopt

	FeedSuspendType = "offerlog.command.feed.suspend.v1" // an ingest.FeedDecision; reason needed
	FeedResumeType  = "offerlog.command.feed.resume.v1"  // likewise
	UndoType        = "offerlog.command.undo.v1"         // an ingest.Claims; reason needed
	RedoType        = "offerlog.command.redo.v1"         // likewise

	ItemLinkType   = "offerlog.command.item.link.v1"   // an ingest.ItemLink; reason needed
	ItemUnlinkType = "offerlog.command.item.unlink.v1" // likewise

	DueType = "offerlog.due.v1" // offerlog's own: a moment of a tenant has come; its data is an ingest.Due

	CollectType = "offerlog.command.tombstone.collect.v1" // an ingest.Collect

	QuarantineReleaseType = "offerlog.command.quarantine.release.v1" // an ingest.Entries
	QuarantineRejectType  = "offerlog.command.quarantine.reject.v1"  // an ingest.Entries
	QuarantineRedriveType = "offerlog.command.quarantine.redrive.v1" // an ingest.Redrive

	ReplayStartType  = "offerlog.command.replay.start.v1" // an ingest.ReplayStart; its delivery is the replay's id
	ReplayPauseType  = "offerlog.command.replay.pause.v1" // an ingest.ReplayOf
	ReplayResumeType = "offerlog.command.replay.resume.v1"
	ReplayCancelType = "offerlog.command.replay.cancel.v1"
	ReplayPageType   = "offerlog.command.replay.page.v1" // an ingest.ReplayPage, of a worker
)

// RunEvents are the types of events that tell of runs, and what each tells.
var RunEvents = map[string]run.Kind{RunStarted: run.Started, RunCompleted: run.Completed, RunFailed: run.Failed}

// OriginTopic is the Kafka header of a record of Replays that is no reference: the input topic, by its own name, that it was read
// from. It is taken as if it stood there.
const OriginTopic = "offerlog-topic"

// DecisionMade is the type of the events that say which claims count from now on. Each is in every partition of Observations;
// its key is tenant/kind/id of what was decided about, as decision.Decision.Key writes it.
const DecisionMade = "offerlog.decision.made.v1"

// DeliveryResult is the type of the events that tell what became of an attempt; the data is a receipt.Result. The record's key is
// the replay key, as offer.ReplayKey writes it, or of a record that has none tenant/place.
const DeliveryResult = "offerlog.delivery.result.v1"

// Event types that offerlog writes. Each is about one offer: the record's key and the attribute partitionkey are the offer's
// key, tenant/account/record with each part percent-encoded, and the attribute subject is the last of these parts. It stays
// encoded, since a supplier's name of a record may hold what no attribute may, such as a tab. The names as they are stand in
// the data.
const (
	ObservationRecorded = "offerlog.observation.recorded.v1"
	ObservationSighted  = "offerlog.observation.sighted.v1"
	OfferChanged        = "offerlog.offer.changed.v1"
	OfferCollected      = "offerlog.offer.collected.v1" // without data: a deleted offer that is not remembered any longer
	ReplayWanted        = "offerlog.replay.v1"          // an ingest.Replay
)

// Extension attributes of the events that offerlog writes.
const (
	// ExtTenant says whose data the event carries.
	ExtTenant = "tenant"
	// ExtLane is the id of the lane that numbers the event.
	ExtLane = "lane"
	// ExtLaneSeq is the event's number in its lane: gapless, in the order of commits. A decimal string, since CloudEvents
	// integers have 32 bits.
	ExtLaneSeq = "laneseq"
)

// Extension attributes of commands, beside ExtTenant.
const (
	ExtActor  = "actor"  // who decides
	ExtReason = "reason" // why
)

// EventSource is the source attribute of the events that offerlog writes.
const EventSource = "/offerlog"

// OwnTopics are the topics that offerlog writes, with partitions for the keyed ones.
func OwnTopics(partitions int) []kafka.TopicSpec {
	const forever = "-1"
	return []kafka.TopicSpec{
		{Name: Commands, Partitions: 1, Configs: map[string]string{"cleanup.policy": "delete", "retention.ms": forever}},
		{Name: Replays, Partitions: 1, Configs: map[string]string{"cleanup.policy": "delete", "retention.ms": forever,
			"max.message.bytes": strconv.Itoa(kafka.MaxMessageBytes)}},
		{Name: Observations, Partitions: partitions, Configs: map[string]string{"cleanup.policy": "delete", "retention.ms": forever}},
		{Name: DeliveryResults, Partitions: partitions, Configs: map[string]string{"cleanup.policy": "delete"}},
		{Name: CurrentOffers, Partitions: partitions, Configs: map[string]string{"cleanup.policy": "compact"}},
		// Small segments, since a lane that has been idle for long is looked for in all that is not compacted yet.
		{Name: RelayCursor, Partitions: 1, Configs: map[string]string{"cleanup.policy": "compact", "segment.bytes": "4194304",
			"min.cleanable.dirty.ratio": "0.1"}},
	}
}
