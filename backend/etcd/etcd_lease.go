package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
)

var errLeaseEnded = fmt.Errorf("%w: the etcd lease has expired or was revoked", backend.ErrUnavailable)

// leaseTTLs is how many TTLs the etcd lease lasts, to which the session key and the member
// record are attached. It only deletes keys of dead processes. It is kept alive at every
// eighth announcement.
const leaseTTLs = 24

// etcdLease returns the etcd lease of this process, and creates it if there is none.
func (b *Backend) etcdLease(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
	select { // one call at a time creates it
	case b.leaseMutex <- struct{}{}:
		defer func() { <-b.leaseMutex }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	b.mu.Lock()
	id := b.leaseID
	b.mu.Unlock()
	if id != 0 {
		return id, nil
	}
	sent := time.Now()
	var resp *clientv3.LeaseGrantResponse
	err := b.call(ctx, func() (err error) {
		resp, err = hedged(ctx, func(ctx context.Context) (*clientv3.LeaseGrantResponse, error) { // if an answer is lost, that lease expires
			return b.client.Grant(ctx, int64((leaseTTLs*ttl+time.Second-1)/time.Second))
		})
		return err
	})
	if err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leaseID, b.keptAlive = resp.ID, sent
	return resp.ID, nil
}

// forgetEtcdLease notes that an etcd lease has ended.
func (b *Backend) forgetEtcdLease(id clientv3.LeaseID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leaseID == id {
		b.leaseID = 0
	}
}

// keepAlive keeps the etcd lease alive if seven and a half TTLs have passed since the last
// time. So it is called two or three times in the life of a lease.
func (b *Backend) keepAlive(ctx context.Context, ttl time.Duration) error {
	b.mu.Lock()
	id, kept := b.leaseID, b.keptAlive
	b.mu.Unlock()
	if id == 0 || time.Since(kept) < ttl*15/2 {
		return nil
	}
	sent := time.Now()
	err := b.call(ctx, func() error {
		_, err := hedged(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, b.keepAliveOnce(ctx, id) })
		return err
	})
	switch {
	case errors.Is(err, errLeaseEnded):
		b.forgetEtcdLease(id)
		return nil
	case err != nil:
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keptAlive = sent
	return nil
}

// keepAliveOnce does what the client's KeepAliveOnce does, without its silent retries.
func (b *Backend) keepAliveOnce(ctx context.Context, id clientv3.LeaseID) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewLeaseClient(b.client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return rpctypes.Error(err)
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil && !errors.Is(err, io.EOF) { // then Recv says why
		return rpctypes.Error(err)
	}
	resp, err := stream.Recv()
	switch {
	case err != nil:
		return rpctypes.Error(err)
	case resp.TTL <= 0:
		return errLeaseEnded
	}
	return nil
}
