// Package single keeps each Backend for one manager, as the contract demands. Backends use it;
// programs do not need it.
package single

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-election/go-election/backend"
)

// An Owner admits the calls of one manager to a Backend: that of the first nonce, until
// Close. A store that keeps sessions, watches or locks for a process can do so for one
// manager only. The zero value is ready for use, and safe for concurrent use.
type Owner struct {
	mu     sync.Mutex
	nonce  backend.Nonce
	closed bool
}

// Enter begins a call of the candidate with this nonce; an empty nonce stands for the present
// owner. It returns [backend.ErrClosed] after Close, [backend.ErrInvalid] for another candidate,
// and the context's error if ctx has ended. It does not block.
func (o *Owner) Enter(ctx context.Context, nonce backend.Nonce) error {
	if err := o.Admit(nonce); err != nil {
		return err
	}
	return ctx.Err()
}

// Admit is Enter for a call that checks its context later.
func (o *Owner) Admit(nonce backend.Nonce) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return backend.ErrClosed
	case nonce != "" && o.nonce != "" && nonce != o.nonce:
		return fmt.Errorf("%w: this Backend serves another manager; give each its own", backend.ErrInvalid)
	case o.nonce == "":
		o.nonce = nonce
	}
	return nil
}

// Nonce returns the owner's nonce, or "" before the first call.
func (o *Owner) Nonce() backend.Nonce {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.nonce
}

// Close refuses all later calls. It reports whether the Owner was open.
func (o *Owner) Close() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := !o.closed
	o.closed = true
	return was
}
