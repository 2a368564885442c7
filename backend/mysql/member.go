package mysql

import (
	"context"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// Announce implements [backend.Backend] with one UPDATE. The first time it reuses a row of a
// process that has been gone for a day, or adds a row.
func (b *Backend) Announce(ctx context.Context, m backend.Member) error {
	if err := b.enter(m.Nonce); err != nil {
		return err
	}
	b.takeNotifyLock(ctx)
	return b.call(ctx, "announce", func(s *session) error {
		nonce := []byte(m.Nonce)
		columns := []any{[]byte(m.ID), []byte(m.Address), []byte(m.Metadata), []byte(clean.Text(m.Stage, backend.MaxStage, false)), []byte(m.Elections), microseconds(m.TTL)}
		first := append([]any{nonce}, columns...)
		// seen_at changes with each statement, so that every matched row counts as changed.
		if n, err := s.exec(ctx, s.text[announceSQL], append(columns, nonce)...); err != nil || n > 0 {
			return err
		}
		if n, err := s.exec(ctx, s.text[reuseMemberSQL], first...); n > 0 || err != nil && !is(err, errDuplicate) {
			return err
		}
		_, err := s.exec(ctx, s.text[createMemberSQL], first...)
		if is(err, errDuplicate) {
			err = nil // an earlier call arrived late
		}
		return err
	})
}

// Members implements [backend.Backend].
func (b *Backend) Members(ctx context.Context, from string, limit int) (list []backend.Member, err error) {
	if err := b.enter(""); err != nil {
		return nil, err
	}
	err = b.call(ctx, "members", func(s *session) error {
		list = nil
		rows, err := s.query(ctx, s.text[membersSQL], []byte(from), limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var m backend.Member
			var ttl uint64
			var age int64
			if err := rows.Scan(&m.Nonce, &m.ID, &m.Address, &m.Metadata, &m.Stage, &m.Elections, &ttl, &age); err != nil {
				return err
			}
			m.TTL = time.Duration(min(ttl, uint64(maxDuration/time.Microsecond))) * time.Microsecond
			m.Age = time.Duration(min(max(age, 0), int64(maxDuration/time.Microsecond))) * time.Microsecond
			list = append(list, clean.Member(m))
		}
		return rows.Err()
	})
	return list, err
}
