// Package localserver starts the servers that `offerlog dev` and the tests need on this machine: a private PostgreSQL
// and a Kafka broker inside this process. They listen on 127.0.0.1 only and end with the process that started them,
// also when it is killed with -9 (PostgreSQL on Linux only); with the same folder the next start finds their data.
//
// The broker keeps topic ids, records, committed offsets, producer ids and their epochs when it is closed, when its
// process is killed with -9, and over further starts. A transaction that is open at a close stays open; one that is open
// at a kill is aborted, and StartKafka writes the abort markers that the broker by itself leaves out. The end of a
// transaction is written partition by partition, so a kill in the middle of it may commit some of them only.
//
// It serves the next-generation group protocol (KIP-848) without any setting, and finalizes the features
// transaction.version at 2 and group.version at 1.
package localserver
