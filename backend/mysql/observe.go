package mysql

import (
	"context"
	"slices"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// Observe implements [backend.Backend]: one read for each chunk.
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	if err := b.enter(""); err != nil {
		return nil, err
	}
	for part := range slices.Chunk(seen, chunk) {
		err := b.call(ctx, describe("observe", len(part), part[0].Election), func(s *session) error {
			names := make([]string, len(part))
			for i, l := range part {
				names[i] = l.Election
			}
			_, rows, err := s.read(ctx, lightSQL, names, part)
			if err != nil {
				return err
			}
			for i := range rows {
				if part[i].Version == "" || rows[i].Differs(part[i]) {
					changed = append(changed, rows[i].Lease)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// List implements [backend.Backend].
func (b *Backend) List(ctx context.Context, from string, limit int) (list []backend.Record, err error) {
	if err := b.enter(""); err != nil {
		return nil, err
	}
	err = b.call(ctx, "list", func(s *session) error {
		list = nil
		rows, err := s.list(ctx, from, limit)
		for i := range rows {
			r := &rows[i]
			record := backend.Record{Lease: r.Lease, History: parseHistory(r.history)}
			if !r.Vacant() {
				record.Elected = r.elected
			}
			list = append(list, record)
		}
		return err
	})
	return list, err
}

func (s *session) list(ctx context.Context, from string, limit int) (rows []row, err error) {
	result, err := s.query(ctx, s.text[listSQL], []byte(from), limit+1)
	if err != nil {
		return nil, err
	}
	defer result.Close()
	scan := newScan(true)
	var st status
	for result.Next() {
		if err := result.Scan(scan.into...); err != nil {
			return nil, err
		}
		if len(scan.name) == 0 {
			if st, err = scan.status(); err != nil {
				return nil, err
			}
			continue
		}
		var r row
		r.Election = clean.Text(string(scan.name), backend.MaxName, false)
		scan.lease(&r, r.Election, nil, nil)
		if r.classify(&st, s.backend.owner.Nonce()); len(rows) < limit {
			rows = append(rows, r)
		}
	}
	if st.server == "" && result.Err() == nil {
		return nil, s.backend.missingOwnRow()
	}
	return rows, result.Err()
}
