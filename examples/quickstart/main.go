// Quickstart shows an election among three processes. It kills the leader with kill -9,
// and a second process takes over; then it asks that leader to end, and the third one
// takes over.
//
//	go run ./examples/quickstart
//
// Nothing needs to be installed: the processes share lock files. With another word after
// "backend:" in election.yaml, or ELECTION_BACKEND=etcd in the environment, the same
// program runs on another store, at the address in election.yaml.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/config"
)

var names = []string{"anna", "bert", "cleo"}

func main() {
	log.SetFlags(0)
	file := flag.String("config", configFile(), "the configuration")
	id := flag.String("candidate", "", "run as this candidate, and report to the parent process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once

	var err error
	if *id != "" {
		err = child(ctx, *file, *id)
	} else {
		err = demo(ctx, *file)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		log.Fatal("interrupted")
	case err != nil:
		log.Fatal(err)
	}
}

// configFile finds election.yaml, in the program's directory or at the module's root.
func configFile() string {
	const beside, below = "election.yaml", "examples/quickstart/election.yaml"
	if _, err := os.Stat(beside); errors.Is(err, os.ErrNotExist) {
		return below
	}
	return beside
}

var began = time.Now()

func say(format string, args ...any) {
	fmt.Printf("%6.2fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}

// demo starts the candidates, kills the first leader, and ends the second in order.
func demo(ctx context.Context, file string) error {
	c, err := config.Load(file, config.Options{})
	if err != nil {
		return err
	}
	store, err := c.OpenBackend() // only to read its guarantees
	if err != nil {
		return err
	}
	guarantees := store.Guarantees()
	o, err := c.Election.Complete(guarantees)
	if err = errors.Join(err, store.Close()); err != nil {
		return err
	}
	fmt.Printf("Three candidates on the backend %q, which is one word in %s. TTL %v.\n", c.Backend, file, o.TTL)

	g := group{file: file, reports: make(chan report, 100)}
	defer g.end()
	start := g.startProcess
	if c.Backend == "memory" {
		fmt.Println("Processes cannot share memory: these are three managers in one process.")
		start = g.startManager
	}
	for _, name := range names {
		if err := start(ctx, name); err != nil {
			return err
		}
	}
	limit := 3*o.TTL + o.FailoverDelay + o.IncumbentGrace + 20*time.Second

	leader, err := g.leader(ctx, limit)
	if err != nil {
		return err
	}
	say("%s leads, term %d", leader.ID, leader.Term)
	if err := pause(ctx); err != nil {
		return err
	}

	if c.Backend != "memory" {
		say("kill -9 %s", leader.ID)
		killed := time.Now()
		g.kill(leader.ID)
		if c.Backend == "manual" {
			if other, err := g.leader(ctx, 3*time.Second); err == nil {
				return fmt.Errorf("%s leads, but the configuration does not name it", other.ID)
			}
			say("nobody takes over: the configuration names the leader")
			return ctx.Err()
		}
		if leader, err = g.leader(ctx, limit); err != nil {
			return err
		}
		say("%s leads, term %d: %v after the kill", leader.ID, leader.Term, leader.At.Sub(killed).Round(100*time.Microsecond))
		if err := pause(ctx); err != nil {
			return err
		}
	}

	say("%s is asked to end, and hands over", leader.ID)
	asked := time.Now()
	g.terminate(leader.ID)
	if leader, err = g.leader(ctx, limit); err != nil {
		return err
	}
	say("%s leads, term %d: %v after the request", leader.ID, leader.Term, leader.At.Sub(asked).Round(100*time.Microsecond))
	return nil
}

func pause(ctx context.Context) error {
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
