package consul

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/client"
)

// An agent is access to a Consul agent: what the driver needs, and nothing about leases. Its errors have a class, say what
// an operator can do, and show no token.
type agent struct {
	Client    *api.Client
	Transport *transport // of Client; nil with Options.Client
	Prefix    string
	Policy    string // the rights that the token needs, for errors

	token     client.Secret // none with Options.Client
	tokenFile string        // where it may be replaced; "": nowhere
	host      string        // or the path of a unix socket; empty with Options.Client
	full      atomic.Int64  // when the agent last had no connection for a request, as UnixNano; 0: never

	datacenter, namespace, partition string // "": that of Client
}

// newAgent checks o and returns an agent. It makes no request. Errors are [backend.ErrInvalid].
func newAgent(o *Options) (*agent, error) {
	if o.Prefix == "" {
		o.Prefix = "election"
	}
	a := &agent{Prefix: o.Prefix, datacenter: o.Datacenter, namespace: o.Namespace, partition: o.Partition}
	a.Policy = fmt.Sprintf("key_prefix %q { policy = \"write\" }", a.Prefix+"/")
	err := checkPrefix(o.Prefix)
	if err == nil {
		err = a.connect(o)
	}
	if err != nil {
		return nil, fmt.Errorf("consul: %w: %w", backend.ErrInvalid, err)
	}
	return a, nil
}

func checkPrefix(prefix string) error {
	if err := backend.CheckText("prefix", prefix, 128, false); err != nil {
		return err
	}
	for part := range strings.SplitSeq(prefix, "/") {
		if part == "" || part == "." || part == ".." { // agents redirect such paths
			return fmt.Errorf("prefix %q has a part that is \"\", \".\" or \"..\"", prefix)
		}
	}
	return nil
}

// Consistent returns the options of a consistent read: the servers' leader answers it after it has
// made sure that it is still the leader.
func (a *agent) Consistent(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{RequireConsistent: true, Datacenter: a.datacenter, Namespace: a.namespace, Partition: a.partition}).WithContext(ctx)
}

// complete returns an error if a listing has no index, by which it is known whether anything has changed, or if the
// servers have left out keys, because the token may not read them. They say so only to a request with a token.
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

// Txn runs a transaction: Consul applies all of it or nothing. refusal says why it applied nothing.
func (a *agent) Txn(ctx context.Context, ops api.KVTxnOps) (ok bool, answer *api.KVTxnResponse, err error) {
	for _, op := range ops { // the client does not do it
		op.Namespace, op.Partition = a.namespace, a.partition
	}
	ok, answer, _, err = a.Client.KV().Txn(ops, a.Consistent(ctx))
	return ok, answer, err
}

// Get reads up to maxOps keys consistently, in one transaction. Keys that do not exist are nil.
func (a *agent) Get(ctx context.Context, keys ...string) (map[string]*api.KVPair, error) {
	ok, answer, err := a.Txn(ctx, gets(keys))
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, refusal(answer)
	}
	return found(answer, keys)
}

// gets returns the operations of a transaction that read keys.
func gets(keys []string) api.KVTxnOps {
	ops := make(api.KVTxnOps, len(keys))
	for i, key := range keys {
		ops[i] = &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: key}
	}
	return ops
}

// found returns what operations of gets have read. Keys that do not exist are nil.
func found(answer *api.KVTxnResponse, keys []string) (map[string]*api.KVPair, error) {
	pairs := make(map[string]*api.KVPair, len(keys))
	for _, pair := range answer.Results {
		if pairs[pair.Key] = pair; pair.ModifyIndex == 0 {
			pairs[pair.Key] = nil
		}
	}
	for _, key := range keys {
		if _, ok := pairs[key]; !ok { // the servers leave out keys that the token may not read
			return nil, errFiltered
		}
	}
	return pairs, nil
}

// List reads all keys with a prefix consistently, and their index. With after, it waits until the index differs from
// that, or for a while.
func (a *agent) List(ctx context.Context, prefix string, after uint64) (api.KVPairs, uint64, error) {
	q := a.Consistent(ctx)
	if after > 0 {
		q.WaitIndex, q.WaitTime = after, listenWait
	}
	pairs, meta, err := a.Client.KV().List(prefix, q)
	if err != nil {
		return nil, 0, err
	}
	if err := complete(meta); err != nil {
		return nil, 0, err
	}
	if len(pairs) == 0 && after == 0 { // without a token, the servers do not say that they left out keys
		if _, err := a.Get(ctx, prefix); err != nil {
			return nil, 0, err
		}
	}
	return pairs, meta.LastIndex, nil
}

// listenWait is the longest that one blocking query waits. The agent keeps the connection of one that was given up until
// then, and allows one address so many.
const listenWait = 30 * time.Second

// listenPause is how long nobody listens after the place of a query was needed.
const listenPause = 5 * time.Minute

// giveWay waits until the place of a query is no longer needed.
func (a *agent) giveWay(ctx context.Context) error {
	for ctx.Err() == nil {
		left := time.Until(time.Unix(0, a.full.Load()).Add(listenPause))
		if left <= 0 {
			break
		}
		select {
		case <-time.After(left):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// Index reads the index of the keys with a prefix, which moves with every write and deletion of
// one. With after, it waits until the index differs from that, or for a while; then the answer is
// only a hint.
func (a *agent) Index(ctx context.Context, prefix string, after uint64) (uint64, error) {
	q := a.Consistent(ctx)
	if after > 0 {
		q.RequireConsistent, q.WaitIndex, q.WaitTime = false, after, listenWait
	}
	_, meta, err := a.Client.KV().Keys(prefix, "/", q) // with this separator the answer is short
	if err != nil {
		return 0, err
	}
	return meta.LastIndex, complete(meta)
}
