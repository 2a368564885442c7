// Package registertest tests registers: [Run] has what every [register.Register] must pass. Its [Store] is a
// register inside this process, with faults that tests cause.
package registertest

import (
	"bytes"
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/go-election/go-election/backend/register"
)

// A Store is a value inside this process. It is safe for concurrent use.
type Store struct {
	mute atomic.Bool // swaps are made, and not answered

	mu      sync.Mutex
	value   []byte // nil: none
	version string
	swaps   int
	changed chan struct{} // closed by the next change
}

// NewStore returns a store without a value.
func NewStore() *Store { return &Store{changed: make(chan struct{})} }

// Register returns a client, which implements [register.Waiter], too.
func (s *Store) Register() register.Register { return client{s} }

// Set replaces the value as somebody else does who does not compare it. Nil: there is none.
func (s *Store) Set(value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(value)
}

// LoseAnswers lets swaps be made and not answered, until restore is called.
func (s *Store) LoseAnswers() (restore func()) {
	s.mute.Store(true)
	return func() { s.mute.Store(false) }
}

// Value returns the value; nil: there is none.
func (s *Store) Value() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.value)
}

// set replaces the value. The caller holds s.mu.
func (s *Store) set(value []byte) {
	s.swaps++
	s.value, s.version = bytes.Clone(value), ""
	if value != nil {
		s.version = strconv.Itoa(s.swaps)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

type client struct{ s *Store }

func (c client) Get(ctx context.Context) ([]byte, string, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return bytes.Clone(c.s.value), c.s.version, ctx.Err()
}

func (c client) Swap(ctx context.Context, version string, value []byte) (string, error) {
	now, err := c.swap(ctx, version, value)
	if c.s.mute.Load() {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return now, err
}

func (c client) swap(ctx context.Context, version string, value []byte) (string, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if version != c.s.version {
		return "", register.ErrChanged
	}
	c.s.set(value)
	return c.s.version, nil
}

func (c client) Wait(ctx context.Context, version string) error {
	for {
		c.s.mu.Lock()
		now, changed := c.s.version, c.s.changed
		c.s.mu.Unlock()
		if now != version {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c client) Close() error { return nil }
