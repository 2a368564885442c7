package etcd

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
)

// maxStage is how long a stage may be, in bytes.
const maxStage = 32

// Announce implements [backend.Backend]: the record is written, and hangs on the etcd
// lease, of four TTLs, which is kept alive every other time.
func (b *Backend) Announce(ctx context.Context, m backend.Member) error {
	if err := b.enter(m.Nonce); err != nil {
		return err
	}
	return b.fail("announce", b.announce(ctx, m))
}

func (b *Backend) announce(ctx context.Context, m backend.Member) error {
	if err := b.keep(ctx, m.TTL); err != nil {
		return err
	}
	for try := 0; ; try++ {
		id, err := b.lease(ctx, max(m.TTL, minTTL))
		if err != nil {
			return err
		}
		value := encode(candidate{m.ID, m.Address, m.Metadata, backend.Clean(m.Stage, maxStage, false), span(m.TTL), time.Now().UTC()})
		_, err = b.txn(ctx, nil, []clientv3.Op{clientv3.OpPut(b.keys.candidate(m.Nonce), value, clientv3.WithLease(id))}, false)
		if !is(err, rpctypes.ErrLeaseNotFound) || try > 0 {
			return err
		}
		b.ended(id)
	}
}

// Members implements [backend.Backend].
func (b *Backend) Members(ctx context.Context, from string, limit int) (list []backend.Member, err error) {
	if err := b.enter(""); err != nil {
		return nil, err
	}
	all := b.keys.candidate("")
	resp, err := b.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(b.keys.candidate(from), clientv3.WithRange(beyond(all)), clientv3.WithLimit(int64(limit)))}, true)
	if err != nil {
		return nil, b.fail("members", err)
	}
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().GetKvs() {
			c := decode[candidate](kv.Value)
			if c == nil {
				c = &candidate{}
			}
			list = append(list, backend.Member{
				Candidate: backend.CleanCandidate(backend.Candidate{ID: c.ID, Nonce: cut(kv.Key, all), Address: c.Address, Metadata: c.Metadata}),
				Stage:     backend.Clean(c.Stage, maxStage, false),
				TTL:       min(time.Duration(c.TTL), maxTTL),
				Age:       max(0, time.Since(c.Seen)),
			})
		}
	}
	return list, nil
}
