package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

var _ backend.Inspector = (*Backend)(nil)

// inspectLimit is how long one member may take to report its status.
const inspectLimit = 2 * time.Second

// Inspect implements [backend.Inspector]. It asks the cluster for its members and each endpoint
// for its status, and reports whether all endpoints belong to one cluster, how many members
// it can lose, versions, alarms and space. This needs no rights.
func (b *Backend) Inspect(ctx context.Context, _, _ time.Duration) (list []backend.Diagnostic, err error) {
	if err := b.Enter(""); err != nil {
		return nil, err
	}
	d := b.driver
	var members *clientv3.MemberListResponse
	if err := d.call(ctx, func() (err error) {
		members, err = d.client.MemberList(ctx)
		return err
	}); err != nil {
		return nil, fmt.Errorf("etcd: list members: %w", d.fail(err))
	}
	endpoints := d.client.Endpoints()
	statuses := make([]endpointStatus, len(endpoints))
	var all sync.WaitGroup
	for i, e := range endpoints {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, inspectLimit)
			defer cancel()
			statuses[i].endpoint = e
			statuses[i].status, statuses[i].err = d.client.Status(ctx, e)
			statuses[i].err = d.fail(statuses[i].err)
		})
	}
	all.Wait()
	return diagnostics(members.Members, statuses), nil
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
	voters := 0
	for _, m := range members {
		if !m.IsLearner {
			voters++
		}
	}
	reached, clusters, versions := map[uint64]bool{}, map[uint64]bool{}, map[string]bool{}
	for _, s := range statuses {
		if s.err == nil {
			reached[s.status.Header.GetMemberId()] = true
			clusters[s.status.Header.GetClusterId()] = true
			versions[s.status.Version] = true
		}
	}
	up := 0
	for _, m := range members {
		if reached[m.ID] && !m.IsLearner {
			up++
		}
	}
	spare := up - (voters/2 + 1)
	switch {
	case voters == 1:
		add(false, "cluster", "one member: no election has a leader while it is down; if its disk is lost, every lease is watched for the greatest TTL")
	case spare < 0:
		add(true, "cluster", "the endpoints reach %d of %d voting members: less than a majority", up, voters)
	default:
		add(spare == 0 || up < voters, "cluster", "the endpoints reach %d of %d voting members; the cluster can lose %d of these", up, voters, spare)
	}
	if len(clusters) > 1 {
		add(true, "cluster", "the endpoints belong to %d clusters: each would have its own leader. Correct the endpoints", len(clusters))
	}
	if len(versions) > 1 {
		add(true, "cluster", "the members have different versions, which is normal only during an upgrade")
	}
	for _, s := range statuses {
		if s.err != nil {
			add(true, "member", "%s does not answer: %v", s.endpoint, s.err)
			continue
		}
		st, role := s.status, "follows"
		switch {
		case st.IsLearner:
			role = "is a learner, which cannot serve this program: remove it from the endpoints"
		case st.Leader == 0:
			role = "KNOWS NO LEADER: it is cut off, or there is no majority"
		case st.Leader == st.Header.GetMemberId():
			role = "leads the cluster"
		}
		space := fmt.Sprintf("%d MiB in use", st.DbSize>>20)
		if st.DbSizeQuota > 0 {
			space += fmt.Sprintf(" of %d", st.DbSizeQuota>>20)
		}
		add(st.IsLearner || st.Leader == 0 || st.DbSizeQuota > 0 && st.DbSize > st.DbSizeQuota/5*4, "member", "%s: etcd %s, %s, %s", s.endpoint, st.Version, role, space)
		alarms := slices.Clone(st.Errors)
		if len(alarms) > 0 {
			add(true, "member", "%s: %s; see: etcdctl alarm list", s.endpoint, strings.Join(alarms, "; "))
		}
	}
	return list
}
