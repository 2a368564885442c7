package mysql

import (
	"context"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// createElections grants elections that have no row yet, and creates their rows, in the only
// transaction of this package. See docs/design/mysql.md, "The first grant of an election".
func (s *session) createElections(ctx context.Context, bids []backend.Bid, missing []int, answers []backend.Answer) (err error) {
	// A creator that is stopped in the middle delays the others for two seconds at most.
	if _, err := s.exec(ctx, createLimitSQL); err != nil {
		return err
	}
	defer func() {
		if _, e := s.exec(ctx, idleLimitSQL); e != nil {
			drop(s.conn)
		}
	}()
	c, err := s.createRows(ctx, bids, missing, answers)
	if err != nil {
		return err
	}
	return s.confirmCreated(ctx, bids, missing, c, answers)
}

// createRows runs the transaction.
func (s *session) createRows(ctx context.Context, bids []backend.Bid, missing []int, answers []backend.Answer) (c *creation, err error) {
	if _, err := s.exec(ctx, "START TRANSACTION"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil { // or if the COMMIT was not answered: then the outcome is unknown
			if _, e := s.exec(ctx, "ROLLBACK"); e != nil {
				drop(s.conn)
			}
		}
	}()
	c, err = s.readLocked(ctx, bids, missing)
	if err != nil {
		return nil, err
	}
	for _, i := range missing {
		if err := c.add(ctx, s, bids[i], i, answers); err != nil {
			return nil, err
		}
	}
	if err := c.write(ctx, s); err != nil {
		return nil, err
	}
	_, err = s.exec(ctx, "COMMIT")
	return c, err
}

// A creation is one transaction that creates the rows of elections: what it has read under
// the lock, and what it writes.
type creation struct {
	st       status
	existing map[string]uint64 // elections that have a row by now
	last     map[string]uint64 // terms of elections whose row was deleted

	heartbeat uint64
	granted   map[int]uint64 // new terms, by index of the bid
	leases    []any          // values of the new rows
	terms     []any
	newTerms  uint64 // how many terms have no row yet
}

// readLocked locks the table's own row and reads what the grants depend on.
func (s *session) readLocked(ctx context.Context, bids []backend.Bid, missing []int) (*creation, error) {
	c := &creation{heartbeat: newHeartbeat(), granted: make(map[int]uint64)}
	var err error
	if c.st, err = s.lockOwnRow(ctx); err != nil {
		return nil, err
	}
	names := make([]any, len(missing))
	for n, i := range missing {
		names[n] = []byte(bids[i].Election)
	}
	if c.existing, err = s.termsOf(ctx, s.fill(existingSQL, placeholders("?", len(names))), names); err != nil {
		return nil, err
	}
	c.last, err = s.termsOf(ctx, s.fill(termsSQL, placeholders("?", len(names))), names)
	return c, err
}

// add adds the rows of one election, if the bid can be granted. If not, confirmCreated
// refuses it.
func (c *creation) add(ctx context.Context, s *session, bid backend.Bid, index int, answers []backend.Answer) error {
	old, hadTerm := c.last[bid.Election]
	r := row{Lease: backend.Lease{Election: bid.Election}, lastTerm: old, hasTerm: hadTerm}
	r.classify(&c.st, "")
	if _, ok := c.existing[bid.Election]; ok || !r.Unchanged(bid.Expected) {
		return nil
	}
	term, err := c.nextTerm(old, hadTerm, bid.MinTerm)
	if err != nil {
		answers[index] = backend.Answer{Err: fmt.Errorf("mysql: acquire %q: %w", bid.Election, err)}
		return nil
	}
	candidate, name := bid.Candidate, []byte(bid.Election)
	if hadTerm {
		if _, err := s.exec(ctx, s.text[raiseTermSQL], term, []byte(candidate.Nonce), []byte(candidate.ID), name, term); err != nil {
			return err
		}
	} else {
		c.newTerms++
		c.terms = append(c.terms, name, term, []byte(candidate.Nonce), []byte(candidate.ID))
	}
	c.leases = append(c.leases, name, []byte(candidate.ID), []byte(candidate.Nonce), []byte(candidate.Address), []byte(candidate.Metadata),
		term, c.heartbeat, microseconds(bid.TTL), microseconds(bid.Renew), microseconds(bid.TTL))
	c.granted[index] = term
	s.backend.candidates.add(candidateKey{candidate.ID, string(candidate.Nonce)}, candidate)
	return nil
}

// nextTerm returns the term of a new row. See docs/design/mysql.md, "Terms".
func (c *creation) nextTerm(old uint64, hadTerm bool, floor uint64) (uint64, error) {
	st := &c.st
	// Where no election was ever made there is no term to exceed, and tables that were
	// created by hand, whose server is not known, need no jump. An unclean restart of a
	// volatile server needs none either: terms follow the server's clock through it.
	neverUsed := st.writer == "" && st.made == 0
	lost := hadTerm || !st.sameServer && !neverUsed || st.made != st.count || st.uncleanRestart && !st.volatile
	return backend.NextTerm(old, lost, floor, st.now)
}

// write writes the rows and the counts.
func (c *creation) write(ctx context.Context, s *session) error {
	created := len(c.granted)
	if created == 0 {
		return nil
	}
	if _, err := s.exec(ctx, s.fill(createLeaseSQL, placeholders(s.text[createLeaseRow], created)), c.leases...); err != nil {
		return err
	}
	if c.terms != nil {
		if _, err := s.exec(ctx, s.fill(createTermSQL, placeholders("(?, ?, ?, ?)", int(c.newTerms))), c.terms...); err != nil {
			return err
		}
	}
	if created > int(c.newTerms) {
		c.st.recreations = newHeartbeat() // challengers must observe missing rows anew
	}
	// An election whose row was deleted is counted already, unless an operator has
	// corrected the count since.
	counted := max(c.st.made+c.newTerms, c.st.count+uint64(created))
	_, err := s.exec(ctx, s.text[updateOwnRowSQL], counted, c.st.recreations)
	return err
}

// lockOwnRow locks and reads the table's own row and counts the others.
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

// termsOf runs a query for names and terms.
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

// confirmCreated reads back what was created. Only what reads back as it was written is
// granted; all else is refused.
func (s *session) confirmCreated(ctx context.Context, bids []backend.Bid, missing []int, c *creation, answers []backend.Answer) error {
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
		term, created := c.granted[i]
		switch {
		case answers[i].Err != nil:
		case created && r.found && r.sameServer && r.Holder.Nonce == bids[i].Candidate.Nonce && r.Term == term && r.heartbeat == c.heartbeat:
			s.backend.notifier.markHeld(r.Election)
			answers[i] = backend.Answer{Lease: r.Lease, Outcome: backend.Granted, ValidFor: bids[i].TTL}
		default:
			answers[i] = backend.Answer{Lease: r.Lease, Outcome: backend.Refused}
		}
	}
	return nil
}
