package bench

import (
	"flag"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/lab/testbed"
)

var (
	table = flag.Bool("table", false, "measure and print the tables")
	short = flag.Bool("quick", false, "fewer rounds")
	only  = flag.String("only", "", "measure only the stores whose names match")
	sizes = flag.String("elections", "1 10 1000", "the numbers of elections of the idle load of TestStores")
	withs = flag.String("with", "", "measure only the libraries whose names match: go-election, api.Lock, …")
	parts = flag.String("part", "", "measure only the parts whose names match: idle, resigned, heirless")
)

// fresh creates a database with the tables and returns its DSN.
func fresh(t *testing.T, s *testbed.Server) string {
	d := s.Database(t)
	db := testbed.OpenDB(t, d.Admin)
	if err := mysql.CreateTables(t.Context(), db, "", ""); err != nil {
		t.Fatal(err)
	}
	d.Exec(t, `CREATE TABLE seed_election (service_id VARCHAR(50) NOT NULL PRIMARY KEY, leader_id VARCHAR(50) NOT NULL, update_time DATETIME(6) NOT NULL)`)
	return d.User.FormatDSN()
}

// part calls measure if -part selects it.
func part(name string, measure func()) {
	if regexp.MustCompile(*parts).MatchString(name) {
		measure()
	}
}

func span(long, quick time.Duration) time.Duration {
	if *short {
		return quick
	}
	return long
}

func rounds(long, quick int) int {
	if *short {
		return quick
	}
	return long
}

// await returns the next line that says one of these words.
func await(t *testing.T, all <-chan line, what ...string) line {
	t.Helper()
	limit := time.After(3 * time.Minute)
	for {
		select {
		case l := <-all:
			if slices.Contains(what, l.What) {
				return l
			}
		case <-limit:
			t.Fatalf("no process reported %q within three minutes", what)
		}
	}
}

// crashes is gaps in several elections at a time: it mostly waits, and the median needs
// many rounds.
func crashes(t *testing.T, r func() role, groups, n int, sig syscall.Signal) (times []time.Duration) {
	var wg sync.WaitGroup
	all := make([][]time.Duration, groups)
	for i := range groups {
		r := r()
		wg.Go(func() { all[i] = gaps(t, r, n, sig) })
	}
	wg.Wait()
	times = slices.Concat(all...)
	slices.Sort(times)
	return times
}

// gaps starts three processes, ends the leader n times, and returns how long it took each
// time until another process led.
func gaps(t *testing.T, r role, n int, sig syscall.Signal) (times []time.Duration) {
	all := make(chan line, 1000)
	kids := map[string]*child{}
	next := 0
	more := func() {
		turn.Lock()
		defer turn.Unlock()
		r.ID = fmt.Sprint("n", next)
		next++
		if sig == syscall.SIGUSR2 {
			r.Memory = limitMemory(t, memoryLimit)
		}
		kids[r.ID] = start(t, r, all)
		<-time.After(300 * time.Millisecond)
	}
	for range 3 {
		more()
	}
	leader := await(t, all, "leads")
	first := 0
	if sig == syscall.SIGTERM {
		first = -3 // rounds that do not count: a server in Java is many times slower until its code is compiled
	}
	for i := first; i < n; i++ {
		// End the leader when the others have settled, at moments spread evenly over a renewal interval.
		_, phase := math.Modf(float64(i-first) * math.Phi)
		settle := r.TTL + time.Duration(phase*float64(r.TTL)/3)
		more()
		<-time.After(settle)
		for len(all) > 0 {
			if l := <-all; l.What == "leads" {
				leader = l
			}
		}
		end := func() time.Duration {
			if sig == syscall.SIGTERM || r.Guard { // it takes milliseconds, during which no other leader may end
				turn.Lock()
				defer turn.Unlock()
				defer func() { <-time.After(200 * time.Millisecond) }()
			}
			ended := time.Now()
			victim := kids[leader.ID]
			victim.cmd.Process.Signal(sig)
			for leader.ID == victim.ID {
				switch l := await(t, all, "leads", "ends"); {
				case l.What == "leads":
					leader = l
				case l.ID == victim.ID:
					ended = l.At // it has worked until then
				}
			}
			took := leader.At.Sub(ended)
			victim.end(syscall.SIGKILL)
			return took
		}
		if took := end(); i >= 0 {
			times = append(times, took)
		}
	}
	for _, c := range kids {
		c.end(syscall.SIGKILL)
	}
	slices.Sort(times)
	return times
}

// turn is held while a leader of any row ends, if another follows within milliseconds, and while a
// process of any row starts, which takes a processor.
var turn sync.Mutex

// heirless is gaps with SIGTERM, but the followers that have waited longest are killed a
// moment before, so that only the last one can take over.
func heirless(t *testing.T, r role, n int) (times []time.Duration) {
	all := make(chan line, 1000)
	next := 0
	more := func() *child {
		r.ID = fmt.Sprint("n", next)
		next++
		return start(t, r, all)
	}
	leader := more()
	await(t, all, "leads")
	for range n {
		waiting := []*child{more(), more()}
		<-time.After(r.TTL / 2)
		last := more()
		<-time.After(r.TTL / 2)
		for _, c := range waiting {
			c.end(syscall.SIGKILL)
		}
		ended := time.Now()
		leader.cmd.Process.Signal(syscall.SIGTERM)
		times = append(times, await(t, all, "leads").At.Sub(ended))
		leader.end(syscall.SIGKILL)
		leader = last
	}
	leader.end(syscall.SIGKILL)
	slices.Sort(times)
	return times
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
