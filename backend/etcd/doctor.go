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

// Preflight implements [backend.Preflighter]. For each election it sends the writes of a grant in a
// transaction whose condition is never met: etcd checks the rights for all its operations before that.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	d, closed := b.driver, b.Enter(bids[0].Candidate.Nonce)
	key, never := d.never()
	errs := make([]error, len(bids))
	client.InParallel(len(bids), 32, func(i int) {
		then := []clientv3.Op{clientv3.OpPut(key, "")}
		for _, k := range []lease.Key{{Kind: lease.Metas}, {Kind: lease.Records, Name: bids[i].Election}} {
			then = append(then, clientv3.OpPut(d.keys.key(k), ""))
		}
		err := closed
		if err == nil {
			_, _, err = d.txn(ctx, []clientv3.Cmp{never}, then)
		}
		if err != nil {
			errs[i] = fmt.Errorf("etcd: preflight %q: %w", bids[i].Election, err)
		}
	})
	return errs
}

// never returns the key of an item that nobody writes, and a condition that is never met.
func (d *driver) never() (string, clientv3.Cmp) {
	key := d.keys.key(lease.Key{Kind: lease.Sessions, Name: "preflight"})
	return key, clientv3.Compare(clientv3.Version(key), "=", -1)
}

// Inspect implements [backend.Inspector]. It needs no rights but those of a member.
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
	client.InParallel(len(statuses), 32, func(i int) {
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
	key, never := d.never()
	then := slices.Repeat([]clientv3.Op{clientv3.OpGet(key)}, mostOps-2)
	then = append(then, clientv3.OpPut(key, strings.Repeat(" ", lease.MaxValue)))
	_, _, err := d.txn(ctx, []clientv3.Cmp{never}, then)
	switch {
	case is(err, rpctypes.ErrTooManyOps):
		list = append(list, clean.Diagnosticf(true, "messages",
			"--max-txn-ops is less than %d, its default: bids for dozens of elections are refused", mostOps))
	case tooLarge(err):
		list = append(list, clean.Diagnosticf(true, "messages",
			"--max-request-bytes is less than %d: thousands of elections of a process cannot be renewed",
			lease.MaxValue+1024))
	}

	// A second stream of a connection waits in the client, which says nothing.
	within, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	d.watcher.Watch(within, key)
	if d.kv.Get(within, key); within.Err() != nil && ctx.Err() == nil {
		list = append(list, clean.Diagnosticf(true, "messages", "--max-concurrent-streams is 1: a watch"+
			" leaves no stream for renewals, and nobody leads for long"))
	}
	return list
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
		add(true, "cluster", "the endpoints belong to %d clusters: each would have a leader. Correct them",
			len(clusters))
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
		add(false, "cluster", "one member: no election has a leader while it is down;"+
			" if its disk is lost, every lease is watched for the greatest TTL")
	case spare < 0:
		add(true, "cluster", "the endpoints reach %d of %d voting members: less than a majority", up, voters)
	default:
		add(spare == 0 || up < voters, "cluster", "the endpoints reach %d of %d voting members;"+
			" the cluster can lose %d of these", up, voters, spare)
	}
	return list
}
