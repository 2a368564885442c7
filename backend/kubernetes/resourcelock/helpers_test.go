package resourcelock_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/kubernetes/resourcelock"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electiontest"
)

const (
	name = "billing/controller"
	ttl  = 10 * time.Second
)

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // an elector that may not lead says so at each retry
	slog.SetDefault(slog.New(slog.DiscardHandler))
	m.Run()
}

// A fleet is a group of processes, each with an elector of client-go. At most one works.
type fleet struct {
	*electiontest.Group
	t *testing.T

	mu      sync.Mutex
	working string    // the id of the member that works; empty: none
	begun   time.Time // when the last work began
	ended   time.Time // when the last work ended
	works   int       // how often work began
}

// inFleet runs a test in virtual time.
func inFleet(t *testing.T, test func(t *testing.T, f *fleet)) {
	synctest.Test(t, func(t *testing.T) {
		test(t, &fleet{Group: electiontest.New(t, election.Options{TTL: ttl}), t: t})
	})
}

func (f *fleet) begin(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.working != "" {
		f.t.Errorf("%s begins to work while %s works", id, f.working)
	}
	f.working, f.begun = id, time.Now()
	f.works++
}

func (f *fleet) end(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.working == id {
		f.working, f.ended = "", time.Now()
	}
}

// state returns which member works, and since when; or since when none does.
func (f *fleet) state() (working string, since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.working != "" {
		return f.working, f.begun
	}
	return "", f.ended
}

// worker waits until a member works, other than the given ones, and returns its id.
func (f *fleet) worker(not ...string) string {
	f.t.Helper()
	var id string
	f.until(fmt.Sprintf("a member works other than %q", not), func() bool {
		id, _ = f.state()
		return id != "" && !slices.Contains(not, id)
	})
	return id
}

// count returns how often work began.
func (f *fleet) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.works
}

// until waits for a condition. Nothing takes longer than five TTLs.
func (f *fleet) until(what string, done func() bool) {
	f.t.Helper()
	for limit := time.Now().Add(5 * ttl); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			f.t.Fatalf("not within %v: %s", 5*ttl, what)
		}
	}
}

// A member is a process with a lock.
type member struct {
	*electiontest.Process
	fleet   *fleet
	lock    *resourcelock.Lock
	linger  time.Duration // how long its work goes on after its context has ended
	leaders chan string   // from OnNewLeader
}

func (f *fleet) member(id string) *member {
	f.t.Helper()
	p := f.Start(id)
	lock, err := resourcelock.New(p.Manager, name)
	if err != nil {
		f.t.Fatal(err)
	}
	return &member{Process: p, fleet: f, lock: lock, leaders: make(chan string, 1000)}
}

func (m *member) config() leaderelection.LeaderElectionConfig {
	callbacks := leaderelection.LeaderCallbacks{
		OnStartedLeading: func(ctx context.Context) {
			m.fleet.begin(m.ID())
			defer m.fleet.end(m.ID())
			<-ctx.Done()
			time.Sleep(m.linger)
		},
		OnStoppedLeading: func() {},
		OnNewLeader:      func(id string) { m.leaders <- id },
	}
	t := m.lock.Timings()
	return leaderelection.LeaderElectionConfig{
		Lock: m.lock, LeaseDuration: t.LeaseDuration, RenewDeadline: t.RenewDeadline, RetryPeriod: t.RetryPeriod,
		ReleaseOnCancel: true, Callbacks: callbacks,
	}
}

// elect runs one elector again and again until stop is called, which waits for it.
func (m *member) elect() (stop func()) { return m.run(true) }

// electOnce runs an elector until it has led, or until stop is called, which waits for it.
func (m *member) electOnce() (stop func()) { return m.run(false) }

func (m *member) run(again bool) (stop func()) {
	elector, err := leaderelection.NewLeaderElector(m.config())
	if err != nil {
		m.fleet.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for elector.Run(ctx); again && ctx.Err() == nil; elector.Run(ctx) {
		}
	}()
	stop = func() { cancel(); <-done }
	m.fleet.t.Cleanup(stop)
	return stop
}

func memoryBackend() backend.Backend { return memory.New().Backend() }
