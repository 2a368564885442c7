package mysql

import (
	"context"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// makeElections grants elections that have no row yet, and makes the rows. It is
// the one place with a transaction. It locks the row of the table itself first,
// so one maker is at work at a time; its numbers are looked at again under that
// lock, and written with the new rows. A maker that is stopped or cut off in the
// middle keeps other makers waiting for two seconds at most.
func (s *session) createElections(ctx context.Context, bids []backend.Bid, missing []int, answers []backend.Answer) (err error) {
	if _, err := s.exec(ctx, createLimitSQL); err != nil {
		return err
	}
	defer func() {
		// The next user of the connection may take its time.
		if _, e := s.exec(ctx, idleLimitSQL); e != nil {
			drop(s.conn)
		}
	}()
	if _, err := s.exec(ctx, "START TRANSACTION"); err != nil {
		return err
	}
	defer func() {
		if err != nil { // also if the COMMIT was not answered: then nobody knows
			if _, e := s.exec(ctx, "ROLLBACK"); e != nil {
				drop(s.conn)
			}
		}
	}()
	st, err := s.lockOwnRow(ctx)
	if err != nil {
		return err
	}
	names := make([]any, len(missing))
	for n, i := range missing {
		names[n] = []byte(bids[i].Election)
	}
	there, err := s.termsOf(ctx, s.fill(existingSQL, placeholders("?", len(names))), names)
	if err != nil {
		return err
	}
	last, err := s.termsOf(ctx, s.fill(termsSQL, placeholders("?", len(names))), names)
	if err != nil {
		return err
	}
	// The greatest term of all: whatever the rows that are gone had, it came from
	// the same failovers.
	var greatest uint64
	if !st.sameServer || st.made != st.count {
		if greatest, err = s.greatestTerm(ctx); err != nil {
			return err
		}
	}
	heartbeat := newHeartbeat()
	terms := make(map[int]uint64)
	var leases, newTerms []any
	var made []int
	fresh := uint64(0)
	for _, i := range missing {
		bid := bids[i]
		old, survived := last[bid.Election]
		r := row{Lease: backend.Lease{Election: bid.Election}, lastTerm: old, hasTerm: survived}
		r.classify(&st, "")
		if _, ok := there[bid.Election]; ok || !r.Unchanged(bid.Expected) {
			continue // refused, once it is known what there is: see confirmMade
		}
		// Without a row nobody can say which server wrote last. What st says is as
		// lasting as a row, unlike carefulness after a restart: terms follow the
		// server's clock through that.
		// Where no election was ever made, there is no term that this one must exceed: so
		// tables that were made by hand, of which no server is known, need no jump.
		virgin := st.writer == "" && st.made == 0 && greatest == 0
		foreign := survived || !st.sameServer && !virgin || st.made != st.count || st.uncleanRestart && !st.volatile
		term, err := backend.NextTerm(max(old, greatest), foreign, bid.MinTerm, st.now)
		if err == nil && foreign {
			// Once more: a failover may have lost a grant that was above the age of
			// the one before (see grown), which went with the row.
			term, err = backend.NextTerm(term, true, bid.MinTerm, st.now)
		}
		if err != nil {
			answers[i] = backend.Answer{Err: fmt.Errorf("mysql: acquire %q: %w", bid.Election, err)}
			continue
		}
		c, name := bid.Candidate, []byte(bid.Election)
		if survived { // its row was deleted
			if _, err := s.exec(ctx, s.text[raiseTermSQL], term, []byte(c.Nonce), []byte(c.ID), name, term); err != nil {
				return err
			}
		} else {
			fresh++
			newTerms = append(newTerms, name, term, []byte(c.Nonce), []byte(c.ID))
		}
		leases = append(leases, name, []byte(c.ID), []byte(c.Nonce), []byte(c.Address), []byte(c.Metadata), term, heartbeat,
			microseconds(bid.TTL), microseconds(bid.Renew), microseconds(bid.TTL))
		made, terms[i] = append(made, i), term
		s.backend.candidates.add(candidateKey{c.ID, c.Nonce}, c)
	}
	if made != nil {
		if _, err := s.exec(ctx, s.fill(createLeaseSQL, placeholders(s.text[createLeaseRow], len(made))), leases...); err != nil {
			return err
		}
		if newTerms != nil {
			if _, err := s.exec(ctx, s.fill(createTermSQL, placeholders("(?, ?, ?, ?)", int(fresh))), newTerms...); err != nil {
				return err
			}
		}
		if len(made) > int(fresh) {
			st.recreations = newHeartbeat() // who watches rows that are gone must begin anew
		}
		// An election whose row was deleted is counted already, unless somebody has
		// made the count right since.
		counted := max(st.made+fresh, st.count+uint64(len(made)))
		if _, err := s.exec(ctx, s.text[updateOwnRowSQL], counted, st.recreations); err != nil {
			return err
		}
	}
	if _, err := s.exec(ctx, "COMMIT"); err != nil {
		return err
	}
	return s.confirmCreated(ctx, bids, missing, terms, heartbeat, answers)
}

// lockOwn locks and reads the row of the table itself and counts the others.
func (s *session) lockOwnRow(ctx context.Context) (st status, err error) {
	began := time.Now()
	rows, err := s.query(ctx, s.text[lockOwnRowSQL])
	if err != nil {
		return st, err
	}
	defer rows.Close()
	scan := newScan(false)
	for rows.Next() {
		if err := rows.Scan(scan.into...); err != nil {
			return st, err
		}
		if st, err = scan.status(); err != nil {
			return st, err
		}
	}
	if err := rows.Err(); err != nil {
		return st, err
	}
	count, err := s.query(ctx, s.text[countRowsSQL])
	if err != nil {
		return st, err
	}
	defer count.Close()
	for count.Next() {
		if err := count.Scan(&st.count); err != nil {
			return st, err
		}
	}
	if err := count.Err(); err != nil {
		return st, err
	}
	return st, s.classifyServer(ctx, &st, began)
}

// greatestTerm returns the greatest term in the tables, without absurd ones that
// somebody has planted.
func (s *session) greatestTerm(ctx context.Context) (term uint64, err error) {
	rows, err := s.query(ctx, s.text[greatestTermSQL])
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&term); err != nil {
			return 0, err
		}
	}
	return term, rows.Err()
}

// termsOf returns the rows of a query for names and terms.
func (s *session) termsOf(ctx context.Context, text string, names []any) (map[string]uint64, error) {
	rows, err := s.query(ctx, text, names...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	terms := make(map[string]uint64)
	for rows.Next() {
		var name string
		var term uint64
		if err := rows.Scan(&name, &term); err != nil {
			return nil, err
		}
		terms[name] = term
	}
	return terms, rows.Err()
}

// confirmMade reads back what was made. Only what reads back as it was written
// is granted.
func (s *session) confirmCreated(ctx context.Context, bids []backend.Bid, missing []int, terms map[int]uint64, heartbeat uint64, answers []backend.Answer) error {
	names := make([]string, len(missing))
	for n, i := range missing {
		names[n] = bids[i].Election
	}
	_, rows, err := s.read(ctx, lightSQL, names, nil)
	if err != nil {
		return err
	}
	for n, i := range missing {
		r := &rows[n]
		term, made := terms[i]
		switch {
		case answers[i].Err != nil:
		case made && r.found && r.sameServer && r.Holder.Nonce == bids[i].Candidate.Nonce && r.Term == term && r.Heartbeat == heartbeat:
			s.backend.notifier.markHeld(r.Election)
			answers[i] = backend.Answer{Lease: r.Lease, Outcome: backend.Granted, ValidFor: bids[i].TTL}
		default:
			answers[i] = backend.Answer{Lease: r.Lease, Outcome: backend.Refused}
		}
	}
	return nil
}
