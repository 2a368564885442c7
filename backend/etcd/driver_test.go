package etcd

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// countRequests returns how many requests a node has received so far, by method.
func countRequests(t testing.TB, n *testbed.Daemon) map[string]float64 {
	t.Helper()
	counts := make(map[string]float64)
	for name, value := range testbed.EtcdMetrics(t, n) {
		if rest, ok := strings.CutPrefix(name, "grpc_server_started_total{"); ok {
			_, method, _ := strings.Cut(rest, `grpc_method="`)
			method, _, _ = strings.Cut(method, `"`)
			counts[method] += value
		}
	}
	return counts
}

// A thousand idle elections cost no more requests than ten, and nothing polls.
func TestManyIdleElectionsCostNoMoreThanFew(t *testing.T) {
	t.Parallel()
	const ttl, idle = 6 * time.Second, 18 * time.Second
	for _, elections := range []int{10, 1000} {
		t.Run(fmt.Sprint(elections), func(t *testing.T) {
			t.Parallel()
			n := testbed.StartEtcd(t, testbed.Options{})
			o := options(n.URL())
			for _, leads := range []bool{true, false} {
				drivertest.Settle(t, open(t, o), elections, ttl, leads)
			}
			// Twice as many are allowed: on a busy machine renewals are observed late. At first there are others.
			most := map[string]float64{
				"Txn":   2 * float64(idle/ttl) * (3 + 1 + 1), // renewals, the follower's session, a reading now and then
				"Watch": 2 * math.Ceil(float64(idle/ttl)/4),
			}
			testbed.Eventually(t, patience, "few requests are sent", func() error {
				before := countRequests(t, n)
				<-time.After(idle)
				spent := countRequests(t, n)
				for method := range spent {
					spent[method] -= before[method]
				}
				t.Logf("%d elections, a leader and a follower, %v: %v", elections, idle, spent)
				for _, method := range slices.Sorted(maps.Keys(spent)) {
					if spent[method] > most[method] {
						return fmt.Errorf("%v calls of %s in %v; want at most %v", spent[method], method, idle, most[method])
					}
				}
				return nil
			})
		})
	}
}

// A watch costs four messages to make and to cancel, of each process at each change.
func TestOneWatchServesManyCallsOfListen(t *testing.T) {
	t.Parallel()
	n := testbed.StartEtcd(t, testbed.Options{})
	o := options(n.URL())
	a, b := openNode(t, "a", o), openNode(t, "b", o)
	held := a.Leads("jobs")
	before := countRequests(t, n)["Watch"]

	for range 5 {
		released := b.listenAsync(b.Sees("jobs"))
		a.Resigns(held)
		testbed.NoError(t, <-released)
		elected := b.listenAsync(b.Sees("jobs"))
		held = a.Leads("jobs")
		testbed.NoError(t, <-elected)
	}
	if made := countRequests(t, n)["Watch"] - before; made > 1 {
		t.Errorf("ten calls of Listen made %v watches; want one", made)
	}
}

// What was written after the reading and before the watch was made is told at once, if it is a record. What other programs write
// in the same cluster is no news.
func TestAWatchThatIsMadeLateIsNotLate(t *testing.T) {
	t.Parallel()
	n := testbed.StartEtcd(t, testbed.Options{})
	o := options(n.URL())
	a, b := openNode(t, "a", o), openNode(t, "b", o)
	held := a.Leads("jobs")
	position := drivertest.Read(t, b.driver, lease.Key{Kind: lease.Records, Name: "jobs"}).Position
	_, err := dial(t, n.URL()).Put(t.Context(), "elsewhere", "x")
	testbed.NoError(t, err)
	if b.driver.changedSince(t.Context(), position) {
		t.Error("a key of another program is taken for a record")
	}
	a.Resigns(held)
	if !b.driver.changedSince(t.Context(), position) {
		t.Error("a release is not seen")
	}
	if err := b.driver.Listen(t.Context(), position, nil, func([]lease.Item, uint64) bool { return false }); err != nil {
		t.Error(err)
	}
}

// Listen survives a compaction of the revision that its watch would have read next.
func TestListenSurvivesCompaction(t *testing.T) {
	t.Parallel()
	n := testbed.StartEtcd(t, testbed.Options{})
	o, admin := options(n.URL()), dial(t, n.URL())
	a, b := openNode(t, "a", o), openNode(t, "b", o)
	held := a.Leads("jobs")
	seen := b.Sees("jobs")
	returned := b.listenAsync(seen)
	compact := func() {
		t.Helper()
		got, err := admin.Put(t.Context(), "elsewhere", "x")
		if err == nil {
			_, err = admin.Compact(t.Context(), got.Header.GetRevision(), clientv3.WithCompactPhysical())
		}
		testbed.NoError(t, err)
	}
	compact()
	a.Resigns(held)
	if err := <-returned; err != nil {
		t.Errorf("Listen during a compaction: %v", err)
	}
	compact()
	if got := b.Sees("jobs"); !got.Vacant() || got.End != backend.Released {
		t.Errorf("after a compaction: %+v", got)
	}
}

func TestKeysAreParsedAsTheyWereMade(t *testing.T) {
	p := keyPrefix("p/")
	for _, k := range []lease.Key{{Kind: lease.Metas}, {Kind: lease.Records, Name: "a/b"}, {Kind: lease.Sessions, Name: ""}} {
		if got, ok := p.parse(p.key(k)); !ok || got != k {
			t.Errorf("%v becomes %q, and that %v", k, p.key(k), got)
		}
	}
	for _, foreign := range []string{"", "q/meta", "p/", "p/meta/", "p/record", "p/records/x", "p/x/y"} {
		if k, ok := p.parse(foreign); ok {
			t.Errorf("%q is taken for %v", foreign, k)
		}
	}
}

func TestAStoreThatGoesBackIsNoticed(t *testing.T) {
	o := origins{now: origin{Replaced: make(chan struct{})}}
	first := o.Now()
	early := o.Note("1", "", 10, &first)
	now := o.Note("1", "x", 9, &first) // a call that began before the answer at 10
	if now.WentBack != 0 || now.Newest != 10 {
		t.Errorf("a late answer: %+v", now)
	}
	if now = o.Note("1", "x", 9, &early); now.WentBack != 1 || now.RestoredAt != 9 || now.Newest != 9 {
		t.Errorf("an older answer: %+v", now)
	}
	select {
	case <-early.Replaced:
	default:
		t.Error("nobody is told")
	}
	if now = o.Note("2", "x", 90, &now); now.WentBack != 2 || now.RestoredAt != 90 || now.Epoch != "2" {
		t.Errorf("another store: %+v", now)
	}
	if now = o.Note("2", "y", 100, &now); now.WentBack != 3 || now.RestoredAt != 100 || now.Text != "y" {
		t.Errorf("another store of the same id: %+v", now)
	}
	if now = o.Note("2", "x", 101, &origin{Text: "x"}); now.WentBack != 4 {
		t.Errorf("a late answer of the store before: %+v", now)
	}
	if now = o.Note("2", "", 102, &now); now.WentBack != 5 {
		t.Errorf("the key origin is gone: %+v", now)
	}
}

// A restored store counts revisions anew, so the same revision may have another value.
func TestRememberedRecordsAreComparedByValue(t *testing.T) {
	t.Parallel()
	d, jobs := open(t, options(testbed.SharedEtcd(t)...)).driver, lease.Key{Kind: lease.Records, Name: "jobs"}
	v := drivertest.Read(t, d, jobs)
	drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1})
	v = drivertest.Read(t, d, jobs)
	now, next := v.Items[0].Value, &lease.Record{Election: "jobs", Term: 3}

	v.Items[0].Remembered, v.Items[0].Value = true, &lease.Record{Election: "jobs", Term: 2}
	if results, err := drivertest.Put(t, d, &v, next); err != nil || results[0].Outcome != backend.Refused {
		t.Errorf("a change over this revision with another value: %v, %v; want it refused", results, err)
	}
	v.Items[0].Value = now
	drivertest.MustPut(t, d, &v, next)
}
