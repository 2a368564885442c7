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
func (o *SingleOwner) Enter(ctx context.Context, nonce Nonce) error {
	err := o.Admit("")
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = o.Admit(nonce)
	}
	return err
}

// Admit is Enter for a call that checks its context later.
func (o *SingleOwner) Admit(nonce Nonce) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return ErrClosed
	case nonce != "" && o.nonce != "" && nonce != o.nonce:
		return fmt.Errorf("%w: this Backend serves another manager; give each its own", ErrInvalid)
	case o.nonce == "":
		o.nonce = nonce
	}
	return nil
}

// Nonce returns the owner's nonce, or "" before the first call.
func (o *SingleOwner) Nonce() Nonce {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.nonce
}

// Close refuses all later calls. It reports whether the SingleOwner was open.
func (o *SingleOwner) Close() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := !o.closed
	o.closed = true
	return was
}
