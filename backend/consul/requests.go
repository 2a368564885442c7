package consul

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"
)

// query returns the options of a consistent read: the servers' leader answers it after it has made sure
// that it still leads. With after, it waits until the index differs from that, or for a while.
func (d *driver) query(ctx context.Context, after uint64) *api.QueryOptions {
	q := &api.QueryOptions{
		RequireConsistent: true,
		Datacenter:        d.datacenter, Namespace: d.namespace, Partition: d.partition,
	}
	if after > 0 {
		q.WaitIndex, q.WaitTime = after, listenWait
	}
	return q.WithContext(ctx)
}

// listenWait is the longest that one query waits. The agent keeps the connection of one that was given up
// until then, and allows one address so many.
const listenWait = 30 * time.Second

// complete returns an error if a listing has no index, which shows whether anything has changed, or if the
// servers have left out keys that the token may not read. They say so only to a request with a token.
func complete(meta *api.QueryMeta) error {
	switch {
	case meta.LastIndex == 0:
		return errNoIndex
	case meta.ResultsFilteredByACLs:
		return errFiltered
	}
	return nil
}

// maxOps is the most operations of one transaction that Consul allows.
const maxOps = 128

// txn runs a transaction: Consul applies all of it or nothing. refusal says why it applied nothing.
func (d *driver) txn(ctx context.Context, ops api.KVTxnOps) (ok bool, answer *api.KVTxnResponse, err error) {
	for _, op := range ops { // the client does not do it
		op.Namespace, op.Partition = d.namespace, d.partition
	}
	if ok, answer, _, err = d.client.KV().Txn(ops, d.query(ctx, 0)); err == nil {
		answer.Results = slices.DeleteFunc(answer.Results, func(p *api.KVPair) bool { return p == nil })
	}
	return ok, answer, err
}

// get reads keys consistently, in a transaction for each 128. Keys that do not exist are nil.
func (d *driver) get(ctx context.Context, keys ...string) (map[string]*api.KVPair, error) {
	pairs := make(map[string]*api.KVPair, len(keys))
	for part := range slices.Chunk(keys, maxOps) {
		ok, answer, err := d.txn(ctx, gets(part))
		if err == nil && !ok {
			err = refusal(answer)
		}
		if err != nil {
			return nil, err
		}
		for _, pair := range answer.Results {
			if pairs[pair.Key] = pair; pair.ModifyIndex == 0 {
				pairs[pair.Key] = nil
			}
		}
	}
	for _, key := range keys {
		if _, ok := pairs[key]; !ok { // the servers leave out keys that the token may not read
			return nil, errFiltered
		}
	}
	return pairs, nil
}

// gets returns the operations of a transaction that read keys.
func gets(keys []string) api.KVTxnOps {
	ops := make(api.KVTxnOps, len(keys))
	for i, key := range keys {
		ops[i] = &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: key}
	}
	return ops
}

// index reads the index of the keys with a prefix, which moves with every write and deletion of one.
func (d *driver) index(ctx context.Context, prefix string, after uint64) (uint64, error) {
	_, meta, err := d.client.KV().Keys(prefix, "/", d.query(ctx, after)) // the separator shortens the answer
	if err != nil {
		return 0, err
	}
	return meta.LastIndex, complete(meta)
}
