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

// grantChunk is how many elections one grant or release is about. Its rows carry
// histories of up to 4 KiB.
const grantChunk = 250

// Acquire implements [backend.Backend]. For each chunk: one reading; one UPDATE
// that grants what is still as it was watched, pinned to what was read; one
// reading that confirms. Elections without a row are made in a transaction.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.enter(bids[0].Candidate.Nonce); err != nil {
		return nil, err
	}
	answers := make([]backend.Answer, len(bids))
	// Sorted, so that whoever makes rows makes them in the same order.
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
			break // the rest would fare no better
		}
	}
	b.takeNotifyLock(ctx)
	return answers, failed
}

// about says what a call is about, for errors.
func describe(verb string, n int, first string) string {
	if n == 1 {
		return fmt.Sprintf("%s %q", verb, first)
	}
	return fmt.Sprintf("%s %d leases", verb, n)
}

// blame notes err in the answers of one part that have no outcome. It returns err if that concerns
// the rest as well.
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
	var offers []rowChange
	var missing []int
	for n, i := range part {
		bid, r := bids[i], &rows[n]
		// A leftover of our own is granted anew, if its server still knows all
		// that was granted since. Otherwise it is watched like anybody else's.
		mine := r.found && r.Holder.Nonce == bid.Candidate.Nonce && r.sameServer && !st.uncleanRestart
		switch {
		case bid.TTL > st.maxTTL:
			answers[i] = backend.Answer{Err: s.backend.tooLong(bid.Election, bid.TTL, st.maxTTL)}
		case !mine && !r.Unchanged(bid.Expected), r.MovedTo != bid.Expected.MovedTo:
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
			offers = append(offers, newRowChange(i, r, &st, term, backend.Failed))
		}
	}
	// In this order: making may wait for another maker, and fail.
	if err := s.grant(ctx, bids, offers, &st, answers); err != nil {
		return err
	}
	s.recordVerifiedBoot(ctx, &st)
	if missing == nil {
		return nil
	}
	return s.createElections(ctx, bids, missing, answers)
}

// vouch notes in the table that this start of the server was seen for the greatest TTL,
// so that a process that begins now need not wait as long once more. If that fails
// they wait.
func (s *session) recordVerifiedBoot(ctx context.Context, st *status) {
	if st.volatile && !st.uncleanRestart && st.boot != st.verifiedBoot {
		s.exec(ctx, s.text[recordVerifiedBootSQL], []byte(st.server), []byte(st.boot))
	}
}

// grown is the last term known, and the age of that grant. A crash of a server that
// does not keep every commit may have undone a later grant; so may two failovers,
// there and back. The next one over the same record must not repeat its term. Terms
// may be ahead of the clock, so that does not see to it. The age of the last grant
// does, which only grows from one to the other: terms go as fast as time. (Not the
// age of the record: whoever is the holder again may release, which makes it young.)
func (r *row) termFloor(st *status) uint64 {
	return r.lastTerm + uint64(min(max(st.now.Sub(r.elected), 0), maxDuration)/time.Microsecond)
}

// tooLong explains that a TTL exceeds what the members agreed to watch for.
func (b *Backend) tooLong(election string, ttl, most time.Duration) error {
	if ttl > maxDuration {
		return fmt.Errorf("mysql: election %q: %w: TTL is %v, more than %v is never allowed", election, backend.ErrInvalid, ttl, maxDuration)
	}
	table := b.named().lease
	return fmt.Errorf("mysql: election %q: %w: TTL is %v, the greatest allowed in %s is %v; once all servers should allow it, raise it with UPDATE %s SET ttl_us = %d WHERE name = '';",
		election, backend.ErrDenied, ttl, table, most, table, microseconds(ttl))
}

// An offer is one row of the values that a grant or release joins with.
type rowChange struct {
	index     int // in the caller's batch
	name      string
	term      uint64 // the row's, as it was read
	heartbeat uint64
	writer    string // the server column, as it was read
	newTerm   uint64 // the term to grant
	ended     backend.End
	lastID    string
	lastNonce string
	history   string
}

func newRowChange(at int, r *row, st *status, next uint64, how backend.End) rowChange {
	o := rowChange{index: at, name: r.Election, term: r.Term, heartbeat: r.Heartbeat, writer: r.writer, newTerm: next}
	if r.sameServer {
		o.writer = st.server
	}
	o.ended, o.lastID, o.lastNonce, o.history = r.afterEnd(how, st)
	return o
}

// offered returns the values as a table, and its arguments.
func (s *session) changeValues(offers []rowChange) (text string, args []any) {
	text = s.text[changeSQL]
	for i, o := range offers {
		if i > 0 {
			text += s.text[moreChangesSQL]
		}
		args = append(args, []byte(o.name), o.term, o.heartbeat, []byte(o.writer), o.newTerm, []byte(o.ended), []byte(o.lastID), []byte(o.lastNonce), []byte(o.history))
	}
	return text, args
}

// grant grants what is offered and reads back what came of it. Bids of one
// process differ in the TTL at most.
func (s *session) grant(ctx context.Context, bids []backend.Bid, offers []rowChange, st *status, answers []backend.Answer) error {
	type terms struct {
		backend.Candidate
		ttl, renew time.Duration
	}
	groups := make(map[terms][]rowChange)
	for _, o := range offers {
		bid := bids[o.index]
		k := terms{bid.Candidate, bid.TTL, bid.Renew}
		groups[k] = append(groups[k], o)
	}
	for k, group := range groups {
		heartbeat := newHeartbeat()
		text, args := s.grantStatement(st.server, group, k.Candidate, heartbeat, k.ttl, k.renew)
		s.backend.candidates.add(candidateKey{k.ID, k.Nonce}, k.Candidate)
		if _, err := s.exec(ctx, text, args...); err != nil {
			return err
		}
		names := make([]string, len(group))
		for n, o := range group {
			names[n] = o.name
		}
		// Meanwhile, since whoever waits for the answer waits for the notification lock as well.
		var notifier sync.WaitGroup
		s.backend.notifier.markHeld(names...)
		notifier.Go(func() { s.backend.takeNotifyLock(ctx) })
		_, rows, err := s.read(ctx, lightSQL, names, nil)
		notifier.Wait()
		if err != nil {
			return err
		}
		for n, o := range group {
			r := &rows[n]
			switch {
			case r.found && r.sameServer && r.Holder.Nonce == k.Nonce && r.Term == o.newTerm && r.Heartbeat == heartbeat:
				answers[o.index] = backend.Answer{Lease: r.Lease, Outcome: backend.Granted, ValidFor: k.ttl}
			case r.Term == o.term && r.Heartbeat == o.heartbeat:
				s.backend.notifier.markReleased(o.name)
				answers[o.index] = backend.Answer{Err: fmt.Errorf("mysql: acquire %q: %w", o.name, errLocked)}
			default:
				s.backend.notifier.markReleased(o.name)
				answers[o.index] = backend.Answer{Lease: r.Lease, Outcome: backend.Refused}
			}
		}
	}
	return nil
}

// granting returns the statement that grants what is offered on that server, and its
// arguments.
func (s *session) grantStatement(server string, offers []rowChange, who backend.Candidate, heartbeat uint64, ttl, renew time.Duration) (text string, args []any) {
	text, args = s.changeValues(offers)
	id, nonce := []byte(who.ID), []byte(who.Nonce)
	return s.fill(grantSQL, text), append(args, []byte(server), heartbeat, id, id, nonce, nonce, []byte(who.Address), []byte(who.Metadata),
		microseconds(ttl), microseconds(renew), microseconds(ttl))
}

// newHeartbeat draws a heartbeat: never 0, which stands for "not seen".
func newHeartbeat() uint64 { return rand.Uint64() | 1 }
