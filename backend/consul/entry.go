package consul

import (
	"fmt"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// An entry is all that was read of one election, and what it means.
type entry struct {
	name          string
	lockPair      *api.KVPair // nil: no such key
	termPair      *api.KVPair
	heartbeatPair *api.KVPair // of the session that the lock's value names
	changes       *api.KVPair // the key of that name, read with the others or before; see neverLed
	lock          lock
	term          term
	renewals      *renewals // of that session; nil: none

	tampered bool   // the lock key is there, and none of ours has written that
	held     bool   // a leadership has not ended in order: its holder may trust it
	mine     bool   // and it is this Backend's
	lastTerm uint64 // the greatest term known
	dataLost bool   // the store has forgotten what this process has seen, or a key is gone
	lease    backend.Lease
}

// parse reads what anybody may have written. What is not valid is as if it were
// not there, but for the keys that are.
func (e *entry) parse() {
	switch {
	case !decode(e.lockPair, &e.lock):
		e.lock, e.tampered = lock{}, e.lockPair != nil
	case e.lock.Holder.Nonce == "": // released
		e.lock = lock{Term: e.lock.Term}
	}
	e.lock.At = backend.CleanTime(e.lock.At)
	if s := e.lock.Session; len(s) > 64 || strings.Contains(s, "/") {
		e.lock.Session = ""
	}
	if !decode(e.termPair, &e.term) {
		e.term = term{}
	}
	e.term.clean()
}

// neverLed reports whether there is nothing of the election, nor was there anything. A grant
// then has no key to rest on but the one of changes: all else may have come, with another
// grant, and have been deleted by hand since it was read.
func (e *entry) neverLed() bool { return e.lockPair == nil && e.termPair == nil }

// hangs reports whether the lock hangs on the session that its value names, so that a
// renewal of that session can be one of this lease.
func (e *entry) lockedByHolder() bool {
	return e.lock.Session != "" && e.lockPair != nil && e.lockPair.Session == e.lock.Session
}

// ours reports whether the lease is held with that session by that nonce in that
// term, by all that there is about it.
func (e *entry) heldBy(session, nonce string, term uint64) bool {
	return e.lockPair != nil && e.lockPair.Session == session && e.lock.Session == session && session != "" &&
		e.lock.Holder.Nonce == nonce && e.lock.Term == term &&
		e.term.Term == term && e.term.Nonce == nonce && e.term.End == ""
}

// deposed reports whether an operator has ended the present leadership.
func (e *entry) deposed() bool {
	w := e.term.Request
	return w != nil && w.Kind == backend.Depose && w.Term == e.term.Term
}

// ref is what else a challenger must see unchanged: the lock key itself.
func (e *entry) ref() string {
	if e.lockPair == nil {
		return "-"
	}
	return ref(e.lockPair.ModifyIndex, e.lockPair.Session)
}

func ref(index uint64, session string) string { return fmt.Sprintf("%d %.64s", index, session) }

// mix makes one heartbeat of two: never 0, which stands for "not seen", nor 1, which
// stands for "nothing there".
func combine(a, b heartbeat) uint64 {
	if n := uint64(a + b); n > 1 {
		return n
	}
	return 2
}
