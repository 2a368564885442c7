// Package consulagent is access to a Consul agent: what package consul needs, and
// nothing about leases.
package consulagent

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// Options are those of package consul, which explains them.
type Options struct {
	Address, Token, TokenFile             string
	CAFile, CertFile, KeyFile, ServerName string
	TLS                                   *tls.Config
	Datacenter, Namespace, Partition      string
	Prefix                                string
	Checks, ServiceChecks                 []string
	Client                                *api.Client
}

// An Agent is access to a Consul agent. Its errors have a class, say what an operator can do, and
// show no token.
type Agent struct {
	Client    *api.Client
	Transport *Transport // of Client; nil with Options.Client
	Prefix    string
	Policy    string // the rights that the token needs, for errors

	Partition string // of Consul Enterprise; "": that of Client

	name  string   // of the backend, for errors
	token aclToken // none with Options.Client
	host  string   // or the path of a unix socket; empty with Options.Client

	checks, serviceChecks []string
	datacenter, namespace string // "": that of Client
}

// Connect checks o and returns an Agent for the backend with that name. It makes no request. Errors
// are [backend.ErrInvalid].
func Connect(name string, o Options) (*Agent, error) {
	if o.Prefix == "" {
		o.Prefix = "election"
	}
	a := &Agent{Prefix: o.Prefix, name: name, checks: o.Checks, serviceChecks: o.ServiceChecks, Partition: o.Partition, datacenter: o.Datacenter, namespace: o.Namespace}
	err := checkPrefix(o.Prefix)
	if err == nil {
		err = a.connect(&o)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, backend.ErrInvalid, err)
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

// Location is where keys with a prefix are. It is empty with Options.Client, which does not tell its
// address.
func (a *Agent) Location(prefix string) string {
	if a.host == "" {
		return ""
	}
	return clean.Location(prefix, a.host)
}

// Close closes idle connections.
func (a *Agent) Close() {
	if a.Transport != nil {
		a.Transport.idle()
	}
}

// Consistent returns the options of a consistent read: the servers' leader answers it after it has
// made sure that it is still the leader.
func (a *Agent) Consistent(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{RequireConsistent: true, Datacenter: a.datacenter, Namespace: a.namespace, Partition: a.Partition}).WithContext(ctx)
}

func (a *Agent) write(ctx context.Context) *api.WriteOptions {
	return (&api.WriteOptions{Datacenter: a.datacenter, Namespace: a.namespace, Partition: a.Partition}).WithContext(ctx)
}

// Complete returns an error if a listing has no index, by which it is known whether anything has changed. It returns
// ErrFiltered if the servers have left out keys, because the token may not read them. They do not say so in an answer to
// a request without a token. So it is made again by the name of the token that they then use, unless the agent has put
// one of its own in its place.
func (a *Agent) Complete(ctx context.Context, prefix string, meta *api.QueryMeta) error {
	if meta.LastIndex == 0 {
		return errNoIndex
	}
	if meta.ResultsFilteredByACLs {
		return ErrFiltered
	}
	if a.token.Get() != "" || meta.DefaultACLPolicy != "deny" {
		return nil
	}
	q := a.Consistent(ctx)
	q.Token = anonymous
	_, named, err := a.Client.KV().Keys(prefix, "/", q)
	if denied(err) || err == nil && named.ResultsFilteredByACLs {
		_, _, err = a.Client.ACL().TokenReadSelf(a.Consistent(ctx)) // only the anonymous token may not read itself
		if denied(err) {
			return ErrFiltered
		}
	}
	return err
}

// SetPlace names namespace and partition in an operation of a transaction: the client does not do it.
func (a *Agent) SetPlace(op *api.KVTxnOp) { op.Namespace, op.Partition = a.namespace, a.Partition }

// MaxOps is the most operations of one transaction that Consul allows.
const MaxOps = 128

// Txn runs a transaction: Consul applies all of it or nothing. Refusal says why it applied nothing.
func (a *Agent) Txn(ctx context.Context, ops api.KVTxnOps) (ok bool, answer *api.KVTxnResponse, err error) {
	for _, op := range ops {
		a.SetPlace(op)
	}
	ok, answer, _, err = a.Client.KV().Txn(ops, a.Consistent(ctx))
	if err != nil && strings.Contains(err.Error(), "connection reset") { // some are wrapped, others only printed
		// An agent that expects TLS says so and closes the connection. If it has not read
		// the whole request, only the reset arrives. A short request gets the answer.
		if _, why := a.Client.Status().LeaderWithQueryOptions(a.Consistent(ctx)); why != nil {
			err = why
		}
	}
	return ok, answer, err
}

// Get reads up to MaxOps keys consistently, in one transaction. Keys that do not exist are nil.
func (a *Agent) Get(ctx context.Context, keys ...string) (map[string]*api.KVPair, error) {
	ok, answer, err := a.Txn(ctx, Gets(keys))
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, Refusal(answer)
	}
	return Found(answer, keys)
}

// Gets returns the operations of a transaction that read keys.
func Gets(keys []string) api.KVTxnOps {
	ops := make(api.KVTxnOps, len(keys))
	for i, key := range keys {
		ops[i] = &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: key}
	}
	return ops
}

// Found returns what operations of Gets have read. Keys that do not exist are nil.
func Found(answer *api.KVTxnResponse, keys []string) (map[string]*api.KVPair, error) {
	pairs := make(map[string]*api.KVPair, len(keys))
	for _, pair := range answer.Results {
		if pairs[pair.Key] = pair; pair.ModifyIndex == 0 {
			pairs[pair.Key] = nil
		}
	}
	for _, key := range keys {
		if _, ok := pairs[key]; !ok { // the servers leave out keys that the token may not read
			return nil, ErrFiltered
		}
	}
	return pairs, nil
}

// List reads all keys with a prefix consistently.
func (a *Agent) List(ctx context.Context, prefix string) (api.KVPairs, uint64, error) {
	found, meta, err := a.Client.KV().List(prefix, a.Consistent(ctx))
	if err != nil {
		return nil, 0, err
	}
	if err := a.Complete(ctx, prefix, meta); err != nil {
		return nil, 0, err
	}
	if len(found) == 0 { // without a token, the servers do not say that they left out keys
		if _, err := a.Get(ctx, prefix); err != nil {
			return nil, 0, err
		}
	}
	return found, meta.LastIndex, nil
}

// ListenWait is the longest that one blocking query waits.
const ListenWait = 5 * time.Minute

// Index reads the index of the keys with a prefix, which moves with every write and deletion of
// one. With after, it waits until the index differs from that, or for a while; then the answer is
// only a hint.
func (a *Agent) Index(ctx context.Context, prefix string, after uint64) (uint64, error) {
	q := a.Consistent(ctx)
	if after > 0 {
		q.RequireConsistent, q.WaitIndex, q.WaitTime = false, after, ListenWait
	}
	_, meta, err := a.Client.KV().Keys(prefix, "/", q) // with this separator the answer is short
	if err != nil {
		return 0, err
	}
	return meta.LastIndex, a.Complete(ctx, prefix, meta)
}

// HasChecks reports whether sessions depend on health checks.
func (a *Agent) HasChecks() bool { return len(a.checks)+len(a.serviceChecks) > 0 }

// CreateSession makes a session with the configured checks and no others.
func (a *Agent) CreateSession(ctx context.Context, entry *api.SessionEntry) (id string, err error) {
	if !a.HasChecks() {
		id, _, err = a.Client.Session().CreateNoChecks(entry, a.write(ctx)) // without serfHealth
		return id, err
	}
	if len(a.checks) == 0 {
		// The library omits an empty list, and the servers would add serfHealth.
		services := make([]api.ServiceCheck, len(a.serviceChecks))
		for i, name := range a.serviceChecks {
			services[i].ID = name
		}
		body := map[string]any{"Name": entry.Name, "Behavior": entry.Behavior, "TTL": entry.TTL, "LockDelay": entry.LockDelay.String(),
			"NodeChecks": []string{}, "ServiceChecks": services}
		var made struct{ ID string }
		_, err = a.Client.Raw().Write("/v1/session/create", body, &made, a.write(ctx))
		return made.ID, err
	}
	entry.NodeChecks = a.checks
	for _, name := range a.serviceChecks {
		entry.ServiceChecks = append(entry.ServiceChecks, api.ServiceCheck{ID: name})
	}
	id, _, err = a.Client.Session().Create(entry, a.write(ctx))
	return id, err
}

// RenewSession renews a session, and reports whether it has ended.
func (a *Agent) RenewSession(ctx context.Context, id string) (ended bool, err error) {
	entry, _, err := a.Client.Session().Renew(id, a.write(ctx))
	return err == nil && entry == nil, err
}
