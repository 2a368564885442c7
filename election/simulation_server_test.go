package election

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-election/go-election/backend"
)

// servers are the store's servers with their rows. They follow the lease protocol's rules. Each row has the identity of the
// server that wrote it last. Nodes must observe a row that another server wrote for the greatest TTL, and cannot renew or
// release it. The same holds for every row of a server that may have lost commits when it started, and for a missing row,
// unless the table shows that none was deleted. The replica, or the disk, lags behind the table: a failover or restart loses
// the difference.
type servers struct {
	primary     int // identity of the primary
	next        int // identity of the next server that becomes primary for the first time
	former      int // the previous primary
	formerUntil time.Duration
	table       simTable
	replica     simTable
	behind      []simWrite // commits that the replica lacks, oldest first
	lag         time.Duration
	started     time.Duration // when the primary started
	restarts    int           // of a server that may lose commits
	wentBack    bool          // commits were lost, or a row was deleted
}

type simTable struct {
	rows      []simRow
	created   int // rows ever created
	count     int // rows that exist
	createdBy int // the server that created the last row
	recreated int // rows created again after a deletion
}

type simRow struct {
	found     bool
	lease     backend.Lease // without the fields that depend on the reader
	heartbeat uint64
	writtenBy int           // the server that wrote it last
	run       int           // restarts of that server before the last grant
	lastTerm  uint64        // the highest term, which mysql keeps in a table of its own
	elected   time.Duration // time of the last grant, by the store's clock
	written   time.Duration
	session   int // renewals so far
}

type simWrite struct {
	at                                   time.Duration
	row                                  int
	created, count, createdBy, recreated int
	now                                  simRow
}

func (v *servers) begin(elections int) {
	v.primary, v.next = 1, 2
	v.table.rows, v.replica.rows = make([]simRow, elections), make([]simRow, elections)
	v.table.createdBy, v.replica.createdBy = 1, 1
	for i := range elections {
		v.table.rows[i].lease.Election, v.replica.rows[i].lease.Election = names[i], names[i]
	}
}

// server is the name of a server in a Version.
func server(identity int) string { return "s" + strconv.Itoa(identity) }

// uncleanRestart reports whether the server may have lost a grant that a node still trusts.
func (st *simStore) uncleanRestart() bool {
	return st.kind == losesCommits && st.started > 0 && st.s.now-st.started < st.maxTTL+time.Second
}

func (st *simStore) wroteLast(r *simRow) bool { return r.writtenBy == st.primary }

// leaseFor returns the row as a lease for the candidate with this nonce: what it must observe unchanged, and for how long.
func (st *simStore) leaseFor(r *simRow, nonce backend.Nonce) backend.Lease {
	l, ref := r.lease, ""
	same, id := st.wroteLast(r), server(st.primary)
	switch v := &st.table; {
	case !r.found:
		lost := v.created != v.count
		l = backend.Lease{Election: l.Election}
		ref = fmt.Sprintf("%s none %d %d %d", id, v.createdBy, v.created-v.count, v.recreated)
		if lost || v.createdBy != st.primary || st.uncleanRestart() {
			l.ObserveFor = st.maxTTL
		}
	case !same:
		ref = id + " after " + server(r.writtenBy)
		l.ObserveFor = st.maxTTL
	case st.uncleanRestart():
		ref, l.ObserveFor = id, st.maxTTL
	case l.Vacant(), l.Holder.Nonce == nonce:
		ref = id
	case st.kind == endsSessions:
		ref, l.ObserveFor = id, backend.ExpiresInStore
	default:
		ref, l.ObserveFor = id, l.TTL
	}
	if st.uncleanRestart() {
		ref += fmt.Sprint(" unclean restart ", st.restarts)
	}
	l.Version = strconv.FormatUint(r.heartbeat, 36) + " " + ref
	l.Age = st.clock() - r.written
	return l
}

func (st *simStore) nextTerm(r *simRow, b *backend.Bid) (uint64, error) {
	v := &st.table
	last, foreign := r.lastTerm, !st.wroteLast(r) || r.run != st.restarts
	if r.found {
		last = backend.GrownTerm(last, epoch.Add(r.elected), epoch.Add(st.clock()))
	}
	if !r.found {
		foreign = r.lastTerm > 0 || v.createdBy != st.primary || v.created != v.count
		if r.lastTerm == 0 {
			v.created++
		} else {
			v.recreated++
		}
		v.count++
		v.createdBy = st.primary
	}
	return backend.NextTerm(max(last, b.Expected.Term), foreign, b.MinTerm, epoch.Add(st.clock()))
}

// commit records a commit that the replica lacks.
func (st *simStore) commit(r *simRow) {
	if st.kind != failingOver && st.kind != losesCommits {
		return
	}
	v := &st.table
	st.catchUp(st.s.now - st.lag)
	st.behind = append(st.behind, simWrite{st.s.now, int(r.lease.Election[0] - '0'), v.created, v.count, v.createdBy, v.recreated, *r})
}

// catchUp applies the commits up to a time to the replica.
func (st *simStore) catchUp(to time.Duration) {
	if st.items != nil {
		st.items.catchUp(to)
		return
	}
	n := 0
	for n < len(st.behind) && st.behind[n].at <= to {
		w := &st.behind[n]
		v := &st.replica
		v.rows[w.row] = w.now
		v.created, v.count, v.createdBy, v.recreated = w.created, w.count, w.createdBy, w.recreated
		n++
	}
	st.behind = append(st.behind[:0], st.behind[n:]...)
}

// loseBehind makes the replica the table, and returns how many commits are lost.
func (st *simStore) loseBehind() int {
	st.catchUp(st.s.now - st.lag)
	if st.items != nil {
		return st.items.loseBehind()
	}
	lost := len(st.behind)
	st.wentBack = st.wentBack || lost > 0
	st.behind = st.behind[:0]
	rows := append(st.table.rows[:0], st.replica.rows...)
	st.table = st.replica
	st.table.rows = rows
	return lost
}

// failOver makes another server the primary. The old one is fenced off. It does not return within the
// greatest TTL, and then only with all commits, and not if its clock was hours ahead.
func (st *simStore) failOver() {
	s := st.s
	what, lost := failoverKept, 0
	back := !st.wrong && st.former > 0 && s.now-st.formerUntil > st.maxTTL && s.oneIn(3)
	if back || s.oneIn(3) {
		st.catchUp(s.now)
	}
	if lost = st.loseBehind(); lost > 0 {
		what = failoverLost
	}
	if back {
		what = failbackKept
	}
	st.count(what)
	old := st.primary
	if back {
		st.primary = st.former
	} else {
		st.primary = st.next
		st.next++
	}
	st.former, st.formerUntil, st.started = old, s.now, s.now
	s.trace("store", "server %d takes over from %d; %d commits are lost", st.primary, old, lost)
	st.down = s.now + s.upTo(5*time.Second)
	st.offset = s.upTo(4*time.Second) - 2*time.Second
	st.lag = st.randomLag()
	st.breakConnections()
	if st.items != nil {
		st.items.setEpoch()
	}
}

// crash restarts a server that does not keep every commit.
func (st *simStore) crash() {
	s := st.s
	lost := st.loseBehind()
	st.count(restartLost)
	s.trace("store", "restarts; %d commits are lost", lost)
	st.started = s.now
	st.restarts++
	st.down = s.now + s.upTo(3*time.Second)
	st.lag = st.randomLag()
	st.breakConnections()
	if st.items != nil {
		st.items.setEpoch()
	}
}

// breakConnections ends all connections. Some listeners get an error.
func (st *simStore) breakConnections() {
	if st.items != nil {
		st.items.breakConnections()
		return
	}
	listeners := st.listeners
	st.listeners = nil
	for _, l := range listeners {
		if st.s.oneIn(2) {
			l.n.sendBack(l.life, l.c, func() { l.n.endCall(l.c, reply{call: l.c, err: errGone}) })
		}
	}
}

func (st *simStore) randomLag() time.Duration {
	if st.s.oneIn(3) {
		return st.s.upTo(50 * time.Millisecond)
	}
	return st.s.upTo(maxDelay)
}

// deleteRow is the mistake of an operator. It does not come together with a loss of commits (see
// docs/proof.md, Limits), so the replica catches up first.
func (st *simStore) deleteRow(i int) {
	if st.items != nil {
		st.items.deleteRecord(i)
		return
	}
	r := &st.table.rows[i]
	if !r.found {
		return
	}
	st.count(rowDeleted)
	st.s.trace("store", "%s: its row is deleted", names[i])
	*r = simRow{lastTerm: r.lastTerm, lease: backend.Lease{Election: names[i]}}
	st.wentBack = true
	st.table.count--
	st.catchUp(st.s.now)
	st.lag = min(st.lag, 50*time.Millisecond)
	st.commit(r)
	st.wakeListeners()
}
