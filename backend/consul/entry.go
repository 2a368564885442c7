package consul

import (
	"strconv"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
)

// An entry is everything that was read of one election, and its lease.
type entry struct {
	name          string
	lockPair      *api.KVPair // nil: the key does not exist
	termPair      *api.KVPair
	heartbeatPair *api.KVPair // of the session that the lock's value names
	changes       *api.KVPair // election/changes, read with the others or before; see neverLed
	lock          lock
	term          term
	renewals      *lease.Session // the value of heartbeatPair; nil: none

	tampered bool   // the lock key exists, and no member wrote its value
	held     bool   // a leadership has not ended in order: its holder may trust the lease
	mine     bool   // this Backend holds it
	lastTerm uint64 // the greatest term known
	dataLost bool   // a key is gone, or the store is older than what this process has read
	lease    backend.Lease
}

// parse decodes the values, which may be arbitrary. A value that is invalid counts as missing;
// that its key exists still counts.
func (e *entry) parse() {
	switch {
	case !decode(e.lockPair, &e.lock):
		e.lock, e.tampered = lock{}, e.lockPair != nil
	case e.lock.Holder.Nonce == "": // released
		e.lock = lock{Term: e.lock.Term}
	}
	e.lock.At = clean.Time(e.lock.At)
	if s := e.lock.Session; len(s) > 64 || strings.Contains(s, "/") {
		e.lock.Session = ""
	}
	if !decode(e.termPair, &e.term) {
		e.term = term{}
	}
	e.term.clean()
}

// neverLed reports whether the election has no keys. A grant can then depend only on
// election/changes: another grant may have written keys since the read, and an operator may
// have deleted them.
func (e *entry) neverLed() bool { return e.lockPair == nil && e.termPair == nil }

// lockedByHolder reports whether the session that the lock's value names has locked it. Only
// then does a renewal of that session renew this lease.
func (e *entry) lockedByHolder() bool {
	return e.lock.Session != "" && e.lockPair != nil && e.lockPair.Session == e.lock.Session
}

// heldBy reports whether lock and record agree that the lease is held in this term by this
// session and nonce.
func (e *entry) heldBy(session string, nonce backend.Nonce, term uint64) bool {
	return e.lockPair != nil && e.lockPair.Session == session && e.lock.Session == session && session != "" &&
		e.lock.Holder.Nonce == string(nonce) && e.lock.Term == term &&
		e.term.Term == term && e.term.Nonce == string(nonce) && e.term.End == ""
}

// deposed reports whether an operator has ended the present leadership.
func (e *entry) deposed() bool {
	req := e.term.Request
	return req != nil && req.Kind == backend.Depose && req.Term == e.term.Term
}

// version makes the Version of a lease of its heartbeat and of its lock key, which a
// challenger must see unchanged.
func version(heartbeat uint64, lock *api.KVPair) string {
	v := append(strconv.AppendUint(make([]byte, 0, 128), heartbeat, 36), ' ')
	if lock != nil {
		v = append(strconv.AppendUint(v, lock.ModifyIndex, 10), ' ')
		v = append(v, lock.Session[:min(len(lock.Session), 64)]...)
	}
	return string(v)
}

// combine makes one heartbeat of two. The result is never 1, which stands for "no key".
func combine(a, b lease.Heartbeat) uint64 { return max(uint64(a+b), 2) }
