//go:build linux || darwin

package file

import (
	"context"

	"github.com/go-election/go-election/backend"
)

// Die does to a Backend what the death of its process would: the kernel closes its files.
func Die(b *Backend) {
	b.owner.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, h := range b.held {
		h.f.Close()
		delete(b.held, name)
	}
	if b.sharedLock != nil {
		b.sharedLock.Close()
		b.sharedLock = nil
	}
	b.lockCount = 0
}

// Encode and Decode convert names of elections and files.
var Encode, Decode = encode, decode

// ListenByPolling is Listen where the kernel does not report changes.
func ListenByPolling(ctx context.Context, b *Backend, seen []backend.Lease) error {
	return b.listenByPolling(ctx, seen)
}
