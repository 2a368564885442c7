package etcd

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// listedTTLs is for how many TTLs a member is listed after its record was written. It is
// more than two because clocks may differ.
const listedTTLs = 4

// announced is this process's member record as it was last written.
type announced struct {
	value     candidate        // without its time
	lease     clientv3.LeaseID // to which its key is attached
	revision  int64            // of its key; 0: unknown, so there is no piggyback
	sent      time.Time
	byRenewal bool       // it was written by a renewal
	pending   *piggyback // sent, without an answer yet
}

// A piggyback is the member record as part of a renewal, so that a leader need not write
// it separately. It is a transaction nested in that of the renewal, so that the renewal
// does not depend on it: docs/design/etcd.md, "The member record".
type piggyback struct{ op clientv3.Op }

// newPiggyback returns the record if it was written at least half a TTL ago and fits beside
// size bytes, or nil. If piggybackDone does not confirm it, there is no other one until
// Announce has written the record.
func (b *Backend) newPiggyback(size int) *piggyback {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := &b.announced
	if a.revision == 0 || time.Since(a.sent) < time.Duration(a.value.TTL)/2 {
		return nil
	}
	value := a.value
	value.Seen = time.Now().UTC()
	text, key := encode(value), b.keys.candidate(b.owner.Nonce())
	if size+len(text) > maxHeartbeats {
		return nil
	}
	as := clientv3.Compare(clientv3.ModRevision(key), "=", a.revision)
	a.revision, a.sent = 0, time.Now()
	a.pending = &piggyback{clientv3.OpTxn([]clientv3.Cmp{as}, []clientv3.Op{clientv3.OpPut(key, text, clientv3.WithIgnoreLease())}, nil)}
	return a.pending
}

// piggybackDone notes that a piggyback was written at a revision, unless Announce has
// written the record since.
func (b *Backend) piggybackDone(r *piggyback, at int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := &b.announced; a.pending == r {
		a.revision, a.byRenewal, a.pending = at, true, nil
	}
}

// Announce implements [backend.Backend]. It writes the record, unless a renewal has just
// done so, and keeps the etcd lease alive every eighth time.
func (b *Backend) Announce(ctx context.Context, m backend.Member) error {
	if err := b.enter(m.Nonce); err != nil {
		return err
	}
	return b.fail("announce", b.announce(ctx, m))
}

func (b *Backend) announce(ctx context.Context, m backend.Member) error {
	if err := b.keepAlive(ctx, m.TTL); err != nil {
		return err
	}
	for try := 0; ; try++ {
		id, err := b.etcdLease(ctx, max(m.TTL, minTTL))
		if err != nil {
			return err
		}
		c := candidate{m.ID, m.Address, m.Metadata, clean.Text(m.Stage, backend.MaxStage, false), m.Elections, span(m.TTL), time.Time{}}
		if !b.startAnnounce(c, id) {
			return nil
		}
		sent := time.Now()
		c.Seen = sent.UTC()
		resp, err := b.txn(ctx, nil, []clientv3.Op{clientv3.OpPut(b.keys.candidate(m.Nonce), encode(c), clientv3.WithLease(id))}, false)
		if err == nil {
			c.Seen = time.Time{}
			b.mu.Lock()
			b.announced = announced{value: c, lease: id, revision: resp.Header.GetRevision(), sent: sent}
			b.mu.Unlock()
			return nil
		}
		if !is(err, rpctypes.ErrLeaseNotFound) || try > 0 {
			return err
		}
		b.forgetEtcdLease(id)
	}
}

// startAnnounce reports whether Announce must write the record, because no renewal has
// written it lately or the record has changed. Until it is written there is no piggyback.
func (b *Backend) startAnnounce(c candidate, id clientv3.LeaseID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := &b.announced
	if a.revision != 0 && a.byRenewal && a.value == c && a.lease == id && time.Since(a.sent) < time.Duration(c.TTL)*3/4 {
		return false
	}
	*a = announced{}
	return true
}

// Members implements [backend.Backend].
func (b *Backend) Members(ctx context.Context, from string, limit int) (list []backend.Member, err error) {
	if err := b.enter(""); err != nil {
		return nil, err
	}
	all := b.keys.candidate("")
	for more := true; more && len(list) < limit; {
		resp, err := b.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(b.keys.candidate(backend.Nonce(from)), clientv3.WithRange(directoryEnd(all)), clientv3.WithLimit(int64(limit)))}, true)
		if err != nil {
			return nil, b.fail("members", err)
		}
		page := resp.Responses[0].GetResponseRange()
		more = page.GetMore()
		for _, kv := range page.GetKvs() {
			c := decode[candidate](kv.Value)
			if c == nil {
				c = &candidate{}
			}
			nonce := nameIn(kv.Key, all)
			from = keyAfter(nonce)
			if clean.Text(nonce, 64, false) != nonce {
				continue // a foreign key, which the manager could not pass as from
			}
			m := clean.Member(backend.Member{
				Candidate: backend.Candidate{ID: c.ID, Nonce: backend.Nonce(nonce), Address: c.Address, Metadata: c.Metadata},
				Stage:     c.Stage, Elections: c.Elections,
				TTL: min(time.Duration(c.TTL), maxTTL), Age: time.Since(c.Seen),
			})
			if m.Age <= listedTTLs*max(m.TTL, minTTL) && len(list) < limit {
				list = append(list, m)
			}
		}
	}
	return list, nil
}
