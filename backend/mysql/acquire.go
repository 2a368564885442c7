package mysql

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// grantChunk is how many elections one grant or release is about. Each of its rows has a
// history of up to 4 KiB.
const grantChunk = 250

// Acquire implements [backend.Backend]. For each chunk, one read, one UPDATE that grants the
// leases that are still as the challenger observed them, pinned to what was read, and one
// read that confirms. The rows of new elections are created in a transaction.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.enter(bids[0].Candidate.Nonce); err != nil {
		return nil, err
	}
	answers := make([]backend.Answer, len(bids))
	// Sorted, so that all processes create rows in the same order.
	order := make([]int, len(bids))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(bids[i].Election, bids[j].Election) })
	var failed error
	for part := range slices.Chunk(order, grantChunk) {
		what := describe("acquire", len(part), bids[part[0]].Election)
		err := b.call(ctx, what, func(s *session) error { return s.acquire(ctx, bids, part, answers) })
		if failed = recordError(answers, part, err); failed != nil {
			break // the rest would fail too
		}
	}
	b.takeNotifyLock(ctx)
	return answers, failed
}

// describe says what a call does, for errors.
func describe(verb string, n int, first string) string {
	if n == 1 {
		return fmt.Sprintf("%s %q", verb, first)
	}
	return fmt.Sprintf("%s %d leases", verb, n)
}

// recordError sets err in those answers of one part that have no outcome. It returns err if
// the other parts would fail too.
func recordError(answers []backend.Answer, part []int, err error) error {
	if err == nil {
		return nil
	}
	for _, i := range part {
		if answers[i].Outcome == backend.Unknown && answers[i].Err == nil {
			answers[i].Err = err
		}
	}
	if is(err, errLockTimeout, errDeadlock) {
		return nil
	}
	return err
}

var errLocked = fmt.Errorf("%w: the row is locked by another transaction", backend.ErrUnavailable)

func (s *session) acquire(ctx context.Context, bids []backend.Bid, part []int, answers []backend.Answer) error {
	names := make([]string, len(part))
	for n, i := range part {
		names[n] = bids[i].Election
	}
	st, rows, err := s.read(ctx, fullSQL, names, nil)
	if err != nil {
		return err
	}
	var changes []rowChange
	var missing []int
	for n, i := range part {
		bid, r := bids[i], &rows[n]
		// A leftover of our own is granted anew if its server still knows all later
		// grants. Otherwise it is observed like any other lease.
		leftover := r.found && r.Holder.Nonce == bid.Candidate.Nonce && r.sameServer && !st.uncleanRestart
		switch {
		case bid.TTL > st.maxTTL:
			answers[i] = backend.Answer{Err: s.backend.tooLong(bid.Election, bid.TTL, st.maxTTL)}
		case !leftover && !r.Unchanged(bid.Expected), r.MovedTo != bid.Expected.MovedTo:
			answers[i] = backend.Answer{Lease: r.Lease, Outcome: backend.Refused}
		case !r.found:
			missing = append(missing, i)
		default:
			term, err := backend.NextTerm(max(r.termFloor(&st), bid.Expected.Term), !r.sameServer, bid.MinTerm, st.now)
			if err != nil {
				answers[i] = backend.Answer{Err: fmt.Errorf("mysql: acquire %q: %w", bid.Election, err)}
				continue
			}
			if !r.hasTerm {
				if _, err := s.exec(ctx, s.text[healTermSQL], []byte(bid.Election)); err != nil && !is(err, errDuplicate) {
					return err
				}
			}
			changes = append(changes, newRowChange(i, r, &st, term, backend.Failed))
		}
	}
	// Grants come first: creating rows may wait for another process, and fail.
	if err := s.grant(ctx, bids, changes, &st, answers); err != nil {
		return err
	}
	s.recordVerifiedBoot(ctx, &st)
	if missing == nil {
		return nil
	}
	return s.createElections(ctx, bids, missing, answers)
}

// recordVerifiedBoot writes into the table that this process has seen this start of the
// server for the greatest TTL, so that a process that begins later need not wait as long
// again. If that fails, the others wait.
func (s *session) recordVerifiedBoot(ctx context.Context, st *status) {
	if st.volatile && !st.uncleanRestart && st.boot != st.verifiedBoot {
		s.exec(ctx, s.text[recordVerifiedBootSQL], []byte(st.server), []byte(st.boot))
	}
}

// termFloor returns the last known term plus the age of its grant. A crash of a volatile
// server may have undone a later grant, and the next one must not repeat its term. See
// docs/design/mysql.md, "Terms".
func (r *row) termFloor(st *status) uint64 {
	return r.lastTerm + uint64(min(max(st.now.Sub(r.elected), 0), maxDuration)/time.Microsecond)
}

// tooLong returns the error of a TTL that is greater than the one in the table, for which
// the members observe.
func (b *Backend) tooLong(election string, ttl, greatest time.Duration) error {
	if ttl > maxDuration {
		return fmt.Errorf("mysql: election %q: %w: TTL is %v, more than %v is never allowed", election, backend.ErrInvalid, ttl, maxDuration)
	}
	table := b.named().lease
	return fmt.Errorf("mysql: election %q: %w: TTL is %v, the greatest allowed in %s is %v; once all servers should allow it, raise it with UPDATE %s SET ttl_us = %d WHERE name = '';",
		election, backend.ErrDenied, ttl, table, greatest, table, microseconds(ttl))
}

// A rowChange is one row of the values that a grant or release joins with.
type rowChange struct {
	index     int // in the caller's batch
	name      string
	term      uint64 // as it was read
	heartbeat uint64 // as it was read; 0 in a release: any
	writer    string // the server column, as it was read
	newTerm   uint64 // the term to grant
	ended     backend.End
	lastID    string
	history   string
}

func newRowChange(index int, r *row, st *status, newTerm uint64, how backend.End) rowChange {
	c := rowChange{index: index, name: r.Election, term: r.Term, heartbeat: r.heartbeat, writer: r.writer, newTerm: newTerm}
	if r.sameServer {
		c.writer = st.server
	}
	c.ended, c.lastID, c.history = r.afterEnd(how, st)
	return c
}

// changeValues returns changes as the text of a table, and its arguments.
func (s *session) changeValues(changes []rowChange) (text string, args []any) {
	text = s.text[changeSQL]
	for i, c := range changes {
		if i > 0 {
			text += s.text[moreChangesSQL]
		}
		args = append(args, []byte(c.name), c.term, c.heartbeat, []byte(c.writer), c.newTerm, []byte(c.ended), []byte(c.lastID), []byte(c.history))
	}
	return text, args
}

// grant makes the changes and reads back their outcome. Bids of one process differ only
// in the TTL.
func (s *session) grant(ctx context.Context, bids []backend.Bid, changes []rowChange, st *status, answers []backend.Answer) error {
	type values struct {
		backend.Candidate
		ttl, renew time.Duration
	}
	groups := make(map[values][]rowChange)
	for _, c := range changes {
		bid := bids[c.index]
		k := values{bid.Candidate, bid.TTL, bid.Renew}
		groups[k] = append(groups[k], c)
	}
	for k, group := range groups {
		heartbeat := newHeartbeat()
		text, args := s.grantStatement(st.server, group, k.Candidate, heartbeat, k.ttl, k.renew)
		s.backend.candidates.add(candidateKey{k.ID, string(k.Nonce)}, k.Candidate)
		if _, err := s.exec(ctx, text, args...); err != nil {
			return err
		}
		names := make([]string, len(group))
		for n, c := range group {
			names[n] = c.name
		}
		// In parallel with the read, so that the caller does not wait for the lock as well.
		var locking sync.WaitGroup
		s.backend.notifier.markHeld(names...)
		locking.Go(func() { s.backend.takeNotifyLock(ctx) })
		_, rows, err := s.read(ctx, lightSQL, names, nil)
		locking.Wait()
		if err != nil {
			return err
		}
		for n, c := range group {
			r := &rows[n]
			switch {
			case r.found && r.sameServer && r.Holder.Nonce == k.Nonce && r.Term == c.newTerm && r.heartbeat == heartbeat:
				answers[c.index] = backend.Answer{Lease: r.Lease, Outcome: backend.Granted, ValidFor: k.ttl}
			case r.Term == c.term && r.heartbeat == c.heartbeat:
				s.backend.notifier.markReleased(c.name)
				answers[c.index] = backend.Answer{Err: fmt.Errorf("mysql: acquire %q: %w", c.name, errLocked)}
			default:
				s.backend.notifier.markReleased(c.name)
				answers[c.index] = backend.Answer{Lease: r.Lease, Outcome: backend.Refused}
			}
		}
	}
	return nil
}

// grantStatement returns the statement that makes the changes on that server, and its
// arguments.
func (s *session) grantStatement(server string, changes []rowChange, candidate backend.Candidate, heartbeat uint64, ttl, renew time.Duration) (text string, args []any) {
	text, args = s.changeValues(changes)
	id, nonce := []byte(candidate.ID), []byte(candidate.Nonce)
	return s.fill(grantSQL, text), append(args, []byte(server), heartbeat, id, id, nonce, nonce, []byte(candidate.Address), []byte(candidate.Metadata),
		microseconds(ttl), microseconds(renew), microseconds(ttl))
}

// newHeartbeat returns a random heartbeat, never 0, which means "any" in a release.
func newHeartbeat() uint64 { return rand.Uint64() | 1 }
