package electionshard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionshard"
	"github.com/go-election/go-election/electiontest"
	"github.com/go-election/go-election/lab/testbed"
)

// A fleet is some processes that share shards.
type fleet struct {
	*testing.T
	*electiontest.Group
	names   []string
	options electionshard.Options

	mu      sync.Mutex
	members map[string]*member
	begun   int // functions that have begun
}

type member struct {
	*electiontest.Process
	group   *electionshard.Group
	running int // functions that run now
	most    int // that ran at a time
}

// test runs f with a fleet in virtual time.
func test(t *testing.T, shards int, o electionshard.Options, f func(*fleet)) {
	electiontest.Test(t, election.Options{}, func(t *testing.T, g *electiontest.Group) {
		f(&fleet{T: t, Group: g, names: electionshard.Names("shard", shards), options: o, members: map[string]*member{}})
	})
}

func (f *fleet) join(id string) {
	f.Helper()
	m := &member{Process: f.Start(id)}
	var err error
	m.group, err = electionshard.Lead(m.Manager, "shard", f.names, func(ctx context.Context, lead *election.Leadership) error {
		defer f.Work(lead)() // fails if another leadership's work has not ended
		f.mu.Lock()
		f.begun++
		m.running++
		m.most = max(m.most, m.running)
		f.mu.Unlock()
		<-ctx.Done()
		time.Sleep(50 * time.Millisecond) // what the function has begun it ends
		f.mu.Lock()
		m.running--
		f.mu.Unlock()
		return nil
	}, f.options)
	testbed.NoError(f.T, err)
	f.members[id] = m
}

// begin starts processes, and waits until they share.
func (f *fleet) begin(ids ...string) {
	f.Helper()
	for _, id := range ids {
		f.join(id)
	}
	time.Sleep(10 * time.Second)
}

func (f *fleet) leads(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members[id].running
}

// spread returns for how many shards each of these processes works, in ascending order.
func (f *fleet) spread(ids ...string) (leads []int) {
	for _, id := range ids {
		leads = append(leads, f.leads(id))
	}
	slices.Sort(leads)
	return leads
}

func (f *fleet) starts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.begun
}

func (f *fleet) close(id string) {
	f.Helper()
	if err := f.members[id].Close(context.Background()); err != nil {
		f.Errorf("close %s: %v", id, err)
	}
}

func (f *fleet) wants(what string, got []int, want ...int) {
	f.Helper()
	if !slices.Equal(got, want) {
		f.Errorf("%s the processes lead %v shards, want %v", what, got, want)
	}
}

func TestProcessesThatStartTogetherShareWithoutAMove(t *testing.T) {
	test(t, 64, electionshard.Options{}, func(f *fleet) {
		for i := range 5 {
			f.join(fmt.Sprint("p", i))
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		f.wants("at the start", f.spread("p0", "p1", "p2", "p3", "p4"), 12, 13, 13, 13, 13)
		if n := f.starts(); n != 64 {
			f.Errorf("the functions of 64 shards were called %d times", n)
		}
	})
}

// Who comes gets its share from the others, in order, after Settle, and no other shard moves.
func TestWhoComesGetsItsShareAndNoMore(t *testing.T) {
	test(t, 64, electionshard.Options{}, func(f *fleet) {
		f.begin("p0", "p1", "p2", "p3")
		f.join("p4")
		time.Sleep(20 * time.Second)
		if n := f.leads("p4"); n != 0 {
			f.Errorf("a process that has been there for 20 s, less than Settle, leads %d shards that others led", n)
		}
		time.Sleep(40 * time.Second)
		f.wants("after one has come", f.spread("p0", "p1", "p2", "p3", "p4"), 12, 13, 13, 13, 13)
		if n := f.starts(); n != 64+12 {
			f.Errorf("for a process whose share is 12 shards the functions were called %d times, want %d", n, 64+12)
		}
		if s := f.members["p0"].group.Status(); s.Imbalance != 0 || s.Vacant != 0 || len(s.Members) != 5 {
			f.Errorf("the state of p0 is %+v", s)
		}
	})
}

// A process that is cut off loses its shards, by its own clock before others take them. When it is
// back it gets its share again.
func TestAProcessThatIsCutOffLosesItsShardsAndComesBack(t *testing.T) {
	test(t, 30, electionshard.Options{}, func(f *fleet) {
		f.begin("a", "b", "c")
		f.members["a"].Cut()
		time.Sleep(15 * time.Second)
		f.wants("with one cut off", f.spread("a", "b", "c"), 0, 15, 15)
		f.members["a"].Heal()
		time.Sleep(2 * time.Minute)
		f.wants("after a partition", f.spread("a", "b", "c"), 10, 10, 10)
		if n := f.starts(); n != 30+10+10 {
			f.Errorf("a partition of a process with 10 shards: the functions were called %d times, want 50", n)
		}
	})
}

// While the store is down nobody can be elected. The leaders of before lead again.
func TestAfterAnOutageOfTheStoreAllShardsAreLed(t *testing.T) {
	test(t, 30, electionshard.Options{}, func(f *fleet) {
		f.begin("a", "b", "c")
		f.Fail(backend.ErrUnavailable)
		time.Sleep(time.Minute)
		f.wants("in an outage", f.spread("a", "b", "c"), 0, 0, 0)
		f.Fail(nil)
		time.Sleep(time.Minute)
		f.wants("after an outage", f.spread("a", "b", "c"), 10, 10, 10)
	})
}

func TestAWeightIsAShare(t *testing.T) {
	o := electionshard.Options{Weight: func(c election.Candidate) int {
		if c.ID == "large" {
			return 4
		}
		return 1
	}}
	test(t, 60, o, func(f *fleet) {
		f.begin("large", "a", "b")
		f.wants("by weights 4, 1 and 1", f.spread("large", "a", "b"), 10, 10, 40)
		f.members["large"].Crash()
		time.Sleep(time.Minute)
		f.wants("without the large one", f.spread("a", "b"), 30, 30)
	})
}

// With Limit 1, three elections are a semaphore of three.
func TestWithLimitOneItIsASemaphore(t *testing.T) {
	test(t, 3, electionshard.Options{Limit: 1}, func(f *fleet) {
		ids := []string{"a", "b", "c", "d", "e"}
		f.begin(ids...)
		f.wants("three at a time", f.spread(ids...), 0, 0, 1, 1, 1)
		for range 2 {
			i := slices.IndexFunc(ids, func(id string) bool { return f.leads(id) == 1 })
			f.members[ids[i]].Crash()
			ids = slices.Delete(ids, i, i+1)
			time.Sleep(20 * time.Second)
		}
		f.wants("after two have crashed", f.spread(ids...), 1, 1, 1)
		f.close(ids[0])
		time.Sleep(time.Minute)
		f.wants("two remain", f.spread(ids[1:]...), 1, 1)
		f.members[ids[1]].Pause()
		f.members[ids[1]].Resume() // of all elections of the process, as a page does
		time.Sleep(time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		for id, m := range f.members {
			if m.most > 1 {
				f.Errorf("%s worked for %d shards at a time with Limit 1", id, m.most)
			}
		}
	})
}

// A function that fails on one process is tried on another one.
func TestAShardWhoseFunctionFailsIsLedElsewhere(t *testing.T) {
	electiontest.Test(t, election.Options{}, func(t *testing.T, g *electiontest.Group) {
		good := make(chan string, 100)
		for _, id := range []string{"bad", "good"} {
			_, err := electionshard.Lead(g.Start(id).Manager, "shard", electionshard.Names("shard", 4),
				func(ctx context.Context, lead *election.Leadership) error {
					if id == "bad" {
						return errors.New("no disk")
					}
					good <- lead.Election()
					<-ctx.Done()
					return nil
				}, electionshard.Options{})
			testbed.NoError(t, err)
		}
		time.Sleep(5 * time.Minute)
		led := map[string]bool{}
		for len(good) > 0 {
			led[<-good] = true
		}
		if len(led) != 4 {
			t.Errorf("the process whose functions do not fail has led %d of 4 shards", len(led))
		}
	})
}

func TestLeaveGivesAllShardsToTheOthers(t *testing.T) {
	test(t, 20, electionshard.Options{}, func(f *fleet) {
		f.begin("a", "b")
		if err := f.members["a"].group.Leave(f.Context()); err != nil {
			f.Error(err)
		}
		time.Sleep(5 * time.Second)
		f.wants("after one has left", f.spread("a", "b"), 0, 20)
		if n := len(f.members["a"].Elections()); n != 0 {
			f.Errorf("a process that has left has joined %d elections", n)
		}
	})
}

func TestListsAndOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	electiontest.Test(t, election.Options{}, func(t *testing.T, g *electiontest.Group) {
		m := g.Start("a").Manager
		work := func(context.Context, *election.Leadership) error { return nil }
		for what, c := range map[string]struct {
			shards []string
			work   election.LeadFunc
			limit  int
		}{
			"no shards":         {nil, work, 0},
			"no function":       {[]string{"1"}, nil, 0},
			"a shard twice":     {[]string{"1", "1"}, work, 0},
			"the group's name":  {[]string{"s"}, work, 0},
			"a negative number": {[]string{"1"}, work, -1},
		} {
			if _, err := electionshard.Lead(m, "s", c.shards, c.work, electionshard.Options{Limit: c.limit}); !errors.Is(err, backend.ErrInvalid) {
				t.Errorf("%s: the error is %v, want one of class invalid", what, err)
			}
			if n := len(m.Elections()); n != 0 {
				t.Errorf("%s: the process has joined %d elections", what, n)
			}
		}
	})
}
