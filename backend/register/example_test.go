package register_test

import (
	"context"
	"fmt"
	"log"
	"strconv"
	"sync"
	"time"

	"github.com/go-election/go-election/backend/register"
	"github.com/go-election/go-election/election"
)

// A shelf is a map that several processes would share if it were a server.
type shelf struct {
	mu     sync.Mutex
	values map[string]box
	swaps  int // of all values, so that no version comes twice
}

type box struct {
	value   []byte
	version string
}

// A slot is one value on the shelf: a register.
type slot struct {
	*shelf
	name string
}

func (s slot) Get(ctx context.Context) ([]byte, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.values[s.name]
	return b.value, b.version, ctx.Err()
}

func (s slot) Swap(_ context.Context, version string, value []byte) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values[s.name].version != version {
		return "", register.ErrChanged
	}
	s.swaps++
	s.values[s.name] = box{value, strconv.Itoa(s.swaps)}
	return s.values[s.name].version, nil
}

func (s slot) Close() error { return nil }

// A map becomes a backend. Any store that compares and swaps does so in the same way.
func Example() {
	store := &shelf{values: map[string]box{}}
	b := register.New(slot{store, "elections"}, register.Limits{Name: "shelf", MinTTL: time.Second, MaxTTL: 5 * time.Minute, MaxBytes: 1 << 20})

	ctx, stop := context.WithCancel(context.Background())
	m, err := election.New(b, election.Options{})
	if err != nil {
		log.Fatal(err)
	}
	e, err := m.Join("billing")
	if err != nil {
		log.Fatal(err)
	}
	e.Run(ctx, func(ctx context.Context, lead *election.Leadership) error {
		fmt.Println("this process leads", lead.Election())
		stop()
		<-ctx.Done()
		return nil
	})
	fmt.Println("handed over:", m.Close(context.Background()))
	// Output:
	// this process leads billing
	// handed over: <nil>
}
