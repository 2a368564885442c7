package mysql

import (
	"database/sql"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// A scan receives the columns of one row. Its bytes belong to the driver and are valid
// until the next row.
type scan struct {
	name, holder, nonce, term, heartbeat, sameServer, writer, ttl, renew, age, ended, lastID, request, requestID, requestNonce, movedTo, movedFrom, server, serverState sql.RawBytes

	address, metadata, history, elected, last sql.RawBytes

	count sql.RawBytes
	full  bool
	into  []any
}

func newScan(full bool) *scan {
	c := &scan{full: full}
	c.into = []any{&c.name, &c.holder, &c.nonce, &c.term, &c.heartbeat, &c.sameServer, &c.writer, &c.ttl, &c.renew, &c.age, &c.ended,
		&c.lastID, &c.request, &c.requestID, &c.requestNonce, &c.movedTo, &c.movedFrom, &c.server, &c.serverState}
	if full {
		c.into = append(c.into, &c.address, &c.metadata, &c.history, &c.elected, &c.last)
	}
	c.into = append(c.into, &c.count)
	return c
}

// status reads the table's own row.
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

// lease reads the row of an election. known is what the caller has seen; equal strings are
// taken from it.
func (c *scan) lease(r *row, name string, known *backend.Lease, p *candidateCache) {
	if known == nil {
		known = &backend.Lease{}
	}
	r.found, r.Version = true, known.Version // which classify replaces if it has changed
	r.sameServer, r.writer = isTrue(c.sameServer), string(c.writer)
	r.Term, r.heartbeat = parseUint(c.term), parseUint(c.heartbeat)
	r.TTL, r.Renew = parseDuration(c.ttl), parseDuration(c.renew)
	r.Age = min(max(0, parseSigned(c.age)), maxDuration)
	r.End = backend.End(cleanText(c.ended, string(known.End), 16, false))
	r.LastID = cleanText(c.lastID, known.LastID, backend.MaxID, false)
	if len(c.request) > 0 {
		r.Request = backend.Request{Election: name, Term: r.Term,
			Kind:  backend.RequestKind(cleanText(c.request, string(known.Request.Kind), 16, false)),
			ID:    cleanText(c.requestID, known.Request.ID, backend.MaxID, false),
			Nonce: backend.Nonce(cleanText(c.requestNonce, string(known.Request.Nonce), 64, false))}
	}
	r.MovedTo, r.MovedFrom = cleanText(c.movedTo, known.MovedTo, backend.MaxMark, false), cleanText(c.movedFrom, known.MovedFrom, backend.MaxMark, false)
	switch {
	case len(c.holder) == 0 && len(c.nonce) == 0:
		r.TTL, r.Renew = 0, 0
	case c.full:
		r.Holder = clean.Candidate(backend.Candidate{ID: string(c.holder), Nonce: backend.Nonce(c.nonce), Address: string(c.address), Metadata: string(c.metadata)})
	case string(c.holder) == known.Holder.ID && string(c.nonce) == string(known.Holder.Nonce):
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

// cleanText returns the text of b, clean, or old itself if they are equal.
func cleanText(b sql.RawBytes, old string, most int, multiline bool) string {
	if string(b) == old {
		return old
	}
	return clean.Text(string(b), most, multiline)
}

func isTrue(b sql.RawBytes) bool { return string(b) == "1" }

func parseUint(b sql.RawBytes) uint64 {
	n, _ := strconv.ParseUint(string(b), 10, 64)
	return n
}

// microseconds returns a duration as the tables keep it. It is rounded up, so that no
// challenger stops observing before the holder stops leading.
func microseconds(d time.Duration) int64 {
	return int64((d + time.Microsecond - 1) / time.Microsecond)
}

// maxDuration bounds all durations that are read from the tables, and the greatest TTL if an
// operator set it to mean "no limit". So a few of them can be added to each other and to
// any time.
const maxDuration = 365 * 24 * time.Hour

// parseDuration parses microseconds.
func parseDuration(b sql.RawBytes) time.Duration {
	return time.Duration(min(parseUint(b), uint64(maxDuration/time.Microsecond))) * time.Microsecond
}

func parseSigned(b sql.RawBytes) time.Duration {
	n, _ := strconv.ParseInt(string(b), 10, 64)
	const most = math.MaxInt64 / 1000
	return time.Duration(min(max(n, -most), most)) * time.Microsecond
}
