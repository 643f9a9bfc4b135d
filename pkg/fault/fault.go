// Package fault marks the points at which the tests kill a process, and let it stop, wait, panic or fail.
//
// A build with tag faults obeys the environment variable OFFERLOG_FAULT, for example
//
//	OFFERLOG_FAULT=relay.before_end_txn=kill:3,ingest.mapped=sleep:500ms
//
// which kills the process when it comes to the first point for the third time, and lets it wait half a second when it
// comes to the second for the first time. Actions, each with the hit at which it happens once (1 where none is given):
//
//	kill[:n]        SIGKILL to the process itself: nothing is flushed, closed or rolled back
//	stop[:n]        SIGSTOP to the process itself, until somebody sends SIGCONT
//	sleep:d[:n]     wait for the duration d
//	panic[:n]       panic
//	error[:n]       Err returns an error that is ErrInjected; points without an error to return panic instead
//
// What happens is written to standard error first, so that a test can tell that its fault was hit. A specification that
// cannot be read ends the process at its start. In every other build the functions are empty and no point is in the
// binary.
package fault

import "errors"

// ErrInjected is the error that action error makes Err return.
var ErrInjected = errors.New("injected fault")

// Points lists every point, in the order that data meets them. A test holds the list and the calls in the code together.
func Points() []string {
	return []string{
		"ingest.fetched",
		"ingest.artifact_written",
		"ingest.artifact_synced",
		"ingest.artifact_verified",
		"ingest.mapped",
		"ingest.tx_locked",
		"ingest.receipts_claimed",
		"ingest.rows_half",
		"ingest.before_commit",
		"ingest.after_commit",
		"ingest.after_mirror",
		"quarantine.before_commit", // ingest's transaction, where it sets something aside
		"quarantine.after_commit",
		"replay.run_created", // after ingest's transaction, where it begins a replay
		"replay.page_half",   // in it, between two references of a page
		"replay.run_done",    // after it, where it sends the last page
		"relay.fenced",
		"relay.cursor_read",
		"relay.produced_half",
		"relay.before_end_txn",
		"relay.after_end_txn",
		"relay.cursor_saved",
		"relay.pruned_half",
		"project.fetched",
		"project.rows_half",
		"project.before_commit",
		"project.after_commit",
		"offers.before_end_txn", // the relay's transaction, where it carries changes of offers
		"offers.after_end_txn",
		"generation.built_half", // offerlog generation
		"generation.before_point",
		"generation.after_point",
		"export.objects_durable",
		"export.manifest_durable",
		"keys.rewrap_half", // offerlog keys rotate --master
	}
}
