package client

import (
	"context"
	"sync"
	"time"
)

// A Renewed is something with connections, such as a pool, that is replaced now and then, so that they follow a name or
// a proxy that has moved. The next one has connected before the last one is closed: while a server takes no new
// connections, those that work are used on. Age, Open and Close are set before the first call.
type Renewed[T any] struct {
	Age   time.Duration                    // after which a call of Get begins to replace it
	Open  func(context.Context) (T, error) // returns the next one, connected
	Close func(T)                          // waits for calls that still use it, if it can

	mu      sync.Mutex
	now     T
	since   time.Time
	opening bool // the next one
	ended   bool
}

const (
	openLimit  = 15 * time.Second
	againAfter = 5 * time.Second // an Open that has failed
	lateCalls  = 5 * time.Second // for which one that was replaced stays open
)

// Set sets the first one, which need not be connected.
func (r *Renewed[T]) Set(first T) { r.now, r.since = first, time.Now() }

// Get returns the present one.
func (r *Renewed[T]) Get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.since) > r.Age {
		r.renew()
	}
	return r.now
}

// Renew begins to replace the present one.
func (r *Renewed[T]) Renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renew()
}

func (r *Renewed[T]) renew() {
	if r.opening || r.ended {
		return
	}
	r.opening = true
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), openLimit)
		defer cancel()
		next, err := r.Open(ctx)

		r.mu.Lock()
		defer r.mu.Unlock()
		r.opening = false
		switch {
		case err != nil:
			r.since = time.Now().Add(againAfter - r.Age)
		case r.ended:
			go r.Close(next)
		default:
			last := r.now
			time.AfterFunc(lateCalls, func() { r.Close(last) })
			r.now, r.since = next, time.Now()
		}
	}()
}

// End closes the present one, and replaces it no more. One that it has replaced is closed soon.
func (r *Renewed[T]) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.ended = true
		go r.Close(r.now)
	}
}
