// Command offerlog turns supplier deliveries into a log of observations and a view of current offers: one binary with the
// stages, everything that they need on one machine (offerlog dev), and the operator's verbs.
//
// A file a subcommand; main.go and root.go are read first, config.go has all settings, stages.go joins the stages.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/offerlog/offerlog/pkg/mapping"
)

func main() {
	if served, code := mapping.ServeIfChild(); served { // offerlog mapper, started by ingest
		os.Exit(code)
	}
	os.Exit(offerlog())
}

// offerlog runs the command line of this process and returns its exit code.
func offerlog() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel() // what is in hand is finished
		<-signals
		os.Exit(exitInterrupted)
	}()
	a := &app{stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()}
	return a.execute(ctx, os.Args[1:])
}
