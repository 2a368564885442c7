package curator

import (
	"fmt"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// TestTheRoadFromOtherProgramsToMySQLAndBack moves fleets of real processes of other
// programs to this module on MySQL, and back, while members are killed: see [drivertest.Road].
func TestTheRoadFromOtherProgramsToMySQLAndBack(t *testing.T) {
	for name, test := range map[string]func(*testing.T) (*fleet, drivertest.Road){
		"LeaderLatch": func(t *testing.T) (*fleet, drivertest.Road) {
			f := newLatches(t)
			return f, drivertest.Road{Theirs: func(id string) *testbed.Member { return f.startJava("latch", id) }, Waits: f.waitQueued}
		},
		"LeaderSelector": func(t *testing.T) (*fleet, drivertest.Road) {
			f := newSelectors(t)
			return f, drivertest.Road{Theirs: func(id string) *testbed.Member { return f.startJava("selector", id) }, Waits: f.waitQueued}
		},
		"OneEphemeralNode": func(t *testing.T) (*fleet, drivertest.Road) {
			f := newNodes(t)
			return f, drivertest.Road{Theirs: func(id string) *testbed.Member { return f.startJava("node", id) }, Waits: f.waits}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, road := test(t)
			db := testbed.Shared(t, testbed.MariaDB).Database(t)
			testbed.NoError(t, mysql.CreateTables(t.Context(), testbed.OpenDB(t, db.Admin), "", ""))
			f.dsn = db.User.FormatDSN()
			road.Ours = func(id, stage string) *testbed.Member { return f.startAt(migration.Stage(stage), id) }
			reader := testbed.Open(t, Open, f.options)
			road.Moved = func() (string, error) {
				changed, err := reader.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
				if err != nil || len(changed) != 1 {
					return "", fmt.Errorf("observe: %v, %v", changed, err)
				}
				return changed[0].MovedTo, nil
			}
			road.Fleet = f.Fleet
			road.ThereAndBack(t)
		})
	}
}
