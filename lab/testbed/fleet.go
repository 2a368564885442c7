package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// A Fleet is a set of processes, of this module and of other programs, that take part in
// one election. Its methods are for one goroutine at a time.
type Fleet struct {
	t       testing.TB
	members []*Member
}

// NewFleet returns a fleet without members.
func NewFleet(t testing.TB) *Fleet { return &Fleet{t: t} }

// Add adds a started member.
func (f *Fleet) Add(m *Member, ours bool) *Member {
	m.Ours = ours
	f.members = append(f.members, m)
	return m
}

// Program starts this test binary as another program. The environment variable env
// selects the program and holds arg as JSON.
func (f *Fleet) Program(id string, ours bool, env string, arg any) *Member {
	f.t.Helper()
	text, err := json.Marshal(arg)
	NoError(f.t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env+"="+string(text))
	return f.Add(StartMember(f.t, id, cmd), ours)
}

// Leads waits until one of these members leads, and returns it.
func (f *Fleet) Leads(among ...*Member) (leader *Member) {
	f.t.Helper()
	began := time.Now()
	Eventually(f.t, memberLimit, "one of the fleet to lead", func() error {
		i := slices.IndexFunc(among, (*Member).Leads)
		if i < 0 {
			return fmt.Errorf("none of %d does", len(among))
		}
		leader = among[i]
		return nil
	})
	f.t.Logf("%s leads after %.1fs", leader.ID, time.Since(began).Seconds())
	return leader
}

// NeverTwo fails the test if two members believed at the same time that they led, and returns how many
// leaderships there were. A stale belief of another program does not count: such a program keeps no deadline
// after it was stopped, and no other member can prevent that.
func (f *Fleet) NeverTwo() (ours, theirs int) {
	f.t.Helper()
	type belief struct {
		Span
		*Member
	}
	var before []belief
	for _, m := range f.members {
		for _, s := range m.Led() {
			switch {
			case m.Ours:
				ours++
			case s.Stale:
				continue
			default:
				theirs++
			}
			for _, b := range before {
				if b.Member != m && b.To.After(s.From) && s.To.After(b.From) {
					f.t.Errorf("S1: %s leads from %v to %v, and %s from %v to %v",
						b.ID, b.From, b.To, m.ID, s.From, s.To)
				}
			}
			before = append(before, belief{s, m})
		}
	}
	f.t.Logf("leaderships: %d of ours, %d of theirs", ours, theirs)
	return ours, theirs
}

// OneLeaderAtMost fails the test if two members believed that they led at the same time.
// It also fails the test if no member of this module, or no member of another program,
// ever led, because then the test has shown nothing.
func (f *Fleet) OneLeaderAtMost() {
	f.t.Helper()
	if ours, theirs := f.NeverTwo(); ours == 0 || theirs == 0 {
		f.t.Errorf("%d leaderships of ours and %d of theirs were seen; want some of both", ours, theirs)
	}
}

// PlayMember is the program of a [Member] of this module. It campaigns on the store, unless opening it
// returned err, prints what it believes, and resigns and exits when its input ends. It does not return.
func PlayMember(store backend.Backend, err error, o election.Options, name string) {
	check(err)
	m := must(election.New(store, o))
	e := must(m.Join(name))
	check(e.Lead(nil))

	// A process that was stopped may lose a leadership and be in the next one between two looks.
	var last *election.Leadership
	leads := func() bool {
		now := e.Leadership()
		same := now == last
		last = now
		return same && now != nil
	}
	Say(leads, func() string {
		leader, _, _ := e.Leader()
		return leader.ID + " " + leader.Address
	})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := m.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "member:", err)
	}
	fmt.Println("closed")
	os.Exit(0)
}

// Say prints the lines of a [Member] until the input ends. When the result of follows
// changes, it prints that after "follows".
func Say(leads func() bool, follows func() string) {
	ended := make(chan struct{})
	go func() { io.Copy(io.Discard, os.Stdin); close(ended) }()
	led, last := false, ""
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		now := time.Now() // read before the check, so the belief held at this time
		leads := leads()
		if leads {
			fmt.Println("led", now.UnixMicro())
		} else if led {
			fmt.Println("not leader")
		}
		led = leads
		if leader := follows(); leader != last {
			fmt.Println("follows", leader)
			last = leader
		}
		select {
		case <-tick.C:
		case <-ended:
			return
		}
	}
}
