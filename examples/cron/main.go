// Cron runs a command at fixed times on one machine of several: start it on all of them. When the
// leader ends or loses the store, its command is killed, and another machine runs the next ones.
//
//	export ELECTION_BACKEND=file ELECTION_FILE_DIR=/tmp/cron
//	go run ./examples/cron -every 10s sh -c 'echo "$SCHEDULED in term $ELECTION_TERM"'
//
// See examples/schedulers for crontab expressions, and "elect run" for commands that start others.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
)

func main() {
	every := flag.Duration("every", time.Minute, "run at each multiple of this time since midnight UTC")
	flag.Parse()
	if *every <= 0 || flag.NArg() == 0 {
		log.Fatal("usage: cron -every 1m COMMAND [ARGUMENT...]")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	m, err := config.Open(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	e, err := m.Join("cron")
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(e.Run(ctx, schedule(*every, command)), m.Close(context.Background())); err != nil {
		log.Fatal(err)
	}
}

// schedule returns a function for the leader that calls job at each multiple of every.
func schedule(every time.Duration, job func(ctx context.Context, at time.Time, term uint64) error) election.LeadFunc {
	return func(ctx context.Context, lead *election.Leadership) error {
		for {
			at := time.Now().Truncate(every).Add(every)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Until(at)):
			}
			log.Printf("the job of %s ended: %v", at.Format(time.RFC3339), job(ctx, at, lead.Term))
		}
	}
}

// command runs the program's arguments. It is killed when ctx ends.
func command(ctx context.Context, at time.Time, term uint64) error {
	c := exec.CommandContext(ctx, flag.Arg(0), flag.Args()[1:]...)
	c.Env = append(os.Environ(), "SCHEDULED="+at.Format(time.RFC3339), fmt.Sprintf("ELECTION_TERM=%d", term))
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}
