package migration_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/manual"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// Machines are processes on one pinned store, manual without a directory, which keeps nothing, and a new one.
type machines struct {
	*testing.T
	pinned, fresh *memory.Store
	running       map[string]*election.Election
	stops         map[string]func()
}

// open opens what a machine uses at a stage. All have the same configuration, which names a.
func (m *machines) open(stage migration.Stage) backend.Backend {
	from, err := manual.Open(manual.Options{Leader: "a", Store: m.pinned})
	testbed.NoError(m, err)
	if stage == "" {
		return from
	}
	return road(m, migration.Options{From: from, To: m.fresh.Backend(), Stage: stage, Unsealed: stage == to})
}

func (m *machines) start(id string, b backend.Backend) {
	if stop := m.stops[id]; stop != nil {
		stop()
	}
	m.running[id], m.stops[id] = campaign(m.T, b, id)
}

// leads lets time pass, in which no two lead, and returns who leads then.
func (m *machines) leads(while time.Duration) string {
	m.Helper()
	for end := time.Now().Add(while); ; time.Sleep(100 * time.Millisecond) { // virtual
		var ids []string
		for id, e := range m.running {
			if e.Leading() {
				ids = append(ids, id)
			}
		}
		if slices.Sort(ids); len(ids) > 1 {
			m.Fatalf("S1: %v lead", ids)
		}
		if time.Now().After(end) {
			return strings.Join(ids, "")
		}
	}
}

// Three machines, whose configuration names the leader, migrate and go back, one after the other, twice. At the stages that
// use the configuration only the named one leads. A configuration cannot be sealed. The new store can, and is sealed on
// the way back: those that are left behind do not lead.
func TestTheRoadFromAPinnedMachineAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machines{t, memory.New(), memory.New(), map[string]*election.Election{}, map[string]func(){}}
		for _, stage := range []migration.Stage{"", both, to, both, "", both, to, both, ""} {
			for _, id := range []string{"b", "c", "a"} {
				m.start(id, m.open(stage))
				if led := m.leads(time.Minute); stage != to && led != "a" && id == "a" || stage == to && led == "" {
					t.Errorf("%s is at stage %q, and %q leads", id, stage, led)
				}
			}
		}

		m.start("left at to", m.open(to))
		m.start("left on the new store", m.fresh.Backend())
		if led := m.leads(5 * time.Minute); led != "a" {
			t.Errorf("the fleet has gone back, and %q leads", led)
		}
		for _, stop := range m.stops {
			stop()
		}
	})
}
