// Quickstart shows an election among three candidates. The leader is killed, and
// another takes over; then that one resigns, and the next takes over at once.
//
//	go run ./examples/quickstart
//
// Nothing needs to be installed: the candidates share a store in memory. With
// another backend they would be processes on different machines, and the code
// would be the same.
package main

import (
	"context"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
)

const ttl = 3 * time.Second

var began = time.Now()

func say(format string, args ...any) {
	fmt.Printf("%5.2fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}

func main() {
	ctx := context.Background()
	store := memory.New(nil)
	elected := make(chan *candidate, 3)
	for _, id := range []string{"anna", "bert", "cleo"} {
		if err := start(id, store, elected); err != nil {
			log.Fatal(err)
		}
	}

	leader := <-elected
	time.Sleep(2 * time.Second)
	say("%s is killed: it reaches nothing any more, and nobody is told", leader.id)
	killed := time.Now()
	leader.kill()

	leader = <-elected
	say("%.1f s without a leader, TTL %v", time.Since(killed).Seconds(), ttl)
	time.Sleep(2 * time.Second)
	say("%s resigns", leader.id)
	resigned := time.Now()
	if err := leader.manager.Close(ctx); err != nil {
		log.Fatal(err)
	}

	<-elected
	say("handed over in %v", time.Since(resigned).Round(10*time.Microsecond))
}

// A candidate is what a process would be.
type candidate struct {
	id      string
	manager *election.Manager
	kill    func()
}

// start begins to campaign.
func start(id string, store *memory.Store, elected chan<- *candidate) error {
	b := &mortal{Backend: store.Backend()}
	m, err := election.New(b, &election.Options{ID: id, TTL: ttl})
	if err != nil {
		return err
	}
	e, err := m.Join("demo")
	if err != nil {
		return err
	}
	c := &candidate{id: id, manager: m, kill: func() { b.dead.Store(true) }}
	return e.Lead(func(ctx context.Context, lead *election.Leadership) error {
		say("%s leads, term %d", id, lead.Term)
		elected <- c
		<-ctx.Done() // here it would work, as long as ctx lasts
		say("%s stops: %v", id, context.Cause(ctx))
		return nil
	})
}

// mortal is a store that a dead process no longer reaches.
type mortal struct {
	backend.Backend
	dead atomic.Bool
}

func (b *mortal) alive(ctx context.Context) error {
	if b.dead.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (b *mortal) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.alive(ctx); err != nil {
		return nil, err
	}
	return b.Backend.Acquire(ctx, bids)
}

func (b *mortal) Renew(ctx context.Context, held []backend.Lease) ([]backend.Answer, error) {
	if err := b.alive(ctx); err != nil {
		return nil, err
	}
	return b.Backend.Renew(ctx, held)
}

func (b *mortal) Release(ctx context.Context, held []backend.Lease) error {
	if err := b.alive(ctx); err != nil {
		return err
	}
	return b.Backend.Release(ctx, held)
}
