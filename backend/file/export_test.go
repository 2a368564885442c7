//go:build linux || darwin

package file

import (
	"context"

	"github.com/go-election/go-election/backend"
)

// Die does to a Backend what the death of its process would: the kernel closes
// its files.
func Die(b *Backend) {
	b.guard.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, h := range b.held {
		h.f.Close()
		delete(b.held, name)
	}
	if b.share != nil {
		b.share.Close()
		b.share = nil
	}
	b.holds = 0
}

// Encode and Decode are the names of files.
var Encode, Decode = encode, decode

// LookOut is Listen where the kernel does not tell.
func LookOut(ctx context.Context, b *Backend, seen []backend.Lease) error {
	return b.lookOut(ctx, seen)
}
