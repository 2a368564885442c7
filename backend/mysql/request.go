package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-election/go-election/backend"
)

// Request implements [backend.Backend]: one UPDATE for all requests of the same kind, which
// leaves the heartbeat alone, and one read that shows which of them were stale.
func (b *Backend) Request(ctx context.Context, requests []backend.Request) error {
	if err := b.enter(""); err != nil {
		return err
	}
	type kind struct {
		backend.RequestKind
		id    string
		nonce backend.Nonce
	}
	kinds := make(map[kind][]backend.Request, 1)
	for _, r := range requests {
		k := kind{r.Kind, r.ID, r.Nonce}
		kinds[k] = append(kinds[k], r)
	}
	var failed error
	for _, all := range kinds {
		for part := range slices.Chunk(all, chunk) {
			failed = errors.Join(failed, b.call(ctx, describe("request", len(part), part[0].Election), func(s *session) error {
				return s.request(ctx, part)
			}))
		}
	}
	return failed
}

func (s *session) request(ctx context.Context, part []backend.Request) error {
	first := part[0]
	args := []any{[]byte(first.Kind), []byte(first.ID), []byte(first.Nonce)}
	names := make([]string, len(part))
	for n, r := range part {
		names[n] = r.Election
		args = append(args, []byte(r.Election), r.Term)
	}
	if _, err := s.exec(ctx, s.fill(requestSQL, placeholders("(?, ?)", len(part))), args...); err != nil {
		return err
	}
	_, rows, err := s.read(ctx, lightSQL, names, nil)
	if err != nil {
		return err
	}
	for n, r := range part {
		if row := &rows[n]; row.Term != r.Term || !row.found {
			err = errors.Join(err, fmt.Errorf("election %q has term %d, not %d: %w", r.Election, row.Term, r.Term, backend.ErrStale))
		}
	}
	return err
}
