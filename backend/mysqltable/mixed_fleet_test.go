package mysqltable

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

const (
	theirPeriod    = 500 * time.Millisecond
	fleetThreshold = 4 * time.Second
	patient        = 3 * time.Minute // for any wait on a busy machine
)

// eachFleet runs a test with a fleet of each layout on MariaDB that the test is about, and with one on MySQL: the
// statements mean the same there, as the other tests show.
func eachFleet(t *testing.T, onMariaDB []Layout, onMySQL Layout, test func(f *fleet)) {
	t.Parallel()
	for k, layouts := range map[testbed.Kind][]Layout{testbed.MariaDB: onMariaDB, testbed.MySQL: {onMySQL}} {
		t.Run(string(k), func(t *testing.T) {
			for _, layout := range layouts {
				t.Run(string(layout), func(t *testing.T) {
					t.Parallel()
					test(&fleet{testbed.NewFleet(t), newLab(t, k, layout, fleetThreshold), t})
				})
			}
		})
	}
}

// A mixed fleet of processes: Java programs that run a fleet's statements unchanged with another client, and members of this
// module. Each side leads and follows; each is killed, stopped, and ends in order.
func TestAMixedFleetHasOneLeader(t *testing.T) {
	eachFleet(t, layouts, LastSeenActive, func(f *fleet) {
		java1 := f.program("java-1")
		f.Leads(java1)
		go1 := f.member("go-1", "")
		go1.Follows("java-1")
		java1.Kill()
		f.Leads(go1)

		java2 := f.program("java-2")
		f.runs(java2, 10)
		go1.Stop()
		f.Leads(java2)
		go1.Continue()
		f.runs(java2, 6) // beside go-1

		java2.Stop()
		f.Leads(go1)
		java2.Continue()
		f.runs(java2, 2)
		go1.Resign()
		f.Leads(java2)

		go2 := f.member("go-2", "")
		go2.Follows("java-2")
		s := f.shape()
		f.exec(f.t, fmt.Sprintf("UPDATE leader_election SET %s = 'nobody' WHERE %s = 'jobs'", s.holder, s.key))
		java2.FindsOut()
		java2.Stop()
		f.Leads(go2)
		java2.Continue()
		go2.Kill()
		f.Leads(java2)
		java2.Resign()
		f.OneLeaderAtMost()
	})
}

// Elections migrate from a fleet of Java programs to this module's own tables, and back: see [drivertest.Road]. While the
// row is sealed no program leads.
func TestARoadFromAFleetsTableToMysqlAndBack(t *testing.T) {
	eachFleet(t, []Layout{LastSeenActive}, LastActiveTime, func(f *fleet) {
		if err := mysql.CreateTables(f.t.Context(), f.admin, "", ""); err != nil {
			f.t.Fatal(err)
		}
		reader := f.node(f.t, "reader")
		drivertest.Road{
			Fleet:  f.Fleet,
			Theirs: f.program,
			Ours:   func(id, stage string) *testbed.Member { return f.member(id, migration.Stage(stage)) },
			Waits:  func(m *testbed.Member) { f.runs(m, 4) },
			Moved:  func() (string, error) { return reader.Sees("jobs").MovedTo, nil },
		}.ThereAndBack(t)
	})
}
