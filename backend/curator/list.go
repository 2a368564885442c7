package curator

import (
	"cmp"
	"context"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/page"
	"github.com/go-election/go-election/internal/ensemble"
)

// List reads the existing records.
func (b *Backend) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	if err := b.admit(""); err != nil {
		return nil, err
	}
	var list []backend.Record
	err := b.withSession(ctx, func(s *session) (err error) {
		list, err = b.readRecords(ctx, s, from, limit)
		return err
	})
	return list, b.wrap("list", err)
}

func (b *Backend) readRecords(ctx context.Context, s *session, from string, limit int) (list []backend.Record, err error) {
	if err := s.sync(ctx); err != nil {
		return nil, err
	}
	r, err := s.ReadNode(ctx, ensemble.Children, b.layout.recordParent)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, part := range r.Children {
		if name, ok := ensemble.Unescape(part); ok && backend.CheckName(name) == nil {
			names = append(names, name)
		}
	}
	names = page.Cut(names, from, limit, func(name string) string { return name })
	snaps, errs := make([]snapshot, len(names)), make([]error, len(names))
	mode := readMode{sessions: &sessionReads{}}
	ensemble.InParallel(len(names), func(i int) { snaps[i], errs[i] = b.takeSnapshot(ctx, s, names[i], mode) })
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	for _, snap := range snaps {
		if snap.unconfirmed || snap.record == nil && snap.unreadable == nil {
			continue // still being created, or just deleted
		}
		out := backend.Record{Lease: snap.lease}
		if rec := snap.record; rec != nil {
			out.History = rec.History
			if rec.Holder != nil && !snap.lease.Vacant() {
				out.Elected = rec.Holder.Elected
			}
		}
		list = append(list, out)
	}
	return list, nil
}
