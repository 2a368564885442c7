package consul

import (
	"context"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// grantOps is how many operations one grant or release takes at most, and
// grantChunk how many of them travel in one transaction.
const (
	maxGrantOps = 5
	grantChunk  = (maxOps - 1) / maxGrantOps
)

// An offer is one grant to be made.
type offer struct {
	*entry            // what it rests on
	at            int // in the batch
	bid           backend.Bid
	next          uint64 // the term
	leadership    lock   // what is written
	record        term
	markedPending bool // that it may be held
	pendingBefore bool // it might have been before: an earlier bid may still be on its way
}

// parts are offers that fit into a transaction. Its size is limited (txn_max_req_len of the
// servers, 512 KiB), values are in base64, and metadata may be six times as long in JSON.
func chunkOffers(offers []*offer) (all [][]*offer) {
	const most = 384 << 10
	size := 0
	for _, o := range offers {
		weight := 1024 + 3*len(encode(o.bid.Candidate))
		if o.termPair != nil {
			weight += len(o.termPair.Value)
		}
		if weight = weight * 4 / 3; all == nil || size+weight > most || len(all[len(all)-1]) == grantChunk {
			all, size = append(all, nil), 0
		}
		all[len(all)-1] = append(all[len(all)-1], o)
		size += weight
	}
	return all
}

// grant tries one transaction, and again without those that it failed for because
// something has changed, which it returns, with the index of the one that succeeded.
func (b *Backend) grant(ctx context.Context, part []*offer, answers []backend.Answer) (lost []*offer, index uint64, err error) {
	reopened := false
	for try := 0; len(part) > 0; try++ {
		session, err := b.openSession(ctx, part[0].bid.Candidate, part[0].bid.TTL)
		if err != nil {
			return nil, 0, err
		}
		if try == 0 {
			b.heartbeats.markPending(part)
		}
		sent := time.Now()
		var ops api.KVTxnOps
		var from []int // offer by operation
		now := time.Now()
		for i, o := range part {
			o.prepare(session, now)
			for _, op := range b.grantOps(o, session) {
				ops, from = append(ops, op), append(from, i)
			}
		}
		ok, answer, err := b.txn(ctx, append(ops, b.changed()))
		switch {
		case err != nil:
			return nil, 0, err // whoever may hold it: the outcomes are unknown
		case ok:
			index = lastIndex(answer.Results)
			b.granted(part, index, sent, session, answers)
			return lost, index, nil
		case sessionEnded(answer) && !reopened:
			reopened = true
			b.forgetSession(session)
			continue
		}
		failed := make(map[int]string)
		for _, e := range answer.Errors {
			if i := e.OpIndex; i >= 0 && i < len(from) && failed[from[i]] == "" {
				failed[from[i]] = e.What
			}
		}
		if len(failed) == 0 {
			return nil, 0, txnError(answer)
		}
		var rest []*offer
		for i, o := range part {
			text, did := failed[i]
			switch {
			case !did:
				rest = append(rest, o)
			case !delayed(text) && changedMeanwhile(text):
				lost = append(lost, o)
			default:
				one := &api.KVTxnResponse{Errors: api.TxnErrors{{What: text}}}
				answers[o.at] = backend.Answer{Err: b.wrap(describe("acquire", 1, o.name), txnError(one))}
				if !o.mine {
					b.heartbeats.recordRefusal(o)
				}
			}
		}
		part = rest
	}
	return lost, 0, nil
}

// carry lets further offers rest on a grant at that index that rested on the key of
// changes, and has written it: between the reading and that grant nobody else has.
func shareChangesIndex(part, offers []*offer, index uint64, answers []backend.Answer) {
	for _, o := range part {
		if !o.neverLed() || answers[o.at].Outcome != backend.Granted {
			continue
		}
		was, is := o.changes, &api.KVPair{ModifyIndex: index}
		for _, later := range offers {
			if later.changes == was {
				later.changes = is
			}
		}
		return
	}
}

// draw makes what the grant writes.
func (o *offer) prepare(session string, now time.Time) {
	c, at := o.bid.Candidate, now.UTC().Round(0)
	o.leadership = lock{
		Term: o.next, Holder: candidate{c.ID, c.Nonce, c.Address, c.Metadata},
		TTL: micros(o.bid.TTL), Renew: micros(o.bid.Renew), Session: session, Heartbeat: newHeartbeat(), At: at,
	}
	old := o.entry.term
	if old.Term == 0 && o.lease.Holder.ID != "" { // the record was deleted: what the lock key tells
		old = term{Term: o.entry.lock.Term, ID: o.lease.Holder.ID, Nonce: o.lease.Holder.Nonce, From: at}
	}
	lapsed := time.Duration(0)
	if o.entry.renewals != nil {
		lapsed = o.lease.Lapsed()
	}
	old.close(backend.Failed, at, lapsed)
	o.record = term{
		Term: o.next, ID: c.ID, Nonce: c.Nonce, TTL: micros(o.bid.TTL), Heartbeat: newHeartbeat(), From: at, History: old.History,
		MovedTo: old.MovedTo, Moved: old.Moved,
	}
	if old.Term > 0 {
		o.record.Last = &past{old.ID, old.Nonce, old.End}
	}
}

// grantOps is one grant: nothing that it rests on has changed, including the
// renewals of whom it takes the lease from; then the lock changes hands in one
// step. Unlocking for the other session is why neither the end of that session
// nor a lock-delay is waited for; it is right because the leadership is over by then.
func (b *Backend) grantOps(o *offer, session string) api.KVTxnOps {
	key, value := b.keys.lock+o.name, encode(o.leadership)
	var ops api.KVTxnOps
	if o.held && !o.mine && o.entry.lockedByHolder() {
		ops = append(ops, pin(b.keys.heartbeat+o.entry.lock.Session, o.heartbeatPair))
	}
	ops = append(ops, pin(key, o.lockPair))
	if o.neverLed() {
		ops = append(ops, pin(b.keys.changes, o.changes))
	}
	if p := o.lockPair; p != nil && p.Session != "" && p.Session != session {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVUnlock, Key: key, Session: p.Session, Value: value})
	}
	return append(ops,
		&api.KVTxnOp{Verb: api.KVLock, Key: key, Session: session, Value: value},
		&api.KVTxnOp{Verb: api.KVCAS, Key: b.keys.term + o.name, Index: indexOf(o.termPair), Value: encode(o.record)},
	)
}

// pin is an operation that fails if the key is not as it was read.
func pin(key string, pair *api.KVPair) *api.KVTxnOp {
	if pair == nil {
		return &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: key}
	}
	return &api.KVTxnOp{Verb: api.KVCheckIndex, Key: key, Index: pair.ModifyIndex}
}

func indexOf(pair *api.KVPair) uint64 {
	if pair == nil {
		return 0 // only if there is no such key
	}
	return pair.ModifyIndex
}

// granted fills in the answers of a transaction that was sent and then applied at
// an index.
func (b *Backend) granted(part []*offer, index uint64, sent time.Time, session string, answers []backend.Answer) {
	self, now := b.owner.Nonce(), time.Now()
	for _, o := range part {
		b.memory.recordGrant(o.name, o.next, o.bid.TTL, session)
		e := &entry{
			name: o.name, lock: o.leadership, term: o.record,
			lockPair: &api.KVPair{Key: b.keys.lock + o.name, Session: session, ModifyIndex: index},
			termPair: &api.KVPair{Key: b.keys.term + o.name, ModifyIndex: index},
		}
		last := renewals{Heartbeat: b.heartbeats.markHeld(e, index, sent)}
		e.renewals = &last
		answers[o.at] = backend.Answer{Lease: e.leaseFor(self, &b.memory, now), Outcome: backend.Granted, ValidFor: o.bid.TTL}
	}
}
