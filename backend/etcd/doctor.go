package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
)

var (
	_ backend.Inspector   = (*Backend)(nil)
	_ backend.Preflighter = (*Backend)(nil)
	_ backend.Marker      = (*Backend)(nil)
)

// Preflight implements [backend.Preflighter]. For each election it sends the writes of a grant in a
// transaction whose condition is never met: etcd checks the rights for all operations of a transaction
// before its conditions.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	d, closed := b.driver, b.Enter(bids[0].Candidate.Nonce)
	errs := make([]error, len(bids))
	client.InParallel(len(bids), atOnce, func(i int) {
		var then []clientv3.Op
		record := lease.Key{Kind: lease.Records, Name: bids[i].Election}
		for _, k := range []lease.Key{{Kind: lease.Metas}, tried, record} {
			then = append(then, clientv3.OpPut(d.keys.key(k), ""))
		}
		err := closed
		if err == nil {
			_, _, err = d.txn(ctx, []clientv3.Cmp{d.never()}, then)
		}
		if err != nil {
			errs[i] = fmt.Errorf("etcd: preflight %q: %w", bids[i].Election, err)
		}
	})
	return errs
}

// atOnce is how many requests of the doctor are under way at the same time.
const atOnce = 32

// tried is an item that nobody writes.
var tried = lease.Key{Kind: lease.Sessions, Name: "preflight"}

// never returns a condition that is never met.
func (d *driver) never() clientv3.Cmp {
	return clientv3.Compare(clientv3.Version(d.keys.key(tried)), "=", -1)
}

// Inspect implements [backend.Inspector]. It asks the cluster for its members and each endpoint
// for its status, and reports whether all endpoints belong to one cluster, how many members
// it can lose, alarms, space, and limits that are too low. This needs no rights but those of a member.
func (b *Backend) Inspect(ctx context.Context, _, _ time.Duration) ([]backend.Diagnostic, error) {
	if err := b.Enter(""); err != nil {
		return nil, err
	}
	d := b.driver
	members, err := hedged(ctx, d, func(ctx context.Context) (*clientv3.MemberListResponse, error) {
		return d.client.MemberList(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("etcd: list members: %w", d.fail(err))
	}
	statuses := make([]endpointStatus, len(d.client.Endpoints()))
	client.InParallel(len(statuses), atOnce, func(i int) {
		e := d.client.Endpoints()[i]
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		status, err := d.client.Status(ctx, e)
		statuses[i] = endpointStatus{e, status, d.fail(err)}
	})
	return append(diagnostics(members.Members, statuses), d.tryLargest(ctx)...), nil
}

// tryLargest sends as much as a member may send in one request, on a condition that is never met: a cluster
// does not tell its limits. An observer may not write, so it is told of one of them only.
func (d *driver) tryLargest(ctx context.Context) (list []backend.Diagnostic) {
	const mostOps = 128 // operations in a transaction, by default; d.txn adds one
	key := d.keys.key(tried)
	then := slices.Repeat([]clientv3.Op{clientv3.OpGet(key)}, mostOps-2)
	then = append(then, clientv3.OpPut(key, strings.Repeat(" ", lease.MaxValue)))
	_, _, err := d.txn(ctx, []clientv3.Cmp{d.never()}, then)
	switch {
	case is(err, rpctypes.ErrTooManyOps):
		list = append(list, clean.Diagnosticf(true, "messages",
			"--max-txn-ops is less than %d, its default: bids for dozens of elections are refused", mostOps))
	case is(err, rpctypes.ErrRequestTooLarge) || err != nil && strings.Contains(err.Error(), "larger than max"):
		list = append(list, clean.Diagnosticf(true, "messages",
			"--max-request-bytes is less than %d: thousands of elections of a process cannot be renewed",
			lease.MaxValue+1024))
	}
	if !d.worksBesideAWatch(ctx, key) {
		list = append(list, clean.Diagnosticf(true, "messages", "--max-concurrent-streams is 1: what tells a process of changes leaves no stream for its renewals, and nobody leads for long"))
	}
	return list
}

// worksBesideAWatch reports whether a connection may have a second stream: others wait in the client, which
// says nothing.
func (d *driver) worksBesideAWatch(ctx context.Context, key string) bool {
	watching, end := context.WithCancel(ctx)
	defer end()
	select {
	case <-d.watcher.Watch(watching, key, clientv3.WithCreatedNotify()):
	case <-ctx.Done():
		return true
	}
	within, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := d.kv.Get(within, key)
	return err == nil || within.Err() == nil || ctx.Err() != nil
}

// An endpointStatus is the answer of one endpoint.
type endpointStatus struct {
	endpoint string
	status   *clientv3.StatusResponse
	err      error
}

// diagnostics explains the answers of the cluster and its endpoints.
func diagnostics(members []*etcdserverpb.Member, statuses []endpointStatus) (list []backend.Diagnostic) {
	add := func(warning bool, what, format string, args ...any) {
		list = append(list, clean.Diagnosticf(warning, what, format, args...))
	}
	reached, clusters := map[uint64]bool{}, map[uint64]bool{}
	for _, s := range statuses {
		if s.err != nil {
			add(true, "member", "%s does not answer: %v", s.endpoint, s.err)
			continue
		}
		st, role := s.status, "follows"
		reached[st.Header.GetMemberId()], clusters[st.Header.GetClusterId()] = true, true
		switch {
		case st.IsLearner:
			role = "is a learner, which cannot serve this program: remove it from the endpoints"
		case st.Leader == 0:
			role = "KNOWS NO LEADER: it is cut off, or there is no majority"
		case st.Leader == st.Header.GetMemberId():
			role = "leads the cluster"
		}
		add(st.IsLearner || st.Leader == 0, "member", "%s: etcd %s, %s, %d MiB in use",
			s.endpoint, st.Version, role, st.DbSize>>20)
		if quota := st.DbSizeQuota; quota > 0 && st.DbSize > quota/5*4 { // etcd tells it since 3.6
			add(true, "member", "%s: the quota is %d MiB: nothing can be written when it is used up",
				s.endpoint, quota>>20)
		}
		if len(st.Errors) > 0 {
			add(true, "member", "%s: %s; see: etcdctl alarm list", s.endpoint, strings.Join(st.Errors, "; "))
		}
	}
	if len(clusters) > 1 {
		add(true, "cluster", "the endpoints belong to %d clusters: each would have its own leader. Correct the endpoints", len(clusters))
	}
	voters, up := 0, 0
	for _, m := range members {
		if !m.IsLearner {
			voters++
			if reached[m.ID] {
				up++
			}
		}
	}
	switch spare := up - (voters/2 + 1); {
	case voters == 1:
		add(false, "cluster", "one member: no election has a leader while it is down; if its disk is lost, every lease is watched for the greatest TTL")
	case spare < 0:
		add(true, "cluster", "the endpoints reach %d of %d voting members: less than a majority", up, voters)
	default:
		add(spare == 0 || up < voters, "cluster", "the endpoints reach %d of %d voting members; the cluster can lose %d of these", up, voters, spare)
	}
	return list
}
