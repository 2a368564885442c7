//go:build linux

package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// A Site is a store with the faults that can be injected into it.
type Site struct {
	Backend string        // its name in the table: "mysql on MariaDB"
	Bound   time.Duration // the most from a heal to the next leader, on an idle machine

	// environ is the configuration of a member. proxies are its connections to the
	// store; a store without a network has none.
	environ func(member int) []string
	proxies [][]*testbed.Proxy

	takesOver bool // another member can take over from a stopped leader

	faults map[string]fault
}

// A fault injects a fault once, by run.inject, and heals it. Its name is in a map of faults.
type fault func(r *run)

const members = 3

var elections = []string{"billing", "nightly/report"}

// A History is the record of a run.
type History struct {
	Backend, Fault string
	Seed           uint64
	Bound          time.Duration // see Site
	TakesOver      bool          // another member can take over from a stopped leader
	From, To       time.Duration
	Lines          []Line
	Writes, Late   int // to the resource; late ones, which a resource without a fence would have accepted
	Bands          []*Band
	Heals          []Heal
}

// Name returns backend, fault and seed, with which the history can be run again.
func (h *History) Name() string { return fmt.Sprintf("%s/%s/%d", h.Backend, h.Fault, h.Seed) }

// A Band is the time during which a fault lasted.
type Band struct {
	Name     string
	Target   string // a process or a server
	From, To time.Duration

	proof proof // decides afterwards whether the fault hit a leader
	Bit   bool  // the fault hit a leader
}

// A Heal records when a fault was healed and when all elections had leaders. Stalled is
// for how long the harness could not run in between.
type Heal struct {
	At, Led, Stalled time.Duration
	Live             bool
}

// A run makes one history.
type run struct {
	testing.TB
	*Site
	*rand.Rand
	history *History
	fault   string // the name of the one that is injected
	dir     string
	current []*child // the child of each member
	all     []*child
}

// Run makes one history of about this length.
func Run(t testing.TB, s *Site, name string, seed uint64, length time.Duration) *History {
	t.Helper()
	// In memory: a process that waits for a disk to record a line has no time to lead.
	dir := testbed.TempDir(t)
	h := &History{Backend: s.Backend, Fault: name, Seed: seed, Bound: s.Bound, TakesOver: s.takesOver}
	r := &run{TB: t, Site: s, Rand: rand.New(rand.NewPCG(seed, 1)), dir: dir, history: h}
	if _, there := s.faults[name]; !there {
		t.Fatalf("%s has no fault %q, but %q", s.Backend, name, sorted(s.faults))
	}
	r.history.From = Now()
	r.current = make([]*child, members)
	for i := range r.current {
		r.start(i)
	}
	live := r.awaitLeaders()
	for live && (len(r.history.Bands) == 0 || Now()-r.history.From < length) {
		r.wait(ttl/4, ttl) // so that the fault comes at any moment between two renewals
		if r.fault = name; name == Mixed {
			names := slices.DeleteFunc(sorted(r.faults), func(name string) bool { return name == Mixed })
			r.fault = names[r.IntN(len(names))]
		}
		s.faults[r.fault](r)
		for i, c := range r.current {
			if c.Ended() {
				r.start(i)
			}
		}
		live = r.awaitLeaders()
	}
	r.wait(ttl/4, ttl/2)
	for _, c := range r.current {
		if c.Ended() {
			t.Errorf("%s has ended unexpectedly", c.Process)
		}
		c.Kill()
	}
	r.history.To = Now()
	for _, c := range r.all {
		lines, err := c.lines()
		testbed.NoError(t, err)
		r.history.Lines = append(r.history.Lines, lines...)
		c.board.file.Close()
	}
	r.history.Writes, r.history.Late = r.writes()
	slices.SortStableFunc(r.history.Lines, func(a, b Line) int { return int(a.From - b.From) })
	r.history.markHits()
	return r.history
}

// writes returns how many writes the resource got, and how many of them were late: in a term below one that
// had come before, so that a fence would have refused them.
func (r *run) writes() (writes, late int) {
	text, err := os.ReadFile(filepath.Join(r.dir, resource))
	testbed.NoError(r, err)
	greatest := map[string]uint64{} // by election
	for line := range strings.Lines(string(text)) {
		var name string
		var term uint64
		_, err := fmt.Sscan(line, &name, &term)
		testbed.NoError(r, err)

		writes++
		if term < greatest[name] {
			late++
		}
		greatest[name] = max(greatest[name], term)
	}
	return writes, late
}

// start starts a member, or its replacement.
func (r *run) start(i int) {
	id := string(rune('a' + i))
	r.current[i] = startChild(r, Role{
		Process: fmt.Sprintf("%s%d", id, len(r.all)+1), ID: id, Dir: r.dir,
		Environ: append(r.environ(i), "ELECTION_TTL="+ttl.String()), Elections: elections,
	}, i)
	r.all = append(r.all, r.current[i])
}

// leader returns the leader of an election, by a sample from after since, or nil.
func (r *run) leader(election int, since time.Duration) *child {
	for _, c := range r.current {
		if !c.Ended() && c.board.belief(election).leads(since) {
			return c
		}
	}
	return nil
}

// sampleAge is how old the last sample of a current belief may be. Processes sample every
// millisecond when they can run.
const sampleAge = 100 * time.Millisecond

// someLeader returns the leader of an election chosen at random. After awaitLeaders there
// is one, unless it has just lost its lease.
func (r *run) someLeader() *child {
	first, fallback := r.IntN(len(elections)), r.IntN(len(r.current))
	for began := Now(); Now()-began < 20*time.Second; r.wait(time.Millisecond, 0) {
		for i := range elections {
			if c := r.leader((first+i)%len(elections), Now()-sampleAge); c != nil {
				return c
			}
		}
	}
	return r.current[fallback] // no member leads, so this fault will not count
}

// awaitLeaders records a heal and waits until all elections have leaders.
func (r *run) awaitLeaders() bool {
	h := Heal{At: Now()}
	const stall = 50 * time.Millisecond
	for last := h.At; !h.Live && last-h.At < r.Bound*3+time.Minute; {
		r.wait(2*time.Millisecond, 0)
		now := Now()
		if late := now - last; late > stall {
			h.Stalled += late
		}
		last = now

		h.Live = true
		for i := range elections {
			h.Live = h.Live && r.leader(i, h.At) != nil
		}
	}
	h.Led = Now()
	r.history.Heals = append(r.history.Heals, h)
	return h.Live
}

// wait waits for a random time between least and most, or for least.
func (r *run) wait(least, most time.Duration) {
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

// again does something again and again for some time, with pauses between least and most.
func (r *run) again(length, least, most time.Duration, do func()) {
	for end := Now() + length; Now() < end; {
		do()
		r.wait(least, most)
	}
}

// inject records a fault for as long as f runs.
func (r *run) inject(target string, proof proof, f func()) {
	band := &Band{Name: r.fault, Target: target, From: Now(), proof: proof}
	r.history.Bands = append(r.history.Bands, band)
	f()
	band.To = Now()
}

// ledAfter reports whether a process believed that it led after this time, or so shortly before that it may
// not have sampled since. Stopping or killing it then hit a leader.
func (c *child) ledAfter(at time.Duration) bool {
	for i := range c.Elections {
		if c.board.belief(i).leads(at - 2*sampleAge) {
			return true
		}
	}
	return false
}

// environ returns the environment variables of a backend's configuration.
func environ(backend string, pairs ...string) []string {
	all := []string{"ELECTION_BACKEND=" + backend}
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, "ELECTION_"+strings.ToUpper(backend)+"_"+pairs[i]+"="+pairs[i+1])
	}
	return all
}
