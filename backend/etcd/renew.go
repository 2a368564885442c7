package etcd

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
)

// Renew implements [backend.Backend]. One transaction renews all leases: if the session key is
// as the previous renewal left it and there are no new requests, it writes a fresh heartbeat
// and reads the revisions of the records. A lease whose record is not as it was granted is
// not renewed.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return b.renewWith(ctx, "renew", held, b.renew)
}

// Mark implements [backend.Backend]: it writes the records with the marks.
func (b *Backend) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return b.renewWith(ctx, "mark", held, func(ctx context.Context, held []backend.Held, all []int, answers []backend.Answer) error {
		for part := range slices.Chunk(all, maxByKey) {
			if err := b.rewriteRecords(ctx, held, part, answers, true); err != nil {
				return err
			}
		}
		return nil
	})
}

// renewWith holds the session mutex and calls do with the leases in the order of their names.
func (b *Backend) renewWith(ctx context.Context, verb string, held []backend.Held, do func(context.Context, []backend.Held, []int, []backend.Answer) error) ([]backend.Answer, error) {
	if err := b.enter(held[0].Holder.Nonce); err != nil {
		return nil, err
	}
	what, answers, all := about(verb, len(held), held[0].Election), make([]backend.Answer, len(held)), make([]int, len(held))
	for i := range all {
		all[i] = i
	}
	slices.SortFunc(all, func(i, j int) int { return cmp.Compare(held[i].Election, held[j].Election) })
	unlock, err := b.lockSession(ctx) // heartbeats must be written in order
	if err == nil {
		defer unlock()
		err = do(ctx, held, all, answers)
	}
	if err = b.fail(what, err); err != nil {
		setErrors(answers, all, err)
	}
	return answers, err
}

// renew renews leases of the current session by one heartbeat, and the others by writing
// their records.
func (b *Backend) renew(ctx context.Context, held []backend.Held, all []int, answers []backend.Answer) error {
	for range 5 {
		s := b.currentSession()
		var known, rest []int
		for _, i := range all {
			if answers[i].Outcome != backend.Unknown {
				continue
			}
			if h, ok := b.heldInTerm(&held[i]); ok && s != nil && h.session == s && h.unconfirmed == nil {
				known = append(known, i)
			} else {
				rest = append(rest, i)
			}
		}
		if len(known)+len(rest) == 0 {
			return nil
		}
		for part := range slices.Chunk(rest, maxByKey) {
			if err := b.rewriteRecords(ctx, held, part, answers, false); err != nil {
				return err
			}
		}
		if known != nil {
			if err := b.renewSession(ctx, s, held, known, answers); err != nil {
				return err
			}
		}
	}
	return errBusy
}

// renewSession writes one heartbeat for leases of the session, and answers those whose
// records are unchanged. The others are left for the next round of renew.
func (b *Backend) renewSession(ctx context.Context, s *session, held []backend.Held, known []int, answers []backend.Answer) error {
	names := namesOf(held, known)
	r, v, key := b.newRenewal(s, names), b.newSnapshot(), b.keys.heartbeat(s.name)
	if len(r.value) > maxHeartbeats { // no one would read it: the leases continue under another session
		b.abandonSession(s)
		return nil
	}
	requests := clientv3.Compare(clientv3.ModRevision(b.keys.request(names[0])), "<", r.requestsSeen+1).WithRange(keyAfter(b.keys.request(names[len(names)-1])))
	part, more := known[:min(maxByRange, len(known))], known[min(maxByRange, len(known)):]
	reads := b.readOps(namesOf(held, part), true)
	then := append([]clientv3.Op{clientv3.OpPut(key, r.value, clientv3.WithIgnoreLease())}, reads...)
	member := b.newPiggyback(len(r.value))
	if member != nil {
		then = append(then, member.op)
	}
	resp, err := b.txnElse(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", r.revision), requests},
		then, append([]clientv3.Op{clientv3.OpGet(key)}, reads...), true)
	if err != nil {
		return err
	}
	b.noteOrigin(&v, resp)
	if member != nil && resp.Succeeded && resp.Responses[len(then)-1].GetResponseTxn().GetSucceeded() {
		b.piggybackDone(member, resp.Header.GetRevision())
	}
	var found *mvccpb.KeyValue
	for _, kv := range resp.Responses[0].GetResponseRange().GetKvs() {
		found = kv
	}
	if !b.noteRenewal(s, &r, resp.Succeeded, resp.Header.GetRevision(), found) {
		b.answerRenewals(&v, resp, nil, held, part, answers)
		return nil // the next round uses the session as it is now
	}
	for b.answerRenewals(&v, resp, &r, held, part, answers); len(more) > 0; b.answerRenewals(&v, resp, &r, held, part, answers) {
		part, more = more[:min(maxByRange, len(more))], more[min(maxByRange, len(more)):]
		if v, resp, err = b.readSnapshot(ctx, b.readOps(namesOf(held, part), true)); err != nil {
			return err
		}
	}
	return nil
}

// answerRenewals grants the renewals whose records are as they were granted, by a read in
// the transaction that has written the heartbeat, or later; written nil: none was written.
// It invalidates the other leases.
func (b *Backend) answerRenewals(v *snapshot, resp *clientv3.TxnResponse, written *renewal, held []backend.Held, part []int, answers []backend.Answer) {
	r := readResult{entries: make([]entry, len(part))}
	for n, i := range part {
		r.entries[n].Election = held[i].Election
	}
	b.applyResponse(v, r.byName(), resp)
	for n, i := range part {
		l, e := &held[i], &r.entries[n]
		h, ok := b.heldInTerm(l)
		if !ok || e.recordRevision != h.revision || v.cluster != h.cluster || h.revision <= v.restoredAt || e.Request.Term == l.Term && e.Request.Kind == backend.Depose {
			b.invalidate(l.Election)
			continue
		}
		if written == nil {
			continue
		}
		now := h.lease(l, written)
		if e.Request.Term == l.Term && e.Request.Kind != "" {
			now.Request = e.Request
		}
		answers[i] = backend.Answer{Lease: clean.Lease(now), Outcome: backend.Granted, ValidFor: min(l.TTL, now.TTL)}
	}
}

func namesOf(held []backend.Held, part []int) []string {
	names := make([]string, len(part))
	for n, i := range part {
		names[n] = held[i].Election
	}
	return names
}

// rewriteRecords reads leases, refuses those that this process no longer holds, and moves
// those of another or a lost session to the current one, by writing their records. Leases
// of the current session are left for a renewal, unless marks are to be written.
func (b *Backend) rewriteRecords(ctx context.Context, held []backend.Held, part []int, answers []backend.Answer, marked bool) error {
	v, entries, err := b.readElections(ctx, namesOf(held, part))
	if err != nil {
		return err
	}
	s, now := b.removeIfDeleted(b.currentSession(), &v), time.Now().UTC()
	var changes []change
	var rewritten []int
	for n, i := range part {
		l, e := &held[i], &entries[n]
		h, ok := b.heldInTerm(l)
		ours := ok && !e.suspect && e.heldBy(l.Holder.Nonce) && e.Term == l.Term && (e.recordRevision == h.revision || slices.Contains(h.unconfirmed, e.record.Heartbeat))
		if !ours || e.Request.Kind == backend.Depose {
			answers[i] = backend.Answer{Lease: e.Lease, Outcome: backend.Refused}
			continue
		}
		if s != nil && e.record.Session == s.name && !marked {
			b.markHeld(e, s)
			continue
		}
		r := *e.record
		r.Heartbeat, r.Written = uint64(lease.NewHeartbeat()), now
		if marked {
			r.marks = marks{l.MovedTo, l.MovedFrom}
		}
		changes, rewritten = append(changes, change{e, &r}), append(rewritten, i)
	}
	if changes == nil {
		return nil
	}
	w, err := b.writeRecords(ctx, s, &v, changes, held[part[0]].Holder, held[part[0]].TTL, nil)
	if err != nil {
		return err
	}
	if w.revision == 0 { // something has changed, or a copy came first: the next read shows which
		if !marked {
			return nil
		}
		return errBusy
	}
	for k, i := range rewritten {
		validFor := min(held[i].TTL, time.Duration(changes[k].record.TTL)) // challengers watch for the TTL of the record
		answers[i] = backend.Answer{Lease: b.noteGrant(&v, &changes[k], &w), Outcome: backend.Granted, ValidFor: validFor}
	}
	return nil
}
