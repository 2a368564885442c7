// Cron runs a command of the shell every ten seconds, on one machine of several: start it on all of
// them. When the leader ends, another runs the next ones. See also examples/schedulers and "elect run".
//
//	export ELECTION_BACKEND=file ELECTION_FILE_DIR=/tmp/cron
//	go run ./examples/cron 'echo "$SCHEDULED in term $ELECTION_TERM"'
package main

import (
	"context"
	"errors"
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
	if err := errors.Join(e.Run(ctx, schedule(10*time.Second, command)), m.Close(context.Background())); err != nil {
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
				log.Printf("the job of %s ended: %v", at.Format(time.RFC3339), job(ctx, at, lead.Term))
			}
		}
	}
}

func command(ctx context.Context, at time.Time, term uint64) error {
	c := exec.CommandContext(ctx, "sh", append([]string{"-c"}, os.Args[1:]...)...)
	c.Env = append(os.Environ(), "SCHEDULED="+at.Format(time.RFC3339), fmt.Sprintf("ELECTION_TERM=%d", term))
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}
