package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// A program puts its client into a namespace, as etcd's package namespace says: before another process starts, and under
// a leader. The prefix is the whole beginning of each key all the same.
func TestANamespaceOfTheClientMovesNoElection(t *testing.T) {
	t.Parallel()
	const joinTTL = 4 * time.Second
	for what, assign := range map[string]func(c *clientv3.Client){
		"the keys alone": func(c *clientv3.Client) { c.KV = namespace.NewKV(c.KV, "tenant/") },
		"keys and watches": func(c *clientv3.Client) {
			c.KV, c.Watcher = namespace.NewKV(c.KV, "tenant/"), namespace.NewWatcher(c.Watcher, "tenant/")
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			o := options()
			before, now := dial(t, testbed.SharedEtcd(t)...), dial(t, testbed.SharedEtcd(t)...)
			o.Client = before
			leader := join(t, "old", joinTTL, o)
			lead, err := leader.Campaign(t.Context())
			testbed.NoError(t, err)
			assign(before)
			assign(now)
			o.Client = now
			follower := join(t, "new", joinTTL, o)
			testbed.NoError(t, follower.Lead(nil))
			for began := time.Now(); time.Since(began) < 2*joinTTL; <-time.After(time.Millisecond) {
				if follower.Leading() {
					t.Fatalf("two processes lead after %v: %v", time.Since(began), follower.Current())
				}
			}
			if still := leader.Leadership(); still == nil || still.Term != lead.Term {
				t.Errorf("the leader lost its leadership: %v", leader.Current())
			}
			resigned := time.Now()
			testbed.NoError(t, lead.Resign(t.Context()))
			drivertest.LeadsAlone(t, follower, leader)
			if took := time.Since(resigned); took > joinTTL/2 {
				t.Errorf("the other one leads %v later: it was not told", took)
			}
		})
	}
}

// sameID starts a node whose cluster has the id of each that was started without any options.
func sameID(t testing.TB) *testbed.Daemon {
	return testbed.StartEtcd(t, testbed.Options{Args: []string{
		"--name=default", "--initial-cluster-token=etcd-cluster",
		"--initial-advertise-peer-urls=http://localhost:2380", "--initial-cluster=default=http://localhost:2380",
	}})
}

// TestConformanceWhereAnotherClusterAnswers runs the cases in which an address leads some processes to another cluster of
// the same id for a while, which is empty, in use, or has a copy of the keys.
func TestConformanceWhereAnotherClusterAnswers(t *testing.T) {
	t.Parallel()
	here, other := sameID(t), sameID(t)
	ahead := dial(t, other.URL())
	for range 2000 { // no revision of its keys is that of one here by chance
		_, err := ahead.Put(t.Context(), "ahead", "")
		testbed.NoError(t, err)
	}
	h := harness(func(t testing.TB) conformance.Store {
		prefix := "case-" + string(backend.NewNonce()[:12]) + "/"
		from, to := dial(t, here.URL()), dial(t, other.URL())
		connect := func(t testing.TB, addr string) backend.Backend {
			b, err := Open(Options{Endpoints: []string{"http://" + addr}, Prefix: prefix})
			testbed.NoError(t, err)
			return b
		}
		return drivertest.Elsewhere(here, other, connect, func() error { return copyKeys(from, to, prefix) })
	})
	h.Only = drivertest.IsElsewhere
	conformance.Run(t, h)
}

// copyKeys makes the keys of a prefix in another cluster.
func copyKeys(from, to *clientv3.Client, prefix string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	all, err := from.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	for _, pair := range all.Kvs {
		if _, err = to.Put(ctx, string(pair.Key), string(pair.Value)); err != nil {
			return err
		}
	}
	return nil
}

// A user may read all keys except one. etcd denies the ranges around it, and leaves nothing out.
func TestAKeyThatMayNotBeReadIsNotMissing(t *testing.T) {
	t.Parallel()
	const prefix = "app/"
	n, root := withUsers(t, prefix, testbed.Options{Args: []string{"--bcrypt-cost=4"}})
	o := Options{Endpoints: []string{n.URL()}, Prefix: prefix, Username: "app", Password: secret}
	strong := openNode(t, "strong", o)
	strong.Leads("hidden")
	strong.Leads("shown")
	ctx := strong.Context()
	_, err := root.RoleAdd(ctx, "hole")
	for _, r := range [][2]string{{prefix, prefix + "record/hidden"}, {prefix + "record/hidden\x00", clientv3.GetPrefixRangeEnd(prefix)}} {
		if err == nil {
			_, err = root.RoleGrantPermission(ctx, "hole", r[0], r[1], clientv3.PermissionType(clientv3.PermReadWrite))
		}
	}
	if err == nil {
		_, err = root.UserRevokeRole(ctx, "eye", "observer")
	}
	if err == nil {
		_, err = root.UserGrantRole(ctx, "eye", "hole")
	}
	testbed.NoError(t, err)
	o.Username = "eye"
	eye := openNode(t, "eye", o)
	_, list := eye.List(ctx, "", 10)
	_, hidden := eye.Looks("hidden")
	_, shown := eye.Looks("shown") // whose reading counts all records
	for what, err := range map[string]error{"List": list, "Observe": hidden, "Observe of another one": shown, "Listen": eye.Listen(ctx, []backend.Lease{{Election: "shown"}})} {
		if !errors.Is(err, backend.ErrDenied) {
			t.Errorf("%s: %v, want ErrDenied", what, err)
		}
	}
}

// If rights are missing for one election, the other bids of the same call are granted, be they few or many.
func TestMissingRightsAffectOneElectionOnly(t *testing.T) {
	t.Parallel()
	n, root := withUsers(t, "other/", testbed.Options{Args: []string{"--bcrypt-cost=4"}})
	grant := func(kind clientv3.PermissionType, key string) {
		t.Helper()
		_, err := root.RoleGrantPermission(t.Context(), "election", key, clientv3.GetPrefixRangeEnd(key), kind)
		testbed.NoError(t, err)
	}
	grant(clientv3.PermissionType(clientv3.PermRead), "app/")
	for _, key := range []string{"app/meta", "app/origin", "app/session/", "app/record/good"} {
		grant(clientv3.PermissionType(clientv3.PermReadWrite), key)
	}
	for _, others := range []int{1, maxByKey + 5} {
		a := openNode(t, "a", Options{Endpoints: []string{n.URL()}, Prefix: "app/", Username: "app", Password: secret})
		bids := []backend.Bid{a.BidOver(a.Sees(fmt.Sprint("forbidden", others)))}
		for i := range others {
			bids = append(bids, a.BidOver(a.Sees(fmt.Sprintf("good%d.%d", others, i))))
		}
		answers, err := a.Acquire(a.Context(), bids)
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
	n, root := withUsers(t, "app/", testbed.Options{Args: []string{"--bcrypt-cost=4"}})
	const records = "app/record/"
	must := func(_ any, err error) {
		t.Helper()
		testbed.NoError(t, err)
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
		errs := c.Preflight(c.Context(), []backend.Bid{{Election: "jobs", Candidate: c.Me, TTL: ttl}, {Election: "some", Candidate: c.Me, TTL: ttl}})
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
