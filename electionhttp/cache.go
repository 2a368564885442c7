package electionhttp

import (
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// reads are the reads of the store that are under way in the background, so that a request need not wait for each.
type reads struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// begin begins a read, unless the handler is closed.
func (r *reads) begin(read func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.running.Go(read)
	}
	return !r.closed
}

// close waits until all have ended. No other begins after that.
func (r *reads) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.running.Wait()
}

// keepRead is for how long most results of the store serve all requests.
const keepRead = time.Second

// A cache keeps results and errors of the store for a moment, so that many requests cost
// the store no more than one. Its keys are names of joined elections.
type cache[T any] struct {
	reads   *reads
	keep    time.Duration
	mu      *sync.Mutex
	entries map[string]*cached[T]
}

type cached[T any] struct {
	at    time.Time // zero: nothing was read yet
	value T
	err   error
	ended chan struct{} // closed when the read is over that is under way; nil: none is
}

func newCache[T any](r *reads, keep time.Duration) cache[T] {
	return cache[T]{reads: r, keep: keep, mu: new(sync.Mutex), entries: map[string]*cached[T]{}}
}

// get returns a result that is fresh. It waits for a read as long as that takes, which has a time limit.
func (c *cache[T]) get(key string, read func() (T, error)) (T, error) {
	return c.newest(key, read, c.keep, time.Hour)
}

// newest returns the newest result. If that is not fresh, a read begins. newest waits for it only if the result is
// older than old, and at most for patience.
func (c *cache[T]) newest(key string, read func() (T, error), old, patience time.Duration) (value T, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if e == nil {
		e = new(cached[T])
		c.entries[key] = e
	}
	age := time.Since(e.at)
	if e.ended == nil && age > c.keep {
		c.begin(e, read)
	}
	if ended := e.ended; ended != nil && age > old {
		c.mu.Unlock()
		select {
		case <-ended:
		case <-time.After(patience):
		}
		c.mu.Lock()
	}
	if e.at.IsZero() {
		return value, backend.ErrUnavailable
	}
	return e.value, e.err
}

// begin begins a read for an entry. The caller holds c.mu.
func (c *cache[T]) begin(e *cached[T], read func() (T, error)) {
	ended := make(chan struct{})
	if c.reads.begin(func() {
		value, err := read()
		c.mu.Lock()
		defer c.mu.Unlock()
		*e = cached[T]{at: time.Now(), value: value, err: err}
		close(ended)
	}) {
		e.ended = ended
	}
}

// last returns the newest result, and begins no read.
func (c *cache[T]) last(key string) (value T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		return e.value
	}
	return value
}

func (c *cache[T]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
}
