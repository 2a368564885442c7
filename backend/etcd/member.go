package etcd

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
)

// shown is for how many TTLs a member is listed after it was heard of last. Clocks may
// differ.
const listedTTLs = 4

// announced is this process's member record, as it was written last.
type announced struct {
	value     candidate        // but for its time
	lease     clientv3.LeaseID // what it hangs on
	revision  int64            // its revision; 0: not known, so nothing rides
	sent      time.Time
	byRenewal bool       // with a renewal
	pending   *piggyback // it does, and has not arrived yet
}

// A ride is the member's record, which travels with a renewal that is sent anyhow, so
// that a leader need not write it by itself. A renewal must not fail for it. So it is a
// transaction within that of the renewal, which writes only if the record is as it was
// written last: then the etcd lease that it hangs on is there as well, and stays.
type piggyback struct{ op clientv3.Op }

// ride returns the record if half its TTL has gone by since it was written, and there is
// room beside what else is sent; or nil. If it is not confirmed (see rode) it is the last
// one until Announce has written the record, whatever the reason.
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

// rode notes that a ride has arrived, at a revision, unless Announce came between.
func (b *Backend) piggybackDone(r *piggyback, at int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := &b.announced; a.pending == r {
		a.revision, a.byRenewal, a.pending = at, true, nil
	}
}

// Announce implements [backend.Backend]: the record is written, unless a renewal has
// just done that. It hangs on the etcd lease, which lasts for 24 TTLs and is kept alive
// every eighth time.
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
		c := candidate{m.ID, m.Address, m.Metadata, backend.Clean(m.Stage, backend.MaxStage, false), m.Elections, span(m.TTL), time.Time{}}
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

// begins reports whether Announce has to write the record, and that nothing rides until it
// has: a renewal has not done so lately, or it would be another record.
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
		resp, err := b.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(b.keys.candidate(from), clientv3.WithRange(directoryEnd(all)), clientv3.WithLimit(int64(limit)))}, true)
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
			if backend.Clean(nonce, 64, false) != nonce {
				continue // not ours, and no place from which to go on
			}
			m := backend.CleanMember(backend.Member{
				Candidate: backend.Candidate{ID: c.ID, Nonce: nonce, Address: c.Address, Metadata: c.Metadata},
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
