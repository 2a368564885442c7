package mysql

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

// chunk is how many elections one statement is about.
const chunk = 1000

// A status has what the table's own row says, and the server that answered.
type status struct {
	server         string        // identity of the server that answered
	writer         string        // server that made the last election; "" if sameServer
	sameServer     bool          // the server that answered made it
	made           uint64        // elections ever made
	count          uint64        // elections that have a row; only if the query counts them
	maxTTL         time.Duration // greatest TTL of a bid
	now            time.Time     // of the server, for people
	uncleanRestart bool          // the server may have lost commits, or the tables were recreated
	volatile       bool          // the server does not keep every commit, or once did not
	nonce          string        // of the tables: changes when they are recreated
	recreations    uint64        // changes whenever a deleted row is recreated
	boot           string        // which start of which server answered; only if volatile
	verifiedBoot   string        // start of a volatile server that a process has seen for the greatest TTL
	restarts       int           // restarts of servers that this process has noticed
}

// A row is a lease and what only this package needs.
type row struct {
	backend.Lease
	found         bool
	heartbeat     uint64
	sameServer    bool   // the answering server wrote it last
	writer        string // the server that did, if not; any bytes
	unknownHolder bool   // Holder is raw and lacks address and metadata

	// Only in full reads, and for leases that have no row.
	lastTerm uint64 // the greater of the terms in the lease's row and the term's row
	hasTerm  bool   // there is a term row

	// Only in full reads.
	history string
	elected time.Time
}

// read reads leases by name, in the order of names. It reads leases without a row again
// together with the count of all rows, in one statement, and then their terms: an election
// that has a term was led once. seen may be nil; it has what the caller knows of each name.
func (s *session) read(ctx context.Context, template string, names []string, seen []backend.Lease) (status, []row, error) {
	st, rows, err := s.readOnce(ctx, template, "0", names, seen)
	if err != nil {
		return st, nil, err
	}
	var missing []int
	var missingNames []string
	for i := range rows {
		if !rows[i].found {
			missing, missingNames = append(missing, i), append(missingNames, names[i])
		}
	}
	if missing == nil {
		return st, rows, nil
	}
	st, again, err := s.readOnce(ctx, template, s.text[countSQL], missingNames, nil)
	if err != nil {
		return st, nil, err
	}
	args := make([]any, len(missingNames))
	for i, name := range missingNames {
		args[i] = []byte(name)
	}
	terms, err := s.termsOf(ctx, s.fill(orphansSQL, placeholders("?", len(args))), args)
	if err != nil {
		return st, nil, err
	}
	for i, at := range missing {
		if r := &again[i]; !r.found {
			r.lastTerm, r.hasTerm = terms[names[at]]
			r.classify(&st, s.backend.owner.Nonce())
		}
		rows[at] = again[i]
	}
	return st, rows, nil
}

func (s *session) readOnce(ctx context.Context, template, count string, names []string, seen []backend.Lease) (status, []row, error) {
	began, self := time.Now(), s.backend.owner.Nonce()
	at := make(map[string]int, len(names))
	args := make([]any, len(names))
	for i, name := range names {
		at[name], args[i] = i, []byte(name)
	}
	text := strings.Replace(s.fill(template, placeholders("?", len(names))), "{count}", count, 1)
	result, err := s.query(ctx, text, args...)
	if err != nil {
		return status{}, nil, err
	}
	defer result.Close()
	scan := newScan(template != lightSQL)
	var st status
	rows := make([]row, len(names))
	for result.Next() {
		if err := result.Scan(scan.into...); err != nil {
			return status{}, nil, err
		}
		if len(scan.name) == 0 {
			if st, err = scan.status(); err != nil {
				return status{}, nil, err
			}
			continue
		}
		i, ok := at[string(scan.name)]
		if !ok {
			continue
		}
		var known *backend.Lease
		if seen != nil {
			known = &seen[i]
		}
		scan.lease(&rows[i], names[i], known, &s.backend.candidates)
	}
	if err := result.Err(); err != nil {
		return status{}, nil, err
	}
	if err := s.classifyServer(ctx, &st, began); err != nil {
		return status{}, nil, err
	}
	for i := range rows {
		rows[i].Election = names[i]
		rows[i].classify(&st, self)
	}
	if err := s.readCandidates(ctx, rows); err != nil {
		return status{}, nil, err
	}
	return st, rows, nil
}

// classifyServer decides whether the server that answered can be relied on, and completes
// st. See docs/design/mysql.md, "Unclean restarts".
func (s *session) classifyServer(ctx context.Context, st *status, began time.Time) error {
	if st.server == "" {
		return s.backend.missingOwnRow()
	}
	st.volatile = s.backend.servers.recordVolatile(st.volatile)
	if st.volatile {
		// A crash may have lost the last commits, and with them a grant that another
		// process still relies on.
		var err error
		if st.boot, err = s.boot(ctx, st.server); err != nil {
			return err
		}
		st.uncleanRestart, st.restarts = s.backend.servers.recordBoot(st.boot, st.verifiedBoot, st.maxTTL, began, time.Now())
	}
	if s.backend.servers.tablesRecreated(st.nonce, st.maxTTL, time.Now()) {
		st.uncleanRestart = true
	}
	changed, err := s.backend.servers.recordAnswer(st.server, st.maxTTL, time.Now())
	if changed {
		s.backend.closeIdleConns()
	}
	return err
}

// closeIdleConns closes the idle connections, which lead to a server that was replaced.
func (b *Backend) closeIdleConns() {
	b.db.SetMaxIdleConns(0)
	b.db.SetMaxIdleConns(maxConns)
}

// boot returns which start of the server this is: the second in which it started. The
// server's running time would not do, since it jumps with the server's clock.
func (s *session) boot(ctx context.Context, server string) (string, error) {
	rows, err := s.query(ctx, bootSQL)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var second uint64
	for rows.Next() {
		if err := rows.Scan(&second); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d %s", second, server), rows.Err()
}

// classify computes Version and ObserveFor: what a challenger must see unchanged, and for how
// long. self is the nonce of this process. See docs/design/mysql.md, "What a challenger
// observes, and for how long".
func (r *row) classify(st *status, self backend.Nonce) {
	ref := st.server // what must stay unchanged beside the heartbeat
	defer func() { r.setVersion(st, ref) }()
	switch {
	case !r.found:
		// The election is new, or its row was deleted or renamed, or the server that had
		// the row is gone.
		lost := st.made != st.count || r.hasTerm
		ref += fmt.Sprintf(" none %s %d", printableWriter(st.sameServer, st.writer), int64(st.made-st.count))
		if lost { // only this differs if the row was recreated and deleted again
			ref += fmt.Sprintf(" %x %d", st.recreations, r.lastTerm)
		}
		if lost || !st.sameServer || st.uncleanRestart {
			r.ObserveFor = st.maxTTL
		}
		return
	case !r.sameServer:
		ref += " after " + printableWriter(false, r.writer)
	}
	switch {
	case !r.sameServer || st.uncleanRestart:
		// This server may have lost what was granted, to whom and for how long.
		r.ObserveFor = st.maxTTL
	case r.Vacant(), r.Holder.Nonce == self:
		r.ObserveFor = 0
	case r.TTL <= 0:
		r.ObserveFor = st.maxTTL // edited manually
	default:
		r.ObserveFor = r.TTL
	}
}

// setVersion makes the Version. If it is the known one, it makes no garbage.
func (r *row) setVersion(st *status, ref string) {
	var buf [256]byte
	v := append(strconv.AppendUint(buf[:0], r.heartbeat, 36), ' ')
	v = append(v, ref...)
	if st.uncleanRestart { // it begins a new observation, as do its end and the next restart, even if ObserveFor is the same
		v = fmt.Append(v, " unclean ", st.restarts)
	}
	if string(v) != r.Version {
		r.Version = string(v)
	}
}

// printableWriter returns the identity of a server in printable form, at most 200 bytes: any
// account that can write the table may have written it.
func printableWriter(same bool, writer string) string {
	if same {
		return "same"
	}
	if quoted := strconv.QuoteToASCII(writer); len(quoted) <= 200 {
		return quoted
	}
	return fmt.Sprintf("forged %x", sha256.Sum256([]byte(writer)))
}
