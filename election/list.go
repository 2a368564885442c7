package election

import (
	"context"
	"fmt"
	"iter"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// pageSize is how many records or members one call of the store returns.
const pageSize = 500

// Records ranges over the store's records of all elections, joined or not, in byte order of names.
// Retired elections are among them: see [backend.Record.Forgotten]. Each call of the store takes
// CallTimeout at most. After an error the range ends.
func (m *Manager) Records(ctx context.Context) iter.Seq2[backend.Record, error] {
	return func(yield func(backend.Record, error) bool) {
		eachPage(ctx, m, "records", m.backend.List, func(r backend.Record) string { return r.Election }, func(r backend.Record, err error) bool {
			r = clean.Record(r)
			return yield(r, err)
		})
	}
}

// Members returns the processes that have announced themselves on this store, leaders or not, for
// any election. Each call of the store takes CallTimeout at most. The error is the store's, ctx's,
// or [ErrClosed].
func (m *Manager) Members(ctx context.Context) (list []backend.Member, err error) {
	eachPage(ctx, m, "members", m.backend.Members, func(v backend.Member) string { return v.Nonce }, func(v backend.Member, e error) bool {
		if e != nil {
			list, err = nil, e
			return false
		}
		list = append(list, clean.Member(v))
		return true
	})
	return list, err
}

// eachPage yields everything that read returns, page by page.
func eachPage[T any](ctx context.Context, m *Manager, what string, read func(context.Context, string, int) ([]T, error), key func(T) string, yield func(T, error) bool) {
	for from := ""; ; {
		var list []T
		if err := m.callStore(ctx, func(ctx context.Context) (err error) {
			list, err = read(ctx, from, pageSize)
			return err
		}); err != nil {
			var none T
			yield(none, fmt.Errorf("election: list %s: %w", what, err))
			return
		}
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
		if len(list) < pageSize {
			return
		}
		from = key(list[len(list)-1]) + "\x00"
	}
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
