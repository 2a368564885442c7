package etcd

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend/lease"
)

// A sessionLease is the lease of etcd to which the session's key is attached. It only deletes the
// key of a dead process. It is not kept alive: when a third of it has passed, the next write of
// the session attaches the key to a new one, and the old one expires without keys.
type sessionLease struct {
	mu    sync.Mutex // held while a lease is made
	id    clientv3.LeaseID
	lasts time.Duration
	made  time.Time
}

// leaseFor returns an etcd lease for the sessions that changes put; 0 if they put none.
func (d *driver) leaseFor(ctx context.Context, changes []lease.Change) (clientv3.LeaseID, error) {
	lasts := time.Duration(0)
	for i := range changes {
		lasts = max(lasts, changes[i].Lasts)
	}
	l := &d.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if lasts == 0 || l.id != 0 && l.lasts >= lasts && time.Since(l.made) < l.lasts/3 {
		return l.id, nil
	}
	if by, ok := ctx.Deadline(); ok && l.id != 0 { // a failure must not cost a renewal
		limited, cancel := context.WithTimeout(ctx, time.Until(by)/4)
		defer cancel()
		ctx = limited
	}
	sent := time.Now()
	resp, err := hedged(ctx, d, func(ctx context.Context) (*clientv3.LeaseGrantResponse, error) { // if an answer is lost, that lease expires
		return d.client.Grant(ctx, int64((lasts+time.Second-1)/time.Second))
	})
	if err == nil {
		l.id, l.lasts, l.made = resp.ID, lasts, sent
	} else if l.id == 0 {
		return 0, d.fail(err)
	}
	return l.id, nil
}

// forget notes that an etcd lease has ended.
func (l *sessionLease) forget(id clientv3.LeaseID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == id {
		l.id = 0
	}
}

// revokeAfter revokes the etcd lease if a change has deleted the session.
func (d *driver) revokeAfter(ctx context.Context, c *lease.Change) {
	for _, p := range c.Put {
		if p.Over.Kind == lease.Sessions && p.Value == nil {
			id, _ := d.leaseFor(ctx, nil)
			d.client.Revoke(ctx, id) // if it fails, the lease expires
			d.lease.forget(id)
		}
	}
}
