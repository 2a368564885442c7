package consul

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
)

// Preflight implements [backend.Preflighter]. It tries the keys of grants and of the session.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) (errs []error) {
	err := b.Enter(bids[0].Candidate.Nonce)
	for part := range slices.Chunk(bids, maxOps/3) {
		tried := make([]error, len(part))
		if err == nil {
			tried = b.driver.tryWrites(ctx, part)
		}
		for i, bid := range part {
			errs = append(errs, b.driver.Wrap(fmt.Sprintf("preflight %q", bid.Election), cmp.Or(err, tried[i])))
		}
	}
	return errs
}

// tryWrites tells for each bid whether the token may write its three keys; nil: it may. It sends
// writes on condition of an index that no key has. Consul checks the rights of all operations
// before it tries any.
func (d *driver) tryWrites(ctx context.Context, bids []backend.Bid) []error {
	var ops api.KVTxnOps
	for _, bid := range bids {
		for _, k := range []lease.Key{{Kind: lease.Records, Name: bid.Election}, {Kind: lease.Sessions, Name: string(bid.Candidate.Nonce)}, {Kind: lease.Metas}} {
			ops = append(ops, &api.KVTxnOp{Verb: api.KVCAS, Key: d.key(k), Index: math.MaxInt64})
		}
	}
	_, answer, err := d.Txn(ctx, ops)
	if err != nil {
		return slices.Repeat([]error{err}, len(bids))
	}
	errs := make([]error, len(bids))
	for _, e := range answer.Errors {
		if strings.Contains(e.What, "ermission denied") && e.OpIndex >= 0 && e.OpIndex < len(ops) {
			errs[e.OpIndex/3] = errors.New(e.What)
		}
	}
	return errs
}

// Inspect implements [backend.Inspector], which asks the agent.
func (b *Backend) Inspect(ctx context.Context, _, _ time.Duration) ([]backend.Diagnostic, error) {
	if err := b.Enter(""); err != nil {
		return nil, err
	}
	list, err := b.driver.servers(ctx)
	if err == nil {
		err = b.driver.tryLargest(ctx)
	}
	if errors.Is(err, backend.ErrDenied) {
		list = append(list, clean.Diagnosticf(true, "messages", "a process that leads thousands of elections cannot renew all of them: a request of %d bytes fails: %v", maxBytes, err))
		err = nil
	}
	return list, err
}

// tryLargest sends as much as a member may send in one request, on condition of an index that no key has: not every token
// may read the limits. The error is that of a limit, if the token may write.
func (d *driver) tryLargest(ctx context.Context) error {
	key := d.key(lease.Key{Kind: lease.Sessions, Name: "preflight"})
	_, _, err := d.Txn(ctx, api.KVTxnOps{{Verb: api.KVCAS, Key: key, Index: math.MaxInt64, Value: make([]byte, maxBytes)}})
	return d.Fail(err)
}

// servers reports the agent and the servers behind it: whether
// they have a leader, how many there are, and how many can fail. Version and health need rights
// that leases do not need (agent:read, operator:read); without them it says so.
func (a *agent) servers(ctx context.Context) (list []backend.Diagnostic, err error) {
	const verb = "inspect"
	add := func(warning bool, what, format string, args ...any) {
		list = append(list, clean.Diagnosticf(warning, what, format, args...))
	}
	query := (&api.QueryOptions{}).WithContext(ctx)
	leader, err := a.Client.Status().LeaderWithQueryOptions(query)
	if err != nil {
		return nil, a.Wrap(verb, err)
	}
	peers, err := a.Client.Status().PeersWithQueryOptions(query)
	if err != nil {
		return nil, a.Wrap(verb, err)
	}
	servers := len(peers)
	switch {
	case leader == "":
		add(true, "servers", "%d, and none leads: there is no majority, so nothing can be written", servers)
	case servers == 1:
		add(false, "servers", "one, %s: nobody can lead while it is down, and all members watch anew if its disk is lost", leader)
	default:
		add(servers%2 == 0, "servers", "%d; %s leads, and %d of them can fail", servers, leader, (servers-1)/2)
	}

	health, err := a.Client.Operator().AutopilotServerHealth(query)
	switch {
	case denied(err):
		add(false, "health", `not shown to this token: it needs operator = "read", which leases do not need`)
	case err != nil:
		add(true, "health", "%v", a.Wrap(verb, err))
	default:
		versions := map[string]bool{}
		for _, s := range health.Servers {
			versions[s.Version] = true
			if !s.Healthy {
				add(true, "health", "server %s (%s) is not healthy: serf status %s, last contact with the leader %v ago", s.Name, s.Address, s.SerfStatus, s.LastContact)
			}
		}
		add(!health.Healthy || servers > 1 && health.FailureTolerance == 0, "health", "the servers report healthy: %v; %d of them can fail now", health.Healthy, health.FailureTolerance)
		if len(versions) > 1 {
			add(true, "health", "the servers' versions differ; they should differ only during an upgrade")
		}
	}

	var self struct {
		Config struct {
			Version, Datacenter, NodeName string
			Server                        bool
		}
		DebugConfig struct{ HTTPmaxConnsPerClient int }
	}
	_, err = a.Client.Raw().Query("/v1/agent/self", &self, query)
	switch c := self.Config; {
	case denied(err):
		add(false, "agent", `version and role are not shown to this token: it needs agent_prefix "" { policy = "read" }, which leases do not need`)
	case err != nil:
		add(true, "agent", "%v", a.Wrap(verb, err))
	default:
		add(false, "agent", "Consul %s on %s in %s; %s", c.Version, c.NodeName, c.Datacenter,
			map[bool]string{true: "a server: while it is down, this process has no store", false: "a client, which finds another server if one fails"}[c.Server])
		if most := self.DebugConfig.HTTPmaxConnsPerClient; most > 0 && most < fewConns {
			add(true, "connections", "http_max_conns_per_client is %d: all processes on a machine share them, and each keeps up to %d", most, maxConns)
		}
	}
	return list, nil
}

// maxConns is how many connections a process keeps. An agent that allows one address fewer than fewConns has no place for
// a process and its guard, or for a second one.
const (
	maxConns = 5
	fewConns = 2 * maxConns
)

// denied reports whether a right is missing.
func denied(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "ermission denied") || strings.Contains(err.Error(), "ACL not found"))
}
