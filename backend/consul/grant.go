package consul

import (
	"context"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// maxGrantOps is the most operations of one grant or release, and grantChunk how many grants
// or releases fit into one transaction.
const (
	maxGrantOps = 5
	grantChunk  = (MaxOps - 1) / maxGrantOps
)

// An offer is one grant to be made.
type offer struct {
	*entry            // as it was read
	at            int // in the batch
	bid           backend.Bid
	next          uint64 // the new term
	leadership    lock   // the new lock
	record        term
	markedPending bool // in this call
	pendingBefore bool // an earlier bid may still be on its way
}

// chunkOffers groups offers that fit into one transaction. The servers limit its size
// (txn_max_req_len, 512 KiB). Values are sent in base64, and JSON may make metadata six times
// as long.
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

// grant tries one transaction. It repeats it without the offers whose keys have changed, and
// returns those, with the index of the transaction that succeeded.
func (b *Backend) grant(ctx context.Context, part []*offer, answers []backend.Answer) (stale []*offer, index uint64, err error) {
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
		ok, answer, err := b.agent.Txn(ctx, append(ops, b.changesOp()))
		switch {
		case err != nil:
			return nil, 0, err // the outcomes are unknown
		case ok:
			index = lastIndex(answer.Results)
			b.granted(part, index, sent, session, answers)
			return stale, index, nil
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
			return nil, 0, Refusal(answer)
		}
		var rest []*offer
		for i, o := range part {
			text, hasFailed := failed[i]
			switch {
			case !hasFailed:
				rest = append(rest, o)
			case !delayed(text) && changedMeanwhile(text):
				stale = append(stale, o)
			default:
				one := &api.KVTxnResponse{Errors: api.TxnErrors{{What: text}}}
				answers[o.at] = backend.Answer{Err: b.wrap(describe("acquire", 1, o.name), Refusal(one))}
				if !o.mine {
					b.heartbeats.recordRefusal(o)
				}
			}
		}
		part = rest
	}
	return stale, 0, nil
}

// shareChangesIndex updates the index of election/changes on which further first grants depend,
// after a first grant has written it. No other member has written it between the read and that
// grant.
func shareChangesIndex(part, offers []*offer, index uint64, answers []backend.Answer) {
	for _, o := range part {
		if !o.neverLed() || answers[o.at].Outcome != backend.Granted {
			continue
		}
		before, after := o.changes, &api.KVPair{ModifyIndex: index}
		for _, later := range offers {
			if later.changes == before {
				later.changes = after
			}
		}
		return
	}
}

// prepare makes the values that the grant writes.
func (o *offer) prepare(session string, now time.Time) {
	c, at := o.bid.Candidate, now.UTC().Round(0)
	o.leadership = lock{
		Term: o.next, Holder: candidate{c.ID, string(c.Nonce), c.Address, c.Metadata},
		TTL: micros(o.bid.TTL), Renew: micros(o.bid.Renew), Session: session, Heartbeat: lease.NewHeartbeat(), At: at,
	}
	old := o.entry.term
	if old.Term == 0 && o.lease.Holder.ID != "" { // the record was deleted; the lock says who led
		old = term{Term: o.entry.lock.Term, ID: o.lease.Holder.ID, Nonce: string(o.lease.Holder.Nonce), From: at}
	}
	lapsed := time.Duration(0)
	if o.entry.renewals != nil {
		lapsed = o.lease.ExpiredFor()
	}
	old.close(backend.Failed, at, lapsed)
	o.record = term{
		Term: o.next, ID: c.ID, Nonce: string(c.Nonce), TTL: micros(o.bid.TTL), Heartbeat: lease.NewHeartbeat(), From: at, History: old.History,
		MovedTo: old.MovedTo, Moved: old.Moved,
	}
	if old.Term > 0 {
		o.record.Last = &past{old.ID, old.End}
	}
}

// grantOps returns one grant. It requires that nothing has changed, including the holder's
// heartbeat, and then passes the lock on in one step. It unlocks on behalf of the holder's
// session, so that nobody waits for the end of that session or for a lock-delay. That is safe
// because the leadership is over by then.
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

// pin returns an operation that fails unless the key is as it was read.
func pin(key string, pair *api.KVPair) *api.KVTxnOp {
	if pair == nil {
		return &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: key}
	}
	return &api.KVTxnOp{Verb: api.KVCheckIndex, Key: key, Index: pair.ModifyIndex}
}

func indexOf(pair *api.KVPair) uint64 {
	if pair == nil {
		return 0 // succeeds only if the key does not exist
	}
	return pair.ModifyIndex
}

// granted answers the offers of a transaction that was sent at that time and applied at that
// index.
func (b *Backend) granted(part []*offer, index uint64, sent time.Time, session string, answers []backend.Answer) {
	self, now := b.owner.Nonce(), time.Now()
	for _, o := range part {
		b.memory.recordGrant(o.name, o.next, o.bid.TTL, session)
		e := &entry{
			name: o.name, lock: o.leadership, term: o.record,
			lockPair: &api.KVPair{Key: b.keys.lock + o.name, Session: session, ModifyIndex: index},
			termPair: &api.KVPair{Key: b.keys.term + o.name, ModifyIndex: index},
		}
		last := lease.Session{Heartbeat: b.heartbeats.markHeld(e, index, sent)}
		e.renewals = &last
		answers[o.at] = backend.Answer{Lease: e.leaseFor(self, &b.memory, now), Outcome: backend.Granted, ValidFor: o.bid.TTL}
	}
}
