// Road moves a fleet of three processes from one store to another, deployment by
// deployment, and back again, as docs/migrate-from-zookeeper.md describes. On the way
// processes are killed with kill -9, and one that was forgotten wakes up late. All the
// time each tells when it believes to lead; at the end the history is printed, and
// judged: at every instant at most one did.
//
//	go run ./examples/road
//
// Nothing needs to be installed: both stores are directories with lock files. With
// -config road.yaml, in which another "from" and "to" can be written, the same goes by
// ZooKeeper and MySQL, or any two stores that run. With -jump the fleet goes to the new
// store at once, without a seal, as if one had just changed the setting: there are two
// leaders, and the history shows them.
//
// "make road" does it with Java programs that elect by Apache Curator, on a ZooKeeper
// and a MariaDB of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
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
	flag.StringVar(&o.config, "config", "", "go by the two stores of this configuration instead of two directories")
	seed := flag.Uint64("seed", 0, "who is killed; 0: chosen at random, and printed")
	jump := flag.Bool("jump", false, "leave out the stage between, and the seal, and see two leaders")
	flag.StringVar(&o.id, "member", "", "be this process of the fleet, and tell the parent what it believes")
	flag.StringVar((*string)(&o.stage), "stage", "", "of a member")
	flag.StringVar(&o.dir, "dir", "", "of a member: where the two directories are")
	flag.BoolVar(&o.unsealed, "unsealed", false, "of a member at stage to: lead without a seal")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once

	var err error
	switch {
	case o.id != "":
		err = child(ctx, o)
	case *jump:
		err = demo(ctx, o, jumps)
	default:
		if *seed == 0 {
			*seed = rand.Uint64()
		}
		rnd := rand.New(rand.NewPCG(*seed, 0))
		fmt.Printf("A fleet of three goes from one store to another and back. Seed %d.\n", *seed)
		err = demo(ctx, o, func(ctx context.Context, f *fleet) error { return walks(ctx, f, rnd) })
	}
	switch {
	case err != nil && ctx.Err() != nil:
		log.Fatal("interrupted")
	case err != nil:
		log.Fatal(err)
	}
}

// demo makes a fleet, lets it go, and judges its history.
func demo(ctx context.Context, o options, goes func(context.Context, *fleet) error) error {
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
	err = goes(ctx, f)
	err = errors.Join(err, f.end(ctx))
	history := f.history()
	fmt.Println("\nWho believed to lead, by one clock:")
	show(history, f.began)
	return errors.Join(err, judge(history))
}

// walks is the road, there and back.
func walks(ctx context.Context, f *fleet, rnd *rand.Rand) error {
	for range 3 {
		if _, err := f.start(ctx, migration.From); err != nil {
			return err
		}
	}
	if _, err := f.led(ctx, migration.From); err != nil {
		return err
	}
	for _, stage := range []migration.Stage{migration.Both, migration.To, migration.Both, migration.From} {
		f.say("deployment: from %q to %q, one after the other", f.members[0].stage, stage)
		victim := rnd.IntN(3) // is killed; the others leave in order
		for i := range 3 {
			if err := f.leave(ctx, f.members[0], i == victim); err != nil {
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
			if err := straggles(ctx, f); err != nil {
				return err
			}
		}
		leader, err := f.led(ctx, stage)
		if err == nil {
			err = f.leave(ctx, leader, true)
		}
		if err == nil {
			_, err = f.led(ctx, stage)
		}
		if err == nil {
			_, err = f.start(ctx, stage) // the killed one is started again
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// straggles has a program come back that elects by the old store alone, long after
// everybody has left that.
func straggles(ctx context.Context, f *fleet) error {
	if _, err := f.led(ctx, migration.To); err != nil {
		return err
	}
	s, err := f.start(ctx, migration.From)
	if err != nil {
		return err
	}
	if err := f.until(ctx, "one that was forgotten to find the seal", func() bool { return s.moved != "" }); err != nil {
		return err
	}
	f.say("%s was forgotten, and cannot lead: %s", s.id, s.moved)
	return f.leave(ctx, s, true)
}

// jumps goes from the old store to the new one at once.
func jumps(ctx context.Context, f *fleet) error {
	for range 2 {
		if _, err := f.start(ctx, migration.From); err != nil {
			return err
		}
	}
	if _, err := f.led(ctx, migration.From); err != nil {
		return err
	}
	f.say("deployment: to %q at once, without a seal", migration.To)
	f.options.unsealed = true
	if _, err := f.start(ctx, migration.To); err != nil {
		return err
	}
	if err := f.until(ctx, "two leaders", func() bool { return judge(f.history()) != nil }); err != nil {
		return err
	}
	return f.pause(ctx, time.Second) // they go on
}
