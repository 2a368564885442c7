package mysqltable

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/lab/testbed"
)

const (
	theirPeriod    = 500 * time.Millisecond
	fleetThreshold = 4 * time.Second
	patient        = 3 * time.Minute // for any wait on a busy machine
)

// A mixed fleet of processes: Java programs that run a fleet's statements unchanged with another
// client, and members of this module. Each side leads and follows; each is killed, stopped, and
// ends in order. checkHistory says what counts as two leaders.
func TestAMixedFleetHasOneLeader(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		for _, layout := range layouts {
			if k == testbed.MySQL && layout != LastSeenActive {
				continue // the statements mean the same there: see the other tests
			}
			t.Run(string(layout), func(t *testing.T) {
				t.Parallel()
				l := newLab(t, k, layout, fleetThreshold)
				s := shapes[layout]
				var members, programs []*member

				java1 := l.startProgram(t, "java-1")
				programs = append(programs, java1)
				until(t, patient, "java-1 to lead", java1.leading)
				go1 := l.startMember(t, "go-1")
				members = append(members, go1)
				before := java1.runCount()
				until(t, patient, "java-1 to run ten times beside go-1", func() bool { return java1.runCount() > before+10 })

				java1.signal(t, syscall.SIGKILL)
				until(t, patient, "go-1 to take over from java-1, which was killed", go1.leading)
				java2 := l.startProgram(t, "java-2")
				programs = append(programs, java2)
				until(t, patient, "java-2 to run as follower", func() bool { return java2.runCount() > 10 })

				go1.signal(t, syscall.SIGSTOP)
				until(t, patient, "java-2 to take over from go-1, which is stopped", java2.leading)
				go1.forget()
				go1.signal(t, syscall.SIGCONT)
				before = java2.runCount()
				until(t, patient, "java-2 to run on beside go-1", func() bool { return java2.runCount() > before+6 })

				java2.signal(t, syscall.SIGSTOP)
				until(t, patient, "go-1 to take over from java-2, which is stopped", go1.leading)
				java2.forget()
				before = java2.runCount()
				java2.signal(t, syscall.SIGCONT)
				until(t, patient, "java-2 to run again", func() bool { return java2.runCount() > before+2 })

				go1.in.Close() // in order
				until(t, patient, "java-2 to take over from go-1, which has resigned", java2.leading)

				go2 := l.startMember(t, "go-2")
				members = append(members, go2)
				before = java2.runCount()
				until(t, patient, "go-2 to have read the row", func() bool { return java2.runCount() > before+6 })
				l.exec(t, fmt.Sprintf("UPDATE leader_election SET %s = 'nobody' WHERE %s = 'jobs'", s.holder, s.key))
				until(t, patient, "java-2 to obey the operator", func() bool { return !java2.leading() })

				java2.signal(t, syscall.SIGSTOP)
				until(t, patient, "go-2 to lead, since java-2 is stopped", go2.leading)
				java2.forget()
				java2.signal(t, syscall.SIGCONT)

				go2.signal(t, syscall.SIGKILL)
				until(t, patient, "java-2 to take over from go-2, which was killed", java2.leading)
				java2.in.Close()

				checkHistory(t, l.options, members, programs)
			})
		}
	})
}

// Elections migrate from a fleet of Java programs to this module's own tables, and back, while
// members of each stage are killed. While the row is sealed no straggler leads, whether or not
// any other process does.
func TestARoadFromAFleetsTableToMysqlAndBack(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		for _, layout := range layouts {
			if k == testbed.MySQL && layout != LastActiveTime {
				continue // the statements mean the same there: see the other tests
			}
			t.Run(string(layout), func(t *testing.T) {
				t.Parallel()
				road(t, newLab(t, k, layout, fleetThreshold))
			})
		}
	})
}

func road(t *testing.T, l *lab) {
	if err := mysql.CreateTables(t.Context(), l.admin, "", ""); err != nil {
		t.Fatal(err)
	}
	java := l.startProgram(t, "java-1")
	until(t, patient, "java-1 to lead", java.leading)
	straggler := l.startProgram(t, "java-2")
	until(t, patient, "java-2 to run as follower", func() bool { return straggler.runCount() > 4 })
	straggler.signal(t, syscall.SIGSTOP)

	both := []*member{l.startAt(t, "both-1", migration.Both), l.startAt(t, "both-2", migration.Both)}
	for _, m := range both {
		until(t, patient, m.id+" to know that java-1 leads", func() bool { return m.knew("java-1") })
	}
	java.signal(t, syscall.SIGKILL)
	leader, other := first(t, both)
	leader.signal(t, syscall.SIGKILL)
	until(t, patient, other.id+" to take over from "+leader.id+", which was killed", other.leading)

	to := []*member{l.startAt(t, "to-1", migration.To), l.startAt(t, "to-2", migration.To)}
	for _, m := range to {
		until(t, patient, m.id+" to know that "+other.id+" leads", func() bool { return m.knew(other.id) })
	}
	other.in.Close() // in order
	leader, other = first(t, to)

	awake := time.Now()
	straggler.signal(t, syscall.SIGCONT) // the row is sealed
	until(t, patient, "java-2 to run again", func() bool { return straggler.runsSince(awake) > 4 })
	leader.signal(t, syscall.SIGKILL)
	until(t, patient, other.id+" to take over from "+leader.id+", which was killed", other.leading)
	other.in.Close()

	// Its schedule catches up on missed runs, so that the time of the runs counts as well.
	vacant := time.Now()
	until(t, patient, "java-2 to run for longer than the threshold", func() bool {
		return straggler.runsSince(vacant) > int(2*fleetThreshold/theirPeriod) && straggler.runsSince(vacant.Add(2*fleetThreshold)) > 0
	})
	if straggler.ledSince(awake) {
		t.Error("java-2 leads although the row is sealed")
	}

	back := l.startAt(t, "back-1", migration.Both)
	until(t, patient, "back-1 to lead", back.leading)
	back.in.Close()
	until(t, patient, "java-2 to lead again", straggler.leading)
	straggler.in.Close()
	checkHistory(t, l.options, []*member{both[0], both[1], to[0], to[1], back}, []*member{java, straggler})
}

// first waits until one of two members leads.
func first(t *testing.T, two []*member) (leader, other *member) {
	t.Helper()
	until(t, patient, two[0].id+" or "+two[1].id+" to lead", func() bool { return two[0].leading() || two[1].leading() })
	if two[0].leading() {
		return two[0], two[1]
	}
	return two[1], two[0]
}

// checkHistory finds two leaders for which a member of this module is to blame: an instant at
// which that member leads, and
//
//   - another member of this module leads; or
//   - another program believes to lead, by its latest run, which began less than the threshold
//     before. A longer belief does not count (the program was stopped), since nothing prevents
//     it.
func checkHistory(t *testing.T, o Options, members, programs []*member) {
	t.Helper()
	leaderships := 0
	for i, m := range members {
		m.mu.Lock()
		defer m.mu.Unlock()
		leaderships += len(m.spans)
		if m.broken != "" {
			t.Errorf("%s: %s", m.id, m.broken)
		}
		for _, a := range m.spans {
			for _, other := range members[:i] {
				for _, b := range other.spans {
					if overlap(a, b) {
						t.Errorf("%s and %s lead at the same time: %v and %v", m.id, other.id, a, b)
					}
				}
			}
		}
	}
	for _, m := range programs {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.broken != "" {
			t.Errorf("%s: %s", m.id, m.broken)
		}
		for i, k := range m.runs {
			if !k.leads {
				continue
			}
			believes := span{k.ended, k.began.Add(o.Threshold)}
			if i+1 < len(m.runs) && m.runs[i+1].ended.Before(believes.to) {
				believes.to = m.runs[i+1].ended
			}
			leaderships++
			for _, other := range members {
				for _, a := range other.spans {
					if overlap(a, believes) {
						t.Errorf("%s believes to lead %v while %s leads %v", m.id, believes, other.id, a)
					}
				}
			}
		}
	}
	if leaderships < 4 {
		t.Errorf("only %d leaderships: the history is not complete", leaderships)
	}
}

func overlap(a, b span) bool { return !a.to.Before(b.from) && a.from.Before(b.to) }
