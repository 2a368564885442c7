package election

import (
	"time"

	"github.com/go-election/go-election/backend"
)

// A fault is a failure, or a request of an operator or a program.
type fault uint8

const (
	crash fault = iota
	closing
	pauseShort
	pauseLong
	sleep
	wallClockJump
	rateChange
	cutOff
	answersCut
	slowNetwork
	callsOutlast
	healthFails
	healthHangs
	resigning
	pausing
	leaving
	nominating
	deposing
	functionLingers
	functionReturns
	requestLost
	answerLost
	requestTwice
	requestLate
	storeDown
	rightsRevoked
	lockedRow
	storeClockJump
	rowDeleted
	failoverKept
	failoverLost
	failbackKept
	restartLost
	sessionDeleted
	recordEdited
	metaDeleted
	wentBackSilently
	ledElsewhere
	faults
)

// has reports whether a store of this kind, or one that runs beside it, has the fault.
func (k storeKind) has(f fault) bool {
	return k.overLease() || f < sessionDeleted
}

func (f fault) String() string {
	return [...]string{
		crash: "crash", closing: "close in order", pauseShort: "process stopped, up to half a TTL", pauseLong: "process stopped, up to a minute",
		sleep: "host suspended, monotonic clock stands still", wallClockJump: "wall clock steps forward", rateChange: "clock rate changes",
		cutOff: "requests cut off", answersCut: "answers cut off", slowNetwork: "slow network, up to 20 s", callsOutlast: "calls outlast their contexts",
		healthFails: "health check fails", healthHangs: "health check hangs",
		resigning: "resignation", pausing: "election paused", leaving: "leaves and joins again", nominating: "nomination", deposing: "deposition",
		functionLingers: "function returns late, up to a minute", functionReturns: "function returns by itself",
		requestLost: "request lost", answerLost: "answer lost", requestTwice: "request executed twice", requestLate: "request executed after the caller gave up",
		storeDown: "store down", rightsRevoked: "rights revoked", lockedRow: "row locked", storeClockJump: "store's clock steps", rowDeleted: "row deleted manually",
		failoverKept: "failover without loss", failoverLost: "failover that loses commits", failbackKept: "failback without loss", restartLost: "restart that loses commits",
		sessionDeleted: "session deleted", recordEdited: "record edited or put back manually", metaDeleted: "meta item deleted",
		wentBackSilently: "older copy restored in the same epoch", ledElsewhere: "another store answers some nodes",
	}[f]
}

func (n *simNode) count(f fault) {
	n.s.figures.faults[f]++
	for i := range n.places {
		if n.trusts(&n.places[i]) {
			n.s.figures.hits[f]++
			return
		}
	}
}

func (st *simStore) count(f fault) {
	st.s.figures.faults[f]++
	for _, n := range st.s.nodes {
		for i := range n.places {
			if n.trusts(&n.places[i]) {
				st.s.figures.hits[f]++
				return
			}
		}
	}
}

// fault causes a random fault of the node, and schedules the next one. Leaders are preferred.
func (n *simNode) fault() {
	s := n.s
	s.after(s.exponential(s.faultEvery), n.fault)
	trusts := false
	for i := range n.places {
		trusts = trusts || n.trusts(&n.places[i])
	}
	if s.calm || !n.up || n.stopped || n.leaving || !trusts && !s.oneIn(3) {
		return
	}
	i := s.random.IntN(s.elections)
	p := &n.places[i]
	f := []fault{crash, crash, closing, pauseShort, pauseLong, pauseLong, sleep, wallClockJump, rateChange, rateChange, cutOff, cutOff, answersCut, answersCut,
		slowNetwork, slowNetwork, slowNetwork, callsOutlast, healthFails, healthHangs, resigning, pausing, leaving, nominating, nominating, deposing, deposing, functionLingers}[s.random.IntN(28)]
	switch {
	case (f == sleep || f == wallClockJump) && n.boot: // with a boot-time clock, a suspension is a pause, and a jump is nothing
		f = pauseLong
	case (f == healthFails || f == healthHangs) && !n.hasHealthCheck:
		f = callsOutlast
	case (f == resigning || f == pausing || f == leaving || f == nominating || f == deposing) && p.e == nil:
		return
	}
	s.trace(n.id, "fault: %v", f)
	n.count(f)
	n.inject(f, i)
}

// inject makes a fault happen; i is the election that it concerns, if any.
func (n *simNode) inject(f fault, i int) {
	s, p, life := n.s, &n.places[i], n.life
	again := func(d time.Duration, do func()) { s.after(d, func() { n.run(life, do) }) }
	switch f {
	case crash:
		n.up = false
		s.after(s.upTo(time.Minute), n.restart)
	case closing:
		n.leaving = true
		n.input(leave{end: backend.Released})
	case pauseShort:
		n.freeze(s.upTo(n.ttl / 2))
	case pauseLong:
		n.freeze(s.upTo(time.Minute))
	case sleep:
		n.ticked, n.at, n.asleep = n.local(), s.now, true
		n.freeze(s.upTo(time.Minute))
	case wallClockJump:
		n.ahead += s.upTo(20 * time.Second)
	case rateChange:
		n.setRate(s.randomRate())
	case cutOff:
		n.cutOff = true
		again(s.upTo(time.Minute), func() { n.cutOff = false })
	case answersCut:
		n.answersCut = true
		again(s.upTo(time.Minute), func() { n.answersCut = false })
	case slowNetwork:
		n.slow = s.upTo(maxDelay)
		again(s.upTo(2*time.Minute), func() { n.slow = 0 })
	case callsOutlast:
		n.overrun = s.upTo(20 * time.Second)
		n.slow = max(n.slow, n.overrun/2)
		again(s.upTo(time.Minute), func() { n.overrun, n.slow = 0, 0 })
	case healthFails:
		n.unhealthy = true
		again(s.upTo(time.Minute), func() { n.unhealthy = false })
	case healthHangs:
		n.healthHangs = true
		again(s.upTo(time.Minute), func() { n.healthHangs = false })
	case resigning:
		if p.e.work == workCaller {
			n.functionReturnsAfter(p, p.running, ReasonResigned, 0)
		} else {
			n.input(resign{p.e, p.e.term})
		}
	case pausing:
		one := pause{p.e, true}
		if s.oneIn(3) {
			one.e = nil
		}
		n.input(one)
		again(s.upTo(time.Minute), func() { n.input(pause{nil, false}) })
	case leaving:
		n.input(leave{p.e, backend.Released})
	case nominating, deposing:
		n.operator(i, f)
	case functionLingers:
		n.lingers = true
	}
}

func (n *simNode) freeze(d time.Duration) {
	n.stopped = true
	life := n.life
	n.s.after(d, func() {
		if n.life == life {
			n.resume()
		}
	})
}

func (n *simNode) restart() {
	if !n.up {
		n.start()
	}
}

// operator writes a request beside the lease, with the term that it has just read.
func (n *simNode) operator(i int, f fault) {
	s := n.s
	w := backend.Request{Election: names[i], Term: s.store.termOf(i), Kind: backend.Depose}
	if f == nominating {
		w.Kind, w.ID = backend.Nominate, s.nodes[s.random.IntN(len(s.nodes))].id
	}
	s.trace(n.id, "%s: an operator asks to %s %s in term %d", w.Election, w.Kind, w.ID, w.Term)
	s.after(n.delay(), func() { s.store.request(w) })
}

// fault causes a random fault of the store, and schedules the next one.
func (st *simStore) fault() {
	s := st.s
	s.after(s.exponential(5*s.faultEvery), st.fault)
	if s.calm {
		return
	}
	common := []fault{storeDown, rightsRevoked, lockedRow, lockedRow, storeClockJump}
	if st.kind.overLease() {
		common = append(common, sessionDeleted, sessionDeleted, rowDeleted, recordEdited, metaDeleted, ledElsewhere, ledElsewhere)
	}
	switch st.kind {
	case durable:
		common = append(common, rowDeleted)
	case leaseFailingOver:
		common = append(common, failoverLost, failoverLost, failoverLost, failoverLost)
	case leaseLosesCommits:
		common = append(common, restartLost, restartLost, restartLost)
	case leaseGoesBack:
		common = append(common, wentBackSilently)
	case failingOver:
		common = append(common, rowDeleted, failoverLost, failoverLost, failoverLost, failoverLost)
	case losesCommits:
		common = append(common, rowDeleted, restartLost, restartLost, restartLost)
	}
	f := common[s.random.IntN(len(common))]
	if f != storeDown && f != rightsRevoked && f != lockedRow && st.wrong {
		st.offset = 0
	}
	switch f {
	case storeDown:
		st.count(f)
		st.down = s.now + s.upTo(40*time.Second)
		s.trace("store", "is down for %v", st.down-s.now)
		st.breakConnections()
	case rightsRevoked:
		st.count(f)
		st.denied = s.now + s.upTo(30*time.Second)
		s.trace("store", "denies everything for %v", st.denied-s.now)
	case lockedRow:
		st.count(f)
		i := s.random.IntN(s.elections)
		st.locked[i] = s.now + s.upTo(15*time.Second)
		s.trace("store", "%s: its row is locked for %v", names[i], st.locked[i]-s.now)
	case storeClockJump:
		st.count(f)
		within := 24 * time.Hour
		if st.kind != durable && st.kind != endsSessions { // nor with a deletion, on a store of items
			within = 2 * time.Second // no great step together with a loss of commits: see docs/proof.md, Limits
		}
		st.offset = s.upTo(2*within) - within
	case rowDeleted:
		st.deleteRow(s.random.IntN(s.elections))
	case failoverLost:
		st.failOver()
	case restartLost:
		st.crash()
	case sessionDeleted:
		st.items.deleteSession()
	case recordEdited:
		st.items.edit(s.random.IntN(s.elections))
	case metaDeleted:
		st.items.deleteMeta()
	case wentBackSilently:
		st.items.goBack()
	case ledElsewhere:
		st.items.leadElsewhere()
	}
}

// heal ends the faults of the store, and withdraws requests: a nominee may be gone soon.
func (st *simStore) heal() {
	st.down, st.denied = 0, 0
	clear(st.locked)
	for i := range st.s.elections {
		st.request(backend.Request{Election: names[i], Term: st.termOf(i)})
	}
}
