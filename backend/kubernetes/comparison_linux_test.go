package kubernetes

import (
	"context"
	"fmt"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	typed "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// clientGo runs a member of client-go in this process, with the timings that client-go recommends, and
// returns its wire.
func (l *lab) clientGo(t *testing.T, id string) *wire {
	t.Helper()
	config, w := wired(t, l.file)
	client, err := typed.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: meta.ObjectMeta{Name: "client-go", Namespace: l.namespace}, Client: client, LockConfig: resourcelock.ResourceLockConfig{Identity: id},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { elector.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// While nothing happens, members of this module make fewer requests than those of client-go, each with
// its recommended timings.
func TestIdleMembersMakeFewerRequestsThanClientGo(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedKubernetes(t))
	theirs := []*wire{l.clientGo(t, "a"), l.clientGo(t, "b")}
	a, leader := l.manager(t, "a", election.Options{})
	awaitLeading(t, join(t, a, 1))
	b, follower := l.manager(t, "b", election.Options{})
	join(t, b, 1)
	ours := []*wire{leader, follower}
	const minute = time.Minute
	time.Sleep(minute / 3) // until all have settled
	for _, w := range append(ours, theirs...) {
		w.count()
	}
	time.Sleep(minute)
	total := func(w *wire) (n int) {
		counts := w.count()
		for _, c := range counts {
			n += c
		}
		return n
	}
	our, their := [2]int{total(ours[0]), total(ours[1])}, [2]int{total(theirs[0]), total(theirs[1])}
	if their[0] < their[1] { // b leads
		their[0], their[1] = their[1], their[0]
	}
	t.Logf("requests a minute, leader and follower: %d and %d; of client-go %d and %d", our[0], our[1], their[0], their[1])
	if our[0] >= their[0] || our[1] >= their[1] {
		t.Errorf("%v requests a minute, leader and follower; those of client-go made %v", our, their)
	}
}

// A leader that resigns is succeeded within milliseconds, and one that was killed within a TTL.
func TestTheNextLeaderComesSoon(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	members := []*testbed.Member{f.ours("0"), f.ours("1")}
	leader := f.Leads(members...)
	var resigned, killed []time.Duration
	for i := range 12 {
		next := members[0]
		if next == leader {
			next = members[1]
		}
		next.Follows(leader.ID + " ")
		if i%2 == 0 {
			leader.Resign()
		} else {
			leader.Kill()
		}
		led := leader.Led()
		f.Leads(next)
		gap := next.Led()[0].From.Sub(led[len(led)-1].To)
		if i%2 == 0 {
			resigned = append(resigned, gap)
		} else {
			killed = append(killed, gap)
		}
		members, leader = []*testbed.Member{next, f.ours(fmt.Sprint(i + 2))}, next
	}
	f.NeverTwo()
	t.Logf("after a resignation %v, after kill -9 (TTL 4 s) %v", resigned, killed)
	for _, gap := range killed {
		if gap > 6*time.Second {
			t.Errorf("no leader for %v after kill -9", gap)
		}
	}
}
