// Quickstart takes part in an election, and prints every change of leader. Start it in several terminals:
//
//	ELECTION_ID=anna go run ./examples/quickstart
//	ELECTION_ID=bert go run ./examples/quickstart
//
// One of them leads. End it with Ctrl-C, and the other leads at once; end it with kill -9,
// and the other takes over.
//
// Nothing needs to be installed: the processes share lock files. With another word after
// "backend:" in election.yaml, or ELECTION_BACKEND=etcd in the environment, the same
// program runs on another store, at the address in election.yaml.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
)

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	file := flag.String("config", "examples/quickstart/election.yaml", "the configuration")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := run(ctx, *file); err != nil {
		log.Fatal(err)
	}
}

// run takes part until ctx ends, and gives the leadership back.
func run(ctx context.Context, file string) error {
	m, err := config.Open(ctx, file)
	if err != nil {
		return err
	}
	e, err := m.Join("demo")
	if err != nil {
		return err
	}
	e.Watch(func(ev election.Event) { log.Println(ev) }) // what every process sees
	err = e.Run(ctx, work)
	end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, m.Close(end))
}

// work runs on the leader only.
func work(ctx context.Context, lead *election.Leadership) error {
	log.Println("I lead, in term", lead.Term) // your work goes here; its writes carry the term
	<-ctx.Done()
	return nil
}
