package bench

import (
	"context"
	"flag"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

var (
	table = flag.Bool("table", false, "measure and print the table")
	short = flag.Bool("quick", false, "fewer rounds")
	only  = flag.String("only", "", "measure only the stores whose names match")
	sizes = flag.String("elections", "1 10 1000", "the numbers of elections of the idle load of TestStores")
	withs = flag.String("with", "", "measure only the libraries whose names match: go-election, api.Lock, …")
	parts = flag.String("part", "", "measure only the parts whose names match: idle, crowd, killed, resigned, heirless")
)

// TestTable prints the table. It asserts nothing.
func TestTable(t *testing.T) {
	if !*table {
		t.Skip("run make bench")
	}
	fmt.Printf("\n%s, %d cores\n\n", runtime.Version(), runtime.NumCPU())
	fmt.Println("| what | where | measured | bar |")
	fmt.Println("|---|---|---|---|")
	leading()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		if !regexp.MustCompile(*only).MatchString(string(k)) {
			return
		}
		s := testbed.Shared(t, k)
		fmt.Printf("| server | %s | %s | |\n", k, s.Version())
		part("idle", func() { idle(t, k, fresh(t, s)) })
		part("crowd", func() { crowd(t, k, fresh(t, s)) })
		part("killed", func() {
			for _, ttl := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second} {
				killed(t, k, s, "candidate", ttl)
				killed(t, k, s, "seed", ttl)
			}
		})
		part("resigned", func() {
			resigned(t, k, fresh(t, s), "candidate", false)
			resigned(t, k, fresh(t, s), "candidate", true)
			resigned(t, k, fresh(t, s), "seed", false)
		})
	})
}

// fresh creates a database with the tables and returns its DSN.
func fresh(t *testing.T, s *testbed.Server) string {
	d := s.Database(t)
	db := testbed.OpenDB(t, d.Admin)
	testbed.NoError(t, mysql.CreateTables(t.Context(), db, "", ""))
	d.Exec(t, `CREATE TABLE seed_election (service_id VARCHAR(50) NOT NULL PRIMARY KEY, leader_id VARCHAR(50) NOT NULL, update_time DATETIME(6) NOT NULL)`)
	return d.User.FormatDSN()
}

func part(name string, measure func()) {
	if regexp.MustCompile(*parts).MatchString(name) {
		measure()
	}
}

func row(what string, where any, figure, bar string) {
	fmt.Printf("| %s | %v | %s | %s |\n", what, where, figure, bar)
}

func leading() {
	m, err := election.New(memory.New().Backend(), election.Options{})
	if err != nil {
		panic(err)
	}
	defer m.Close(context.Background())
	e, _ := m.Join("bench")
	if _, err := e.Campaign(context.Background()); err != nil {
		panic(err)
	}
	now := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			time.Now()
		}
	})
	ask := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e.Leading()
		}
	})
	row("`Leading()`", "any", fmt.Sprintf("%.2f × `time.Now()`, %d allocations", float64(ask.NsPerOp())/float64(max(now.NsPerOp(), 1)), ask.AllocsPerOp()), "≤ 1.5 ×, 0")
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

// loads starts a leader and then a follower, and returns the load of each.
func loads(t *testing.T, r role) (leader, follower *load) {
	all := make(chan line, 100)
	for _, id := range []string{"leader", "follower"} {
		r.ID = id
		start(t, r, all)
		if id == "leader" {
			await(t, all, "all") // then the follower leads none
		}
	}
	return reported(t, all)
}

func reported(t *testing.T, all <-chan line) (leader, follower *load) {
	for leader == nil || follower == nil {
		l := await(t, all, "load")
		if l.ID == "leader" {
			leader = l.Load
		} else {
			follower = l.Load
		}
	}
	return leader, follower
}

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

func idle(t *testing.T, k testbed.Kind, dsn string) {
	a, b := loads(t, role{Kind: "candidate", DSN: dsn, TTL: 10 * time.Second, Elections: 1, Load: span(40*time.Second, 20*time.Second)})
	row("one election, idle, TTL 10 s", k, fmt.Sprintf("leader %.2f, follower %.2f messages/s, with %.2f and %.2f statements", a.Messages, b.Messages, a.Statements, b.Statements), "≤ 1.2 messages a node")
}

func crowd(t *testing.T, k testbed.Kind, dsn string) {
	const n = 10_000
	a, b := loads(t, role{Kind: "candidate", DSN: dsn, TTL: 10 * time.Second, Elections: n, Load: span(40*time.Second, 20*time.Second)})
	what := "10,000 elections, TTL 10 s: "
	row(what+"statements/s", k, fmt.Sprintf("leader of %d: %.1f, follower %.1f, in %.1f and %.1f messages", a.Leading, a.Statements, b.Statements, a.Messages, b.Messages), "leader ≤ 3")
	row(what+"connections", k, fmt.Sprintf("leader %d, follower %d", a.Connections, b.Connections), "≤ 5")
	row(what+"goroutines", k, fmt.Sprintf("leader %d, follower %d", a.Goroutines, b.Goroutines), "do not grow")
	row(what+"memory", k, fmt.Sprintf("leader %.0f, follower %.0f bytes an election", a.Bytes, b.Bytes), "≤ 2 KB")
	row(what+"CPU", k, fmt.Sprintf("leader %.1f %%, follower %.1f %% of a core", a.CPU*100, b.CPU*100), "follower ≤ 5 %")
}

// crashes is gaps in several elections at a time: it mostly waits, and the median needs many rounds.
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

// gaps starts three processes, ends the leader n times, and returns how long it took each time until another process led.
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

func killed(t *testing.T, k testbed.Kind, s *testbed.Server, kind string, ttl time.Duration) {
	g := crashes(t, func() role { return role{Kind: kind, DSN: fresh(t, s), TTL: ttl} }, 5, rounds(9, 1), syscall.SIGKILL)
	median, worst := g[len(g)/2], g[len(g)-1]
	what, bar := fmt.Sprintf("leader killed, TTL %v", ttl), fmt.Sprintf("median ≤ 0.9, worst ≤ %.2f", 1+0.1/ttl.Seconds())
	if kind == "seed" {
		what, bar = what+", polling every TTL/3", "for comparison"
	}
	row(what, k, fmt.Sprintf("median %.2f TTL, worst %.2f TTL (%d times)", median.Seconds()/ttl.Seconds(), worst.Seconds()/ttl.Seconds(), len(g)), bar)
}

func resigned(t *testing.T, k testbed.Kind, dsn, kind string, poll bool) {
	const ttl = 3 * time.Second
	g := gaps(t, role{Kind: kind, DSN: dsn, TTL: ttl, Poll: poll}, rounds(15, 5), syscall.SIGTERM)
	what, bar := "leader gets SIGTERM, TTL 3s", "median ≤ 10 ms"
	switch {
	case kind == "seed":
		what, bar = what+", polling every TTL/3", "for comparison"
	case poll:
		what, bar = what+", without notification", "≤ one poll: 1 s"
	}
	row(what, k, fmt.Sprintf("median %v, worst %v (%d times)", round(g[len(g)/2]), round(g[len(g)-1]), len(g)), bar)
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
