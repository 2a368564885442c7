package election

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend/lease"
)

// commit records a write that the replica lacks.
func (it *simItems) commit(k lease.Key, e simItem) {
	if it.st.kind == leaseDurable {
		return
	}
	it.catchUp(it.st.s.now - it.st.lag)
	it.behind = append(it.behind, itemWrite{it.st.s.now, k, it.counter, e})
}

// catchUp applies the writes up to a time to the replica.
func (it *simItems) catchUp(to time.Duration) {
	n := 0
	for n < len(it.behind) && it.behind[n].at <= to {
		w := &it.behind[n]
		if it.count = w.counter; w.now.version == 0 {
			delete(it.replica, w.key)
		} else {
			it.replica[w.key] = w.now
		}
		n++
	}
	it.behind = append(it.behind[:0], it.behind[n:]...)
}

// loseBehind makes the replica the table, and returns how many writes are lost.
func (it *simItems) loseBehind() int {
	lost := len(it.behind)
	it.st.wentBack = it.st.wentBack || lost > 0
	it.behind = it.behind[:0]
	it.table = maps.Clone(it.replica)
	it.log, it.logFrom, it.signalled = nil, it.counter, it.counter
	return lost
}

// breakConnections ends all connections. Some listeners learn of it.
func (it *simItems) breakConnections() {
	listeners := it.listeners
	it.listeners = nil
	for _, l := range listeners {
		if it.st.s.oneIn(2) {
			l.reply(itemsAnswer{err: errGone})
		}
	}
}

// goBack restores an older copy in the same epoch. The operator starts it no sooner than the greatest TTL
// after the store was stopped. It happens once in a world, and before any deletion: a process that starts
// later cannot know of it, and of a jump that was lost.
func (it *simItems) goBack() {
	s, st := it.st.s, it.st
	if it.restored {
		return
	}
	it.restored = true
	st.count(wentBackSilently)
	it.catchUp(s.now - st.lag)
	lost := it.loseBehind()
	it.counter, it.logFrom, it.signalled = it.count, it.count, it.count
	it.connection++
	st.down = s.now + st.maxTTL + s.upTo(5*time.Second)
	s.trace("store", "goes back by %d writes, to %d", lost, it.counter)
	it.breakConnections()
}

// leadElsewhere lets another store answer some nodes for less than any TTL: an empty one, an older copy of
// this one, or one that is in use. All of them know this one by its leaders: who knows only the other store leads there.
func (it *simItems) leadElsewhere() {
	s, st := it.st.s, it.st
	copied := []map[lease.Key]simItem{nil, it.table, it.replica}[s.random.IntN(3)]
	other := &simItems{st: st, batch: it.batch, counter: it.counter, table: map[lease.Key]simItem{}, replica: map[lease.Key]simItem{}}
	maps.Copy(other.table, copied)
	other.epoch = fmt.Sprintf("other%d", s.figures.faults[ledElsewhere])
	if s.oneIn(2) { // it is in use, and its elections are vacant
		for k, e := range other.table {
			switch v := e.value.(type) {
			case *lease.Record:
				r := *v
				r.Epoch, r.ID, r.Nonce = other.epoch, "", ""
				e.value = &r
			case *lease.Meta:
				m := *v
				m.Epoch = other.epoch
				e.value = &m
			}
			other.table[k] = e
		}
	}
	st.count(ledElsewhere)
	st.wentBack = true
	for _, n := range s.nodes {
		known := func(p simPlace) bool { return p.lastEvent.Kind == Elected }
		if !n.up || n.lease.elsewhere != nil || !slices.ContainsFunc(n.places, known) || s.oneIn(2) {
			continue
		}
		life := n.life
		n.lease.elsewhere = other
		s.trace(n.id, "is led to another store, epoch %s", other.epoch)
		s.after(s.upTo(4*time.Second), func() {
			if n.life == life {
				n.lease.elsewhere = nil
				s.trace(n.id, "is back from the other store")
			}
			other.breakConnections()
		})
	}
}

// steady reports whether what is deleted or edited now will not be lost.
func (it *simItems) steady() bool { return it.st.kind != leaseGoesBack || it.restored }

// replicate prepares for a mistake of an operator, which does not come together with a loss of writes.
func (it *simItems) replicate() {
	it.st.wentBack = true
	it.catchUp(it.st.s.now)
	it.st.lag = min(it.st.lag, 50*time.Millisecond)
}

// deleteRecord deletes a record, unless the meta item was deleted, too.
func (it *simItems) deleteRecord(i int) {
	if it.record(names[i]) == nil || it.table[meta].version == 0 || !it.steady() {
		return
	}
	it.st.count(rowDeleted)
	it.st.s.trace("store", "%s: its record is deleted", names[i])
	it.replicate()
	it.put(record(names[i]), simItem{})
	it.tell(false)
	it.catchUp(it.st.s.now)
}

// deleteMeta deletes the meta item, unless a record is missing.
func (it *simItems) deleteMeta() {
	m, _ := it.table[meta].value.(*lease.Meta)
	if m == nil || m.Made != it.records() || it.st.kind != leaseDurable {
		return
	}
	it.st.count(metaDeleted)
	it.st.s.trace("store", "the meta item is deleted")
	it.replicate()
	it.put(meta, simItem{})
	it.tell(false)
}

// deleteSession deletes the session of a process that holds a lease, or another one, and clears away those
// that were not written for long.
func (it *simItems) deleteSession() {
	s := it.st.s
	sessions := slices.SortedFunc(maps.Keys(it.table), func(a, b lease.Key) int { return strings.Compare(a.Name, b.Name) })
	sessions = slices.DeleteFunc(sessions, func(k lease.Key) bool { return k.Kind != lease.Sessions })
	if len(sessions) == 0 {
		return
	}
	for _, k := range sessions {
		if e := it.table[k]; it.st.clock()-e.at > 5*time.Minute {
			it.put(k, simItem{})
		}
	}
	gone := sessions[s.random.IntN(len(sessions))]
	if r := it.record(names[s.random.IntN(s.elections)]); r != nil && r.Nonce != "" && s.oneIn(2) {
		gone = lease.Key{Kind: lease.Sessions, Name: r.Nonce}
	}
	if it.table[gone].version == 0 {
		return
	}
	it.st.count(sessionDeleted)
	s.trace("store", "the session of %s is deleted", gone.Name)
	it.put(gone, simItem{})
	it.tell(false)
}

// edit makes an operator edit a record, so that it looks vacant or expires soon, or put an earlier one back.
func (it *simItems) edit(i int) {
	r := it.record(names[i])
	if r == nil || !it.steady() {
		return
	}
	edited, s := *r, it.st.s
	switch s.random.IntN(4) {
	case 0:
		edited.ID, edited.Nonce = "", ""
	case 1:
		edited.TTL = lease.Span(time.Second)
	case 2:
		if it.former[i] != nil {
			edited = *it.former[i]
		}
	}
	it.st.count(recordEdited)
	s.trace("store", "%s: its record is edited: %s %s, %v", names[i], edited.ID, edited.Nonce, time.Duration(edited.TTL))
	it.replicate()
	it.put(record(names[i]), simItem{value: &edited, edited: true})
	it.tell(false)
	it.catchUp(s.now)
}
