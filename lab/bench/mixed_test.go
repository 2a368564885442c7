package bench

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// A mixed fleet is a store in which members of this module and old programs, which do not know it, elect together.
type mixed struct {
	name  string
	fresh func() (member, old role) // for a new election
}

// oldThreshold is after how long the old programs on a table take over.
const oldThreshold = storesTTL + 2*time.Second

// TestMixedFleets prints how long nobody leads after a leader of a mixed fleet has ended. It asserts nothing.
func TestMixedFleets(t *testing.T) {
	if !*table {
		t.Skip("run make bench")
	}
	z := testbed.StartZooKeeper(t, testbed.Options{Args: []string{"maxSessionTimeout=60000"}})
	maria := testbed.Shared(t, testbed.MariaDB)
	fleets := []mixed{
		{"curator, beside LeaderLatch", func() (member, old role) {
			name := fmt.Sprintf("mixed%d", time.Now().UnixNano())
			section, _ := json.Marshal(map[string]any{
				"servers": []string{z.Addr()}, "root": "/" + name, "tick": testbed.ZooKeeperTick, "session": 2 * storesTTL,
				"paths": map[string]string{"bench/00000": "/" + name + "/0"},
			})
			return role{Kind: "candidate", Backend: "curator", Section: section, TTL: storesTTL},
				role{Kind: "peer", Peer: curatorLatch, Server: z.Addr(), Name: name, TTL: storesTTL}
		}},
		{"mysqltable, beside programs that poll once a second", func() (member, old role) {
			dsn := freshTable(t, maria)
			section, _ := json.Marshal(tableSection(dsn))
			return role{Kind: "candidate", Backend: "mysqltable", Section: section, TTL: storesTTL}, role{Kind: "old", DSN: dsn}
		}},
	}

	fmt.Println("| fleet | leader | who waits | kill -9: median, worst | SIGTERM: median, worst |")
	fmt.Println("|---|---|---|---|---|")
	var all sync.WaitGroup
	for _, fleet := range fleets {
		for _, order := range [][]string{{"member", "member", "old"}, {"member", "old"}, {"guarded", "old"}, {"old", "member"}} {
			all.Go(func() {
				var cells [2]string
				var both sync.WaitGroup
				for i, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
					both.Go(func() {
						g := fleet.gaps(t, order, rounds(9, 1), sig)
						cells[i] = fmt.Sprintf("%v, %v", round(g[len(g)/2]), round(g[len(g)-1]))
					})
				}
				both.Wait()
				fmt.Printf("| %s | %s | %v | %s | %s |\n", fleet.name, order[0], order[1:], cells[0], cells[1])
			})
		}
	}
	all.Wait()
}

// gaps starts a fleet in this order n times, so that the first leads, and returns how long nobody leads after it has got
// a signal.
func (m mixed) gaps(t *testing.T, order []string, n int, sig syscall.Signal) (times []time.Duration) {
	for i := range n {
		member, old := m.fresh()
		all := make(chan line, 1000)
		var kids []*child
		for j, what := range order {
			r := member
			switch what {
			case "old":
				r = old
			case "guarded":
				r.Guard = true
			}
			r.ID = fmt.Sprint(what, j)
			func() {
				turn.Lock()
				defer turn.Unlock()
				kids = append(kids, start(t, r, all))
				<-time.After(300 * time.Millisecond)
			}()
			if j == 0 {
				await(t, all, "leads")
			}
		}
		_, phase := math.Modf(float64(i) * math.Phi)
		<-time.After(storesTTL/2 + time.Duration(phase*float64(storesTTL)/3))

		times = append(times, func() time.Duration {
			if sig == syscall.SIGTERM || order[0] == "guarded" { // mostly milliseconds, during which no other process may start
				turn.Lock()
				defer turn.Unlock()
			}
			ended := time.Now()
			kids[0].cmd.Process.Signal(sig)
			return await(t, all, "leads").At.Sub(ended)
		}())
		for _, c := range kids {
			c.end(syscall.SIGKILL)
		}
	}
	slices.Sort(times)
	return times
}

// freshTable creates a database with the table of old programs, and returns its DSN.
func freshTable(t *testing.T, s *testbed.Server) (dsn string) {
	d := s.Database(t)
	d.Exec(t, `CREATE TABLE leader_election (service_id VARCHAR(128) NOT NULL PRIMARY KEY, leader_id VARCHAR(128) NOT NULL, last_active_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)`)
	return d.Admin.FormatDSN()
}

func tableSection(dsn string) map[string]any {
	return map[string]any{"dsn": dsn, "layout": "last_active_time", "threshold": oldThreshold}
}

// old is a process that elects by the table alone, once a second, and gives nothing back.
func (r role) old(ctx context.Context) error {
	db, err := sql.Open("mysql", r.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	r.poll(ctx, time.Second, 1, func(int) (bool, error) {
		_, err := db.ExecContext(ctx, `INSERT IGNORE INTO leader_election (service_id, leader_id, last_active_time) VALUES ('bench/00000', ?, now())
			ON DUPLICATE KEY UPDATE leader_id = IF(last_active_time <= now() - INTERVAL ? SECOND, VALUES(leader_id), leader_id),
			last_active_time = IF(leader_id = VALUES(leader_id), VALUES(last_active_time), last_active_time)`, r.ID, int(oldThreshold/time.Second))
		var leader string
		if err == nil {
			err = db.QueryRowContext(ctx, "SELECT leader_id FROM leader_election WHERE service_id = 'bench/00000'").Scan(&leader)
		}
		return leader == r.ID, err
	})
	return nil
}
