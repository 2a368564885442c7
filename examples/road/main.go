// Road moves a fleet of three processes from one store to another and back, deployment by
// deployment, as docs/migrate-from-zookeeper.md describes. Meanwhile it kills processes with
// kill -9, and starts a forgotten one late. Each process reports when it believes that it
// leads. At the end the program prints this history and checks it: at every instant at most
// one process believed that it led.
//
//	go run ./examples/road
//
// Nothing needs to be installed: both stores are directories with lock files. With
// -config road.yaml the fleet moves between ZooKeeper and MySQL, or any two running stores
// that you set as "from" and "to" there. With -jump the fleet goes to the new store at once,
// without a seal, as if only the setting had been changed: the history shows two leaders.
//
// "make road" does the same with Java programs that elect with Apache Curator, on its own
// ZooKeeper and MariaDB.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/backend/migration"
)

// patience bounds each step: none takes longer than a few seconds.
const patience = 2 * time.Minute

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.config, "config", "", "use the two stores of this configuration instead of two directories")
	seed := flag.Uint64("seed", 0, "chooses the processes to kill; 0: a random seed, which is printed")
	jump := flag.Bool("jump", false, "skip the stage \"both\" and the seal, which makes two leaders")
	flag.StringVar(&o.id, "member", "", "run as this member of the fleet, and report to the parent process")
	flag.StringVar((*string)(&o.stage), "stage", "", "with -member: its stage")
	flag.StringVar(&o.dir, "dir", "", "with -member: the parent of the two directories")
	flag.BoolVar(&o.unsealed, "unsealed", false, "with -member, at stage \"to\": lead without a seal")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once

	var err error
	switch {
	case o.id != "":
		slog.SetLogLoggerLevel(slog.LevelError) // what a member writes on standard error is its failure
		err = child(ctx, o)
	case *jump:
		err = demo(ctx, o, jumpWithoutSeal)
	default:
		if *seed == 0 {
			*seed = rand.Uint64()
		}
		rnd := rand.New(rand.NewPCG(*seed, 0))
		fmt.Printf("A fleet of three moves from one store to another and back. Seed %d.\n", *seed)
		err = demo(ctx, o, func(ctx context.Context, f *fleet) error { return moveThereAndBack(ctx, f, rnd) })
	}
	switch {
	case err != nil && ctx.Err() != nil:
		log.Fatal("interrupted")
	case err != nil:
		log.Fatal(err)
	}
}

// demo runs the steps with a fleet, then prints and checks its history.
func demo(ctx context.Context, o options, steps func(context.Context, *fleet) error) error {
	dir, err := os.MkdirTemp("", "election-road")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o.dir = dir
	if o.config != "" {
		if o.config, err = filepath.Abs(o.config); err != nil {
			return err
		}
	}
	f := newFleet(o)
	err = steps(ctx, f)
	err = errors.Join(err, f.end(ctx))
	history := f.history()
	fmt.Println("\nWhich process believed that it led, by one clock:")
	show(history, f.began)
	return errors.Join(err, checkHistory(history))
}

// moveThereAndBack is the whole migration, and the way back.
func moveThereAndBack(ctx context.Context, f *fleet, rnd *rand.Rand) error {
	for range 3 {
		if _, err := f.start(ctx, migration.From); err != nil {
			return err
		}
	}
	if _, err := f.waitForLeader(ctx, migration.From); err != nil {
		return err
	}
	for _, stage := range []migration.Stage{migration.Both, migration.To, migration.Both, migration.From} {
		f.say("deployment: from %q to %q, one after the other", f.members[0].stage, stage)
		victim := rnd.IntN(3) // this member is killed; the others leave in order
		for i := range 3 {
			if err := f.stop(ctx, f.members[0], i == victim); err != nil {
				return err
			}
			if _, err := f.start(ctx, stage); err != nil {
				return err
			}
			if err := f.pause(ctx, time.Duration(rnd.Int64N(int64(500*time.Millisecond)))); err != nil {
				return err
			}
		}
		if stage == migration.To {
			if err := runStraggler(ctx, f); err != nil {
				return err
			}
		}
		leader, err := f.waitForLeader(ctx, stage)
		if err == nil {
			err = f.stop(ctx, leader, true)
		}
		if err == nil {
			_, err = f.waitForLeader(ctx, stage)
		}
		if err == nil {
			_, err = f.start(ctx, stage) // in place of the killed leader
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runStraggler starts a member that elects on the old store alone, after all other members
// have left that store. It must find the seal.
func runStraggler(ctx context.Context, f *fleet) error {
	if _, err := f.waitForLeader(ctx, migration.To); err != nil {
		return err
	}
	s, err := f.start(ctx, migration.From)
	if err != nil {
		return err
	}
	if err := f.until(ctx, "the straggler finds the seal", func() bool { return s.moved != "" }); err != nil {
		return err
	}
	f.say("%s was forgotten, and cannot lead: %s", s.id, s.moved)
	return f.stop(ctx, s, true)
}

// jumpWithoutSeal starts a member on the new store while others still lead on the old one.
func jumpWithoutSeal(ctx context.Context, f *fleet) error {
	for range 2 {
		if _, err := f.start(ctx, migration.From); err != nil {
			return err
		}
	}
	if _, err := f.waitForLeader(ctx, migration.From); err != nil {
		return err
	}
	f.say("deployment: to %q at once, without a seal", migration.To)
	f.options.unsealed = true
	if _, err := f.start(ctx, migration.To); err != nil {
		return err
	}
	if err := f.until(ctx, "two leaders", func() bool { return checkHistory(f.history()) != nil }); err != nil {
		return err
	}
	return f.pause(ctx, time.Second) // both leaders continue
}
