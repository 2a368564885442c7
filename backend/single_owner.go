package backend

import (
	"context"
	"fmt"
	"sync"
)

// A Guard stands at the door of a Backend. It lets in the calls of one manager,
// that of the first nonce it hears, until it is closed: a store that keeps
// sessions, watches or locks for a process can do so for one only. The zero value
// is ready for use, and safe for concurrent use.
type SingleOwner struct {
	mu     sync.Mutex
	nonce  string
	closed bool
}

// Enter begins a call for the candidate with this nonce, or for whoever is served
// if it is empty. It returns [ErrClosed] after Close, the context's error if that has
// ended, [ErrInvalid] for another candidate, and does not block.
func (g *SingleOwner) Enter(ctx context.Context, nonce string) error {
	err := g.Admit("")
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = g.Admit(nonce)
	}
	return err
}

// Admit is Enter for a call whose context is looked at later.
func (g *SingleOwner) Admit(nonce string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return ErrClosed
	case nonce != "" && g.nonce != "" && nonce != g.nonce:
		return fmt.Errorf("%w: this Backend serves another manager; give each its own", ErrInvalid)
	case g.nonce == "":
		g.nonce = nonce
	}
	return nil
}

// Nonce returns the nonce that is served, or "" before the first.
func (g *SingleOwner) Nonce() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.nonce
}

// Close lets nobody in any more. It reports whether it was open until now.
func (g *SingleOwner) Close() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := !g.closed
	g.closed = true
	return was
}
