package mysql

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// Renew implements [backend.Backend]. For each chunk, on one connection, one UPDATE gives all
// leases one fresh heartbeat, then one read follows. A lease counts as renewed only if it
// reads back with that heartbeat.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return b.renew(ctx, "renew", held)
}

// Mark implements [backend.Backend].
func (b *Backend) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return b.renew(ctx, "mark", held)
}

func (b *Backend) renew(ctx context.Context, verb string, held []backend.Held) ([]backend.Answer, error) {
	if err := b.enter(held[0].Holder.Nonce); err != nil {
		return nil, err
	}
	answers := make([]backend.Answer, len(held))
	// One statement sets the same values in all of its rows.
	type values struct {
		ttl, renew time.Duration
		to, from   string
	}
	groups := make(map[values][]int, 1)
	for i, l := range held {
		v := values{ttl: l.TTL, renew: l.Renew}
		if verb == "mark" {
			v.to, v.from = l.MovedTo, l.MovedFrom
		}
		groups[v] = append(groups[v], i)
	}
	for _, all := range groups {
		for part := range slices.Chunk(all, chunk) {
			err := b.callNow(ctx, describe(verb, len(part), held[part[0]].Election), func(s *session) error {
				return s.renew(ctx, verb, held, part, answers)
			})
			if failed := recordError(answers, part, err); failed != nil {
				return answers, failed
			}
		}
	}
	return answers, nil
}

func (s *session) renew(ctx context.Context, verb string, held []backend.Held, part []int, answers []backend.Answer) error {
	first := held[part[0]]
	heartbeat := newHeartbeat()
	args := make([]any, 0, 2*len(part)+5)
	names := make([]string, len(part))
	seen := make([]backend.Lease, len(part))
	for n, i := range part {
		l := held[i]
		names[n], seen[n] = l.Election, backend.Lease{Election: l.Election, Holder: l.Holder, Term: l.Term}
		args = append(args, []byte(l.Election), l.Term)
	}
	args = append(args, []byte(first.Holder.Nonce), heartbeat, microseconds(first.TTL), microseconds(first.Renew), microseconds(first.TTL))
	text := renewSQL
	if verb == "mark" {
		text = markSQL
		args = append(args, []byte(first.MovedTo), []byte(first.MovedFrom))
	}
	if _, err := s.exec(ctx, s.fill(text, placeholders("(?, ?)", len(part))), args...); err != nil {
		return err
	}
	st, rows, err := s.read(ctx, lightSQL, names, seen)
	if err != nil {
		return err
	}
	for n, i := range part {
		l, r := held[i], &rows[n]
		stillHeld := r.found && r.sameServer && r.Holder.Nonce == l.Holder.Nonce && r.Term == l.Term && r.Request.Kind != backend.Depose
		switch {
		case stillHeld && l.TTL > st.maxTTL:
			answers[i] = backend.Answer{Err: s.backend.tooLong(l.Election, l.TTL, st.maxTTL)}
		case stillHeld && r.heartbeat == heartbeat:
			answers[i] = backend.Answer{Lease: r.Lease, Outcome: backend.Granted, ValidFor: l.TTL}
		case stillHeld:
			answers[i] = backend.Answer{Err: fmt.Errorf("mysql: %s %q: %w", verb, l.Election, errLocked)}
		default:
			answers[i] = backend.Answer{Lease: r.Lease, Outcome: backend.Refused}
			s.backend.notifier.markReleased(l.Election)
		}
	}
	return nil
}
