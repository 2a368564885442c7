package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// chunk is how many elections one statement is about.
const chunk = 1000

// A status is what the row of the table itself says, and the server beside it.
type status struct {
	server         string        // identity of the server that answered
	writer         string        // who made the last election; "" if that is server
	sameServer     bool          // server made it
	made           uint64        // elections ever made
	count          uint64        // elections that have a row; only if it was asked for
	maxTTL         time.Duration // greatest TTL of a bid
	now            time.Time     // of the server, for people
	uncleanRestart bool          // the server may have lost commits that leases rest on
	volatile       bool          // the server does not keep every commit, or did not once
	nonce          string        // of the tables: another one means that they were made again
	recreations    uint64        // another one whenever a deleted row was made again
	boot           string        // which start of which server answered; only of a volatile one
	verifiedBoot   string        // the start of a volatile server that somebody has seen for the greatest TTL
	restarts       int           // restarts of servers that this process has noticed
}

// A row is a lease with what only this package needs.
type row struct {
	backend.Lease
	found         bool
	sameServer    bool   // the answering server wrote it last
	writer        string // who did, if not; any bytes
	unknownHolder bool   // Holder is raw and lacks address and metadata

	// Only in full readings, and of leases that have no row.
	lastTerm uint64 // the greatest term known, of the lease's and the term's row
	hasTerm  bool   // there is a term row

	// Only in full readings.
	history string
	elected time.Time
}

// read reads leases by name, in their order. Leases without a row are read a
// second time together with the count of all rows, in one statement, and then their
// terms: what has a term was led once. seen, if not nil, has for each name what the
// caller knows already.
func (s *session) read(ctx context.Context, template string, names []string, seen []backend.Lease) (status, []row, error) {
	st, rows, err := s.readOnce(ctx, template, "0", names, seen)
	if err != nil {
		return st, nil, err
	}
	var lost []int
	var lostNames []string
	for i := range rows {
		if !rows[i].found {
			lost, lostNames = append(lost, i), append(lostNames, names[i])
		}
	}
	if lost == nil {
		return st, rows, nil
	}
	st, again, err := s.readOnce(ctx, template, s.text[countSQL], lostNames, nil)
	if err != nil {
		return st, nil, err
	}
	args := make([]any, len(lostNames))
	for i, name := range lostNames {
		args[i] = []byte(name)
	}
	terms, err := s.termsOf(ctx, s.fill(orphansSQL, placeholders("?", len(args))), args)
	if err != nil {
		return st, nil, err
	}
	for i, at := range lost {
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

// judge checks that the server that answered is one to rely on.
func (s *session) classifyServer(ctx context.Context, st *status, began time.Time) error {
	if st.server == "" {
		return s.backend.missingOwnRow()
	}
	st.volatile = s.backend.servers.recordVolatile(st.volatile)
	if st.volatile {
		// A crash may have taken the last commits with it, and with them a grant
		// that somebody still relies on.
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

// forget closes the idle connections: they lead to a server that was replaced.
func (b *Backend) closeIdleConns() {
	b.db.SetMaxIdleConns(0)
	b.db.SetMaxIdleConns(maxConns)
}

// boot asks which start of the server this is. The running time that servers tell is
// counted by their clock, and jumps with it; the second of the start does not.
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

// judge computes Ref and Watch: what a challenger must see unchanged, and for
// how long. self is the nonce of the one who asks.
func (r *row) classify(st *status, self string) {
	if st.uncleanRestart {
		// What was watched before does not count, nor does this count afterwards,
		// even where Watch is the same. Nor does it count after the next restart.
		defer func() { r.Ref += fmt.Sprint(" careful ", st.restarts) }()
	}
	switch {
	case !r.found:
		// No row. Nobody ever led, or the row was deleted or renamed, or the server
		// that had it is gone. The table's own row tells, and the term's.
		lost := st.made != st.count || r.hasTerm
		r.Ref = fmt.Sprintf("%s none %s %d", st.server, printableWriter(st.sameServer, st.writer), int64(st.made-st.count))
		if lost { // one that was made again and deleted again looks the same but for this
			r.Ref += fmt.Sprintf(" %x %d", st.recreations, r.lastTerm)
		}
		if lost || !st.sameServer || st.uncleanRestart {
			r.ObserveFor = st.maxTTL
		}
		return
	case r.sameServer:
		r.Ref = st.server
	default:
		r.Ref = st.server + " after " + printableWriter(false, r.writer)
	}
	switch {
	case !r.sameServer || st.uncleanRestart:
		// A server that has taken over may have lost what the last one granted,
		// to whom and for how long.
		r.ObserveFor = st.maxTTL
	case r.Vacant(), r.Holder.Nonce == self:
		r.ObserveFor = 0
	case r.TTL <= 0:
		r.ObserveFor = st.maxTTL // somebody has edited it
	default:
		r.ObserveFor = r.TTL
	}
}

// ref makes a stamp that anybody may have written fit to be shown.
func printableWriter(same bool, stamp string) string {
	if same {
		return "same"
	}
	return strconv.QuoteToASCII(stamp[:min(len(stamp), 80)])
}

// A scan is where the driver puts the columns of one row. Its bytes belong to
// the driver and are valid until the next row.
type scan struct {
	name, holder, nonce, term, heartbeat, sameServer, writer, ttl, renew, age, ended, lastID, lastNonce, request, requestID, requestNonce, movedTo, movedFrom, server, serverState sql.RawBytes

	address, metadata, history, elected, last sql.RawBytes

	count sql.RawBytes
	full  bool
	into  []any
}

func newScan(full bool) *scan {
	c := &scan{full: full}
	c.into = []any{&c.name, &c.holder, &c.nonce, &c.term, &c.heartbeat, &c.sameServer, &c.writer, &c.ttl, &c.renew, &c.age, &c.ended,
		&c.lastID, &c.lastNonce, &c.request, &c.requestID, &c.requestNonce, &c.movedTo, &c.movedFrom, &c.server, &c.serverState}
	if full {
		c.into = append(c.into, &c.address, &c.metadata, &c.history, &c.elected, &c.last)
	}
	c.into = append(c.into, &c.count)
	return c
}

// status reads the row of the table itself.
func (c *scan) status() (st status, err error) {
	if string(c.holder) != layout {
		return st, fmt.Errorf("%w: the tables have %.80q, this program knows %q; use a version of go-election that fits them", backend.ErrDenied, c.holder, layout)
	}
	st.server, st.sameServer, st.writer = string(c.server), isTrue(c.sameServer), string(c.writer)
	st.nonce, st.recreations = string(c.nonce), parseUint(c.heartbeat)
	st.made, st.count, st.maxTTL = parseUint(c.term), parseUint(c.count), parseDuration(c.ttl)
	st.verifiedBoot = string(c.lastID)
	parts := strings.Fields(string(c.serverState))
	if len(parts) != 3 {
		return st, fmt.Errorf("%w: the server did not tell its state: %.80q", backend.ErrUnavailable, c.serverState)
	}
	if !off(parts[0]) {
		return st, errReadOnly
	}
	st.volatile = parts[1] != "1"
	us, _ := strconv.ParseInt(parts[2], 10, 64)
	st.now = time.UnixMicro(us).UTC()
	return st, nil
}

// lease reads the row of an election. known is what the caller has seen, whose
// strings are used again if they are equal.
func (c *scan) lease(r *row, name string, known *backend.Lease, p *candidateCache) {
	if known == nil {
		known = &backend.Lease{}
	}
	r.found = true
	r.sameServer, r.writer = isTrue(c.sameServer), string(c.writer)
	r.Term, r.Heartbeat = parseUint(c.term), parseUint(c.heartbeat)
	r.TTL, r.Renew = parseDuration(c.ttl), parseDuration(c.renew)
	r.Age = min(max(0, parseSigned(c.age)), maxDuration)
	r.End = backend.End(cleanText(c.ended, string(known.End), 16, false))
	r.LastID, r.LastNonce = cleanText(c.lastID, known.LastID, backend.MaxID, false), cleanText(c.lastNonce, known.LastNonce, 64, false)
	if len(c.request) > 0 {
		r.Request = backend.Request{Election: name, Term: r.Term,
			Kind:  backend.RequestKind(cleanText(c.request, string(known.Request.Kind), 16, false)),
			ID:    cleanText(c.requestID, known.Request.ID, backend.MaxID, false),
			Nonce: cleanText(c.requestNonce, known.Request.Nonce, 64, false)}
	}
	r.MovedTo, r.MovedFrom = cleanText(c.movedTo, known.MovedTo, backend.MaxMark, false), cleanText(c.movedFrom, known.MovedFrom, backend.MaxMark, false)
	switch {
	case len(c.holder) == 0 && len(c.nonce) == 0:
		r.TTL, r.Renew = 0, 0
	case c.full:
		r.Holder = backend.CleanCandidate(backend.Candidate{ID: string(c.holder), Nonce: string(c.nonce), Address: string(c.address), Metadata: string(c.metadata)})
	case string(c.holder) == known.Holder.ID && string(c.nonce) == known.Holder.Nonce:
		r.Holder = known.Holder
	default:
		var met bool
		r.Holder, met = p.get(c.holder, c.nonce)
		r.unknownHolder = !met
	}
	if c.full {
		r.history = string(c.history)
		r.elected = time.UnixMicro(int64(parseSigned(c.elected) / time.Microsecond)).UTC()
		r.lastTerm, r.hasTerm = max(r.Term, parseUint(c.last)), c.last != nil
	}
}

// keep returns the text of b, clean; it is old itself if they are equal.
func cleanText(b sql.RawBytes, old string, most int, multiline bool) string {
	if string(b) == old {
		return old
	}
	return backend.Clean(string(b), most, multiline)
}

func isTrue(b sql.RawBytes) bool { return string(b) == "1" }

func parseUint(b sql.RawBytes) uint64 {
	n, _ := strconv.ParseUint(string(b), 10, 64)
	return n
}

// microseconds is how the tables keep a duration, rounded up: who watches a lease
// must not give up before its holder does.
func microseconds(d time.Duration) int64 {
	return int64((d + time.Microsecond - 1) / time.Microsecond)
}

// longest is what longer durations are cut to, whoever wrote them into a table
// (the greatest TTL too, if it was set to mean "no limit"), so that a few of them
// can be added up and to any time.
const maxDuration = 365 * 24 * time.Hour

// micros reads microseconds.
func parseDuration(b sql.RawBytes) time.Duration {
	return time.Duration(min(parseUint(b), uint64(maxDuration/time.Microsecond))) * time.Microsecond
}

func parseSigned(b sql.RawBytes) time.Duration {
	n, _ := strconv.ParseInt(string(b), 10, 64)
	const most = math.MaxInt64 / 1000
	return time.Duration(min(max(n, -most), most)) * time.Microsecond
}

// people remembers who is who, so that addresses and metadata, which never
// change under one nonce, are read once and not with every renewal.
type candidateCache struct {
	sync.Mutex
	known map[candidateKey]backend.Candidate
}

type candidateKey struct{ id, nonce string }

// enough is how many are remembered; then it starts again.
const maxCachedCandidates = 1000

// find returns the candidate; only id and nonce, as they are, if it is not known.
func (p *candidateCache) get(id, nonce sql.RawBytes) (c backend.Candidate, known bool) {
	p.Lock()
	defer p.Unlock()
	if c, known = p.known[candidateKey{string(id), string(nonce)}]; !known {
		c = backend.Candidate{ID: string(id), Nonce: string(nonce)}
	}
	return c, known
}

func (p *candidateCache) add(key candidateKey, c backend.Candidate) {
	p.Lock()
	defer p.Unlock()
	if p.known == nil || len(p.known) >= maxCachedCandidates {
		p.known = make(map[candidateKey]backend.Candidate)
	}
	p.known[key] = c
}

// introduce reads address and metadata of holders that are not known yet: one
// row for each, however many elections it leads.
func (s *session) readCandidates(ctx context.Context, rows []row) error {
	names := make(map[candidateKey][]byte)
	for i := range rows {
		if rows[i].unknownHolder {
			names[candidateKey{rows[i].Holder.ID, rows[i].Holder.Nonce}] = []byte(rows[i].Election)
		}
	}
	if len(names) == 0 {
		return nil
	}
	args := make([]any, 0, len(names))
	for _, name := range names {
		args = append(args, name)
	}
	result, err := s.query(ctx, s.fill(candidatesSQL, placeholders("?", len(args))), args...)
	if err != nil {
		return err
	}
	defer result.Close()
	for result.Next() {
		var id, nonce, address, metadata string
		if err := result.Scan(&id, &nonce, &address, &metadata); err != nil {
			return err
		}
		s.backend.candidates.add(candidateKey{id, nonce}, backend.CleanCandidate(backend.Candidate{ID: id, Nonce: nonce, Address: address, Metadata: metadata}))
	}
	for i := range rows {
		if r := &rows[i]; r.unknownHolder {
			// One that has lost the lease meanwhile stays without an address; the
			// next reading shows who has it now.
			c, _ := s.backend.candidates.get([]byte(r.Holder.ID), []byte(r.Holder.Nonce))
			r.Holder = backend.CleanCandidate(c)
		}
	}
	return result.Err()
}
