// Package schemas embeds the contracts that offerlog keeps with the outside: the database schema and the JSON Schemas.
package schemas

import "embed"

// Postgres holds the migrations, in the order of their names; schema.sql is the dump that a test keeps true.
//
//go:embed postgres/*.sql
var Postgres embed.FS

// Feed is the JSON Schema of feed files and of the command that applies one.
//
//go:embed feed.v1.json
var Feed []byte

// Events holds the JSON Schemas of the data of events, each in a file of the folder events that is named for the event's type, and
// beside it those that they refer to.
//
//go:embed events/*.json *.json
var Events embed.FS

// Run is the JSON Schema of the data of run events: a definition each for started, completed and failed.
//
//go:embed run.v1.json
var Run []byte
