package electionhttp

import (
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// keepRead is for how long most results of the store serve all requests.
const keepRead = time.Second

// A cache keeps results and errors of the store for a moment, so that many requests cost
// the store no more than one. Its keys are names of joined elections.
type cache[T any] struct {
	keep time.Duration

	mu      sync.Mutex
	entries map[string]*cached[T]
}

type cached[T any] struct {
	at    time.Time // zero: nothing was read yet
	value T
	err   error
	ended chan struct{} // closed when the read is over that is under way; nil: none is
}

// get returns a result that is fresh. It waits for a read as long as that takes, which has a time limit.
func (c *cache[T]) get(key string, read func() (T, error)) (T, error) {
	return c.newest(key, read, time.Hour)
}

// newest returns the newest result. If that is not fresh, a read begins, for which it waits at most for
// patience.
func (c *cache[T]) newest(key string, read func() (T, error), patience time.Duration) (value T, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[string]*cached[T]{}
	}
	e := c.entries[key]
	if e == nil {
		e = new(cached[T])
		c.entries[key] = e
	}
	if e.ended == nil && time.Since(e.at) > c.keep {
		e.ended = make(chan struct{})
		go c.read(e, read)
	}
	if ended := e.ended; ended != nil {
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

// read reads an entry. The handler's context ends all reads.
func (c *cache[T]) read(e *cached[T], read func() (T, error)) {
	value, err := read()
	c.mu.Lock()
	defer c.mu.Unlock()
	close(e.ended)
	*e = cached[T]{at: time.Now(), value: value, err: err}
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
