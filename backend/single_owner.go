package backend

import (
	"context"
	"fmt"
	"sync"
)

// A SingleOwner admits the calls of one manager to a Backend: that of the first nonce, until
// Close. A store that keeps sessions, watches or locks for a process can do so for one
// manager only. The zero value is ready for use, and safe for concurrent use.
type SingleOwner struct {
	mu     sync.Mutex
	nonce  Nonce
	closed bool
}

// Enter begins a call of the candidate with this nonce; an empty nonce stands for the present
// owner. It returns [ErrClosed] after Close, the context's error if ctx has ended, and
// [ErrInvalid] for another candidate. It does not block.
func (g *SingleOwner) Enter(ctx context.Context, nonce Nonce) error {
	err := g.Admit("")
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = g.Admit(nonce)
	}
	return err
}

// Admit is Enter for a call that checks its context later.
func (g *SingleOwner) Admit(nonce Nonce) error {
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

// Nonce returns the owner's nonce, or "" before the first call.
func (g *SingleOwner) Nonce() Nonce {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.nonce
}

// Close refuses all later calls. It reports whether the SingleOwner was open.
func (g *SingleOwner) Close() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := !g.closed
	g.closed = true
	return was
}
