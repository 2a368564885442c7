package natskv_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/go-election/go-election/backend/register"
	"github.com/go-election/go-election/election"
	natskv "github.com/go-election/go-election/examples/nats"
)

// Two candidates on one server. The first resigns, and the second leads.
func Example() {
	dir, err := os.MkdirTemp("", "natskv")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, SyncAlways: true, NoSigs: true})
	if err != nil {
		log.Fatal(err)
	}
	go s.Start()
	defer s.Shutdown()
	s.ReadyForConnections(10 * time.Second)

	ctx := context.Background()
	leads := make(chan string)
	candidate := func(id string) (*election.Manager, *election.Election) {
		r, err := natskv.Open(s.ClientURL(), "election")
		if err != nil {
			log.Fatal(err)
		}
		m, err := election.New(register.New(r, natskv.Limits), election.Options{ID: id, TTL: 3 * time.Second})
		if err != nil {
			log.Fatal(err)
		}
		e, err := m.Join("billing")
		if err != nil {
			log.Fatal(err)
		}
		e.Lead(func(ctx context.Context, _ *election.Leadership) error {
			leads <- id
			<-ctx.Done()
			return nil
		})
		return m, e
	}
	a, ea := candidate("anna")
	fmt.Println(<-leads)
	b, _ := candidate("bert")
	if err := ea.Resign(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-leads)
	a.Close(ctx)
	b.Close(ctx)
	// Output:
	// anna
	// bert
}
