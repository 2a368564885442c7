package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-election/go-election/backend"
)

// Ask implements [backend.Backend]: one UPDATE for requests of the same kind, which
// leaves the heartbeat alone, and one reading that tells which of them were stale.
func (b *Backend) Request(ctx context.Context, requests []backend.Request) error {
	if err := b.enter(""); err != nil {
		return err
	}
	type kind struct {
		backend.RequestKind
		id, nonce string
	}
	kinds := make(map[kind][]backend.Request, 1)
	for _, w := range requests {
		k := kind{w.Kind, w.ID, w.Nonce}
		kinds[k] = append(kinds[k], w)
	}
	var failed error
	for _, all := range kinds {
		for part := range slices.Chunk(all, chunk) {
			failed = errors.Join(failed, b.call(ctx, describe("ask", len(part), part[0].Election), func(s *session) error {
				return s.request(ctx, part)
			}))
		}
	}
	return failed
}

func (s *session) request(ctx context.Context, part []backend.Request) error {
	w := part[0]
	args := []any{[]byte(w.Kind), []byte(w.ID), []byte(w.Nonce)}
	names := make([]string, len(part))
	for n, w := range part {
		names[n] = w.Election
		args = append(args, []byte(w.Election), w.Term)
	}
	if _, err := s.exec(ctx, s.fill(requestSQL, placeholders("(?, ?)", len(part))), args...); err != nil {
		return err
	}
	_, rows, err := s.read(ctx, lightSQL, names, nil)
	if err != nil {
		return err
	}
	for n, w := range part {
		if r := &rows[n]; r.Term != w.Term || !r.found {
			err = errors.Join(err, fmt.Errorf("election %q has term %d, not %d: %w", w.Election, r.Term, w.Term, backend.ErrStale))
		}
	}
	return err
}
