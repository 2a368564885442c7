package etcd

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// If rights are missing for one election, the other bids of the same call are granted, be they
// few or many.
func TestMissingRightsAffectOneElectionOnly(t *testing.T) {
	t.Parallel()
	n, root := withUsers(t, "other/", testbed.EtcdOptions{Args: []string{"--bcrypt-cost=4"}})
	grant := func(kind clientv3.PermissionType, key string) {
		t.Helper()
		if _, err := root.RoleGrantPermission(t.Context(), "election", key, clientv3.GetPrefixRangeEnd(key), kind); err != nil {
			t.Fatal(err)
		}
	}
	grant(clientv3.PermissionType(clientv3.PermRead), "app/")
	for _, key := range []string{"app/meta", "app/session/", "app/record/good"} {
		grant(clientv3.PermissionType(clientv3.PermReadWrite), key)
	}
	for _, others := range []int{1, maxByKey + 5} {
		a := openNode(t, "a", Options{Endpoints: []string{n.URL()}, Prefix: "app/", Username: "app", Password: secret})
		bids := []backend.Bid{{Election: fmt.Sprint("forbidden", others), Candidate: a.me, TTL: ttl, Renew: ttl / 3}}
		for i := range others {
			bids = append(bids, backend.Bid{Election: fmt.Sprintf("good%d.%d", others, i), Candidate: a.me, TTL: ttl, Renew: ttl / 3})
		}
		for i := range bids {
			bids[i].Expected = a.read(bids[i].Election)
		}
		ctx, cancel := a.ctx()
		defer cancel()
		answers, err := a.Acquire(ctx, bids)
		if answers[0].Outcome != backend.Unknown || !errors.Is(answers[0].Err, backend.ErrDenied) || !strings.Contains(fmt.Sprint(answers[0].Err), "grant-permission") {
			t.Errorf("a bid without rights: %v, %v; want no outcome, ErrDenied and the command that grants the right", answers[0].Outcome, answers[0].Err)
		}
		for i, got := range answers[1:] {
			if got.Outcome != backend.Granted {
				t.Errorf("a bid for %s, beside one without rights: %v, %v (%v); want granted", bids[i+1].Election, got.Outcome, got.Err, err)
			}
		}
	}
}

// Preflight reports missing rights to write any key of a grant, for the elections concerned.
func TestPreflightReportsMissingRights(t *testing.T) {
	t.Parallel()
	n, root := withUsers(t, "app/", testbed.EtcdOptions{Args: []string{"--bcrypt-cost=4"}})
	const records = "app/record/"
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, without := range []string{"", records, "app/session/", "app/meta"} {
		role := fmt.Sprint("role", i)
		must(root.RoleAdd(t.Context(), role))
		must(root.RoleGrantPermission(t.Context(), role, "app/", clientv3.GetPrefixRangeEnd("app/"), clientv3.PermissionType(clientv3.PermRead)))
		for _, key := range []string{records, "app/session/", "app/meta"} {
			if key != without {
				must(root.RoleGrantPermission(t.Context(), role, key, clientv3.GetPrefixRangeEnd(key), clientv3.PermissionType(clientv3.PermReadWrite)))
			}
		}
		if without == records { // one election is allowed
			must(root.RoleGrantPermission(t.Context(), role, records+"some", "", clientv3.PermissionType(clientv3.PermReadWrite)))
		}
		must(root.UserAdd(t.Context(), role, secret))
		must(root.UserGrantRole(t.Context(), role, role))
		c := openNode(t, "c", Options{Endpoints: []string{n.URL()}, Prefix: "app/", Username: role, Password: secret})
		ctx, cancel := c.ctx()
		defer cancel()
		errs := c.Preflight(ctx, []backend.Bid{{Election: "jobs", Candidate: c.me, TTL: ttl}, {Election: "some", Candidate: c.me, TTL: ttl}})
		for i, err := range errs {
			denied := without != "" && (i == 0 || without != records)
			if denied != errors.Is(err, backend.ErrDenied) || !denied && err != nil {
				t.Errorf("bid %d, without the right to write %q: %v", i, without, err)
			}
		}
	}
	if got, err := root.Get(t.Context(), "app/", clientv3.WithPrefix()); err != nil || len(got.Kvs) > 0 {
		t.Errorf("after preflights there are keys: %v, %v", got.Kvs, err)
	}
}
