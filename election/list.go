package election

import (
	"context"
	"iter"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/page"
)

// Records ranges over the store's records of all elections, joined or not, in byte order of names.
// Retired elections are among them: see [backend.Record.Forgotten]. Each call of the store takes
// CallTimeout at most. After an error the range ends.
func (m *Manager) Records(ctx context.Context) iter.Seq2[backend.Record, error] {
	return page.Records(ctx, m.callStore, m.backend)
}

// Members returns the processes that have announced themselves on this store, leaders or not, for
// any election. Each call of the store takes CallTimeout at most. The error is the store's, ctx's,
// or [ErrClosed].
func (m *Manager) Members(ctx context.Context) ([]backend.Member, error) {
	return page.Members(ctx, m.callStore, m.backend)
}

// callStore makes a call of the store for a waiting caller. It keeps two promises to the backend:
// each call has a deadline, and none is made after Close.
func (m *Manager) callStore(ctx context.Context, call func(context.Context) error) error {
	m.mu.Lock()
	closed := m.elections == nil
	if !closed {
		m.calls.Add(1)
	}
	m.mu.Unlock()
	if closed {
		return ErrClosed
	}
	defer m.calls.Done()
	ctx, cancel := context.WithTimeout(ctx, m.opts.CallTimeout)
	defer cancel()
	return call(ctx)
}
