//go:build linux

package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/internal/testbed"
)

// A Site is a store under torment, and how to reach it.
type Site struct {
	Backend string // as the table calls it: "mysql on MariaDB"
	TTL     time.Duration
	Bound   time.Duration // from a heal to the next leader, at most, on a machine that is not busy

	// environ is the configuration of a member, and proxies are all its ways to
	// the store: none if it needs no network.
	environ func(member int) []string
	proxies [][]*testbed.Proxy

	// takesOver says that a stopped leader is followed by another.
	takesOver bool

	faults map[string]fault
}

// A fault torments once, and heals. It notes what it does by run.during.
type fault func(r *run)

const members = 3

var elections = []string{"billing", "nightly/report"}

// A History is what happened.
type History struct {
	Backend, Fault string
	Seed           uint64
	TTL, Bound     time.Duration
	TakesOver      bool // a stopped leader is followed by another
	From, To       time.Duration
	Lines          []Line
	Writes         []Write
	Bands          []*Band
	Heals          []Heal
}

// Name names the history: with it, it can be run again.
func (h *History) Name() string { return fmt.Sprintf("%s/%s/%d", h.Backend, h.Fault, h.Seed) }

// A Band is a fault while it lasted.
type Band struct {
	Name     string
	Target   string // a process or a server
	From, To time.Duration

	// How it is judged whether it did anything to a leader.
	bite bite
	hit  bool // by what was seen at once
	Bit  bool // the judgement
}

type bite int

const (
	byTarget  bite = iota // the process led when it was hit
	byCall                // calls of a leader failed or were slow meanwhile
	byEnd                 // a leadership ended by it
	byRenewal             // a leader renewed meanwhile, under the fault
)

// A Heal is when all was well again, and when all elections had leaders. Stalled is for
// how long the harness itself did not get to run meanwhile.
type Heal struct {
	At, Led, Stalled time.Duration
	Live             bool
}

// A run is a history that is being made.
type run struct {
	testing.TB
	*Site
	*rand.Rand
	history  *History
	dir      string
	resource *Resource
	crew     []*child // one for each member
	all      []*child
}

// Run makes one history of about this length.
func Run(t testing.TB, s *Site, name string, seed uint64, length time.Duration) *History {
	t.Helper()
	// Not on a disk: a process that waits for one to note something has no time to lead.
	dir := testbed.TempDir(t)
	r := &run{TB: t, Site: s, Rand: rand.New(rand.NewPCG(seed, 1)), dir: dir,
		history: &History{Backend: s.Backend, Fault: name, Seed: seed, TTL: s.TTL, Bound: s.Bound, TakesOver: s.takesOver}}
	if _, there := s.faults[name]; !there {
		t.Fatalf("%s has no fault %q, but %q", s.Backend, name, sorted(s.faults))
	}
	var err error
	if r.resource, err = newResource(filepath.Join(dir, "resource")); err != nil {
		t.Fatal(err)
	}
	defer r.resource.close()
	r.history.From = Now()
	r.crew = make([]*child, members)
	for i := range r.crew {
		r.start(i)
	}
	t.Cleanup(func() {
		for _, c := range r.all {
			c.kill()
			if t.Failed() {
				if text, _ := os.ReadFile(filepath.Join(dir, c.Process+".log")); len(text) > 0 {
					t.Logf("%s wrote:\n%.3000s", c.Process, text)
				}
			}
		}
	})
	live := r.settle()
	for live && (len(r.history.Bands) == 0 || Now()-r.history.From < length) {
		r.pass(s.TTL/4, s.TTL) // renewals go on, and the fault comes at any point of them
		if s.faults[name] == nil {
			s.faults[r.pick()](r)
		} else {
			s.faults[name](r)
		}
		r.revive()
		live = r.settle()
	}
	r.pass(s.TTL/4, s.TTL/2)
	finals(r.crew)
	for _, c := range r.crew {
		if !c.alive() {
			t.Errorf("%s has ended by itself", c.Process)
		}
		c.kill()
	}
	r.history.To = Now()
	for _, c := range r.all {
		lines, err := c.lines()
		if err != nil {
			t.Fatal(err)
		}
		r.history.Lines = append(r.history.Lines, lines...)
		c.board.close()
	}
	r.history.Writes = r.resource.Log()
	slices.SortStableFunc(r.history.Lines, func(a, b Line) int { return int(a.From - b.From) })
	r.history.judgeBites()
	return r.history
}

// pick chooses a fault for a history that mixes them.
func (r *run) pick() string {
	names := slices.DeleteFunc(sorted(r.faults), func(name string) bool { return name == Mixed })
	return names[r.IntN(len(names))]
}

// start starts a member, again if it was killed.
func (r *run) start(i int) {
	id := string(rune('a' + i))
	n := 1
	for _, c := range r.all {
		if c.seat == i {
			n++
		}
	}
	r.crew[i] = startChild(r, Role{
		Process: fmt.Sprintf("%s%d", id, n), ID: id, Dir: r.dir,
		Environ: append(r.environ(i), "ELECTION_TTL="+r.TTL.String()), Elections: elections, Resource: r.resource.listener.Addr().String(),
	}, i)
	r.all = append(r.all, r.crew[i])
}

// revive starts the members that have ended.
func (r *run) revive() {
	for i, c := range r.crew {
		if !c.alive() {
			r.start(i)
		}
	}
}

// leader returns who leads an election, by a sample from after since, or nil.
func (r *run) leader(election int, since time.Duration) *child {
	for _, c := range r.crew {
		if c.alive() && c.board.belief(election).leads(since) {
			return c
		}
	}
	return nil
}

// fresh is how old the sample of a belief may be that still holds. Processes take one
// in each millisecond, when they get to run.
const fresh = 100 * time.Millisecond

// someLeader returns the leader of one of the elections, chosen at random. All was
// settled before, so there is one, unless it has just lost its lease.
func (r *run) someLeader() *child {
	first, fallback := r.IntN(len(elections)), r.IntN(len(r.crew))
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for began := Now(); Now()-began < 20*time.Second; <-tick.C {
		for i := range elections {
			if c := r.leader((first+i)%len(elections), Now()-fresh); c != nil {
				return c
			}
		}
	}
	return r.crew[fallback] // nobody leads: this one will not count
}

// settle notes a heal and waits until all elections have leaders.
func (r *run) settle() bool {
	h := Heal{At: Now()}
	limit := time.NewTimer(r.Bound*3 + time.Minute)
	defer limit.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	const stall = 50 * time.Millisecond
	for last := Now(); !h.Live; {
		if late := Now() - last; late > stall {
			h.Stalled += late
		}
		last = Now()
		h.Live = true
		for i := range elections {
			h.Live = h.Live && r.leader(i, h.At) != nil
		}
		select {
		case <-tick.C:
			continue
		case <-limit.C:
		}
		break
	}
	h.Led = Now()
	r.history.Heals = append(r.history.Heals, h)
	return h.Live
}

// pass lets between least and most of time pass: that is what a fault is made of.
func (r *run) pass(least, most time.Duration) {
	d := least
	if most > least {
		d += r.N(most - least)
	}
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

// N returns a random duration below n.
func (r *run) N(n time.Duration) time.Duration { return time.Duration(r.Int64N(int64(n))) }

// during notes a fault while f lasts.
func (r *run) during(name, target string, b bite, f func()) *Band {
	band := &Band{Name: name, Target: target, From: Now(), bite: b}
	r.history.Bands = append(r.history.Bands, band)
	f()
	band.To = Now()
	return band
}

// ledAfter reports whether a process believed to lead at some time after this one, or
// so shortly before that no sample came in between. If it was stopped or killed then,
// that hit a leader.
func (c *child) ledAfter(at time.Duration) bool {
	for i := range c.Elections {
		if c.board.belief(i).leads(at - 2*fresh) {
			return true
		}
	}
	return false
}

// terminate asks a process to end in order.
func (c *child) terminate(t testing.TB) {
	c.signal(syscall.SIGTERM)
	select {
	case <-c.done:
		c.died = Now()
	case <-time.After(2 * time.Minute):
		t.Errorf("%s does not end when asked to", c.Process)
		c.kill()
	}
}

// environ joins variables for a backend.
func environ(backend string, pairs ...string) []string {
	all := []string{"ELECTION_BACKEND=" + backend}
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, "ELECTION_"+strings.ToUpper(backend)+"_"+pairs[i]+"="+pairs[i+1])
	}
	return all
}
