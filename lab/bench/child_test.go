package bench

import (
	"bufio"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	driversql "github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionguard"
	"github.com/go-election/go-election/lab/testbed"
)

// A role describes what a child process does. It is passed in the environment.
type role struct {
	Kind string // candidate, seed, old, peer, fleet
	ID   string // or several, of a program of a fleet: p0,p10

	DSN     string          // of MySQL; the child counts its statements
	Backend string          // or the name of a backend
	Section json.RawMessage // and its section of a configuration

	Guard bool // with a guard: package electionguard

	Peer   string // or another library
	Server string // address of its store
	Name   string // and its name for the election there

	TTL       time.Duration
	Elections int
	Poll      bool
	Load      time.Duration // how long to measure after all elections have a leader

	// Of a fleet: how many there are, how many of them campaign, and which program of it this is.
	Processes, Candidates, Program int

	Memory string // the control group that the child enters: it limits the memory

	heard func() // is called if a peer tells that another process leads
}

type line struct {
	ID   string
	What string    // leads, lost, all (elections have a leader), load, ends; of a fleet: opens, ready, resigns, heard
	At   time.Time // one machine, one clock
	Load *load
}

// load is the cost for one process of taking part.
type load struct {
	Messages    float64 // a second
	Statements  float64 // in them
	Connections int64   // the most at one time
	Goroutines  int
	Bytes       float64 // of heap and goroutine stacks, for each election
	CPU         float64 // of one core
	Leading     int
}

func TestMain(m *testing.M) {
	electionguard.Main(func(ctx context.Context, store []byte) (backend.Backend, error) {
		var r role
		if err := json.Unmarshal(store, &r); err != nil {
			return nil, err
		}
		return r.open(ctx, &counter{})
	})
	if text := os.Getenv("ELECTION_BENCH_ROLE"); text != "" {
		var r role
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			log.Fatal(err)
		}
		if err := r.crashWhenTold(); err != nil {
			log.Fatal(err)
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		go func() { // end with the parent
			io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
		run := map[string]func(context.Context) error{"candidate": r.candidate, "seed": r.seed, "old": r.old, "peer": r.peer, "fleet": r.fleet}
		if err := run[r.Kind](ctx); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

func (r role) say(what string, l *load) { r.tell(line{r.ID, what, time.Now(), l}) }

func (r role) tell(l line) {
	text, _ := json.Marshal(l)
	os.Stdout.Write(append(text, '\n'))
}

func (r role) candidate(ctx context.Context) error {
	base := occupied()
	counter := &counter{}
	b, err := r.open(ctx, counter)
	if err != nil {
		return err
	}
	o := election.Options{ID: r.ID, TTL: r.TTL}
	if r.Guard {
		store, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if o.Guard, err = electionguard.Start(electionguard.Options{Store: store}); err != nil {
			return err
		}
	}
	m, err := election.New(b, o)
	if err != nil {
		return err
	}
	elections := make([]*election.Election, max(r.Elections, 1))
	for i := range elections {
		if elections[i], err = m.Join(fmt.Sprintf("bench/%05d", i)); err != nil {
			return err
		}
	}
	elections[0].Watch(func(ev election.Event) {
		switch {
		case ev.Leading:
			r.say("leads", nil)
		case ev.Kind == election.Vacant && ev.Previous.ID == r.ID:
			r.say("lost", nil)
		}
	})
	for _, e := range elections {
		if err := e.Lead(nil); err != nil {
			return err
		}
	}
	if r.Load > 0 {
		r.say("load", r.measure(ctx, elections, counter, base))
	}
	<-ctx.Done()
	end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return m.Close(end)
}

// open opens the backend that the role names, or MySQL with a counter.
func (r role) open(ctx context.Context, c *counter) (backend.Backend, error) {
	if r.Backend != "" {
		return backend.Open(r.Backend, func(into any) error { return json.Unmarshal(r.Section, into) })
	}
	config, err := driversql.ParseDSN(r.DSN)
	if err != nil {
		return nil, err
	}
	config.InterpolateParams, config.MultiStatements = true, true
	if c.Connector, err = driversql.NewConnector(config); err != nil {
		return nil, err
	}
	return mysql.Open(mysql.Options{DB: sql.OpenDB(c), Schema: config.DBName, Poll: r.Poll})
}

// measure waits until every election has a leader, waits until the load is steady, and measures it.
func (r role) measure(ctx context.Context, elections []*election.Election, c *counter, base uint64) *load {
	d := r.Load
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 0; i < len(elections); {
		if _, _, ok := elections[i].Leader(); ok {
			i++
			continue
		}
		<-tick.C
	}
	r.say("all", nil)
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	wait(d / 2)
	cpu, messages, statements := cpuTime(), c.messages.Load(), c.statements.Load()
	wait(d)
	l := &load{
		Messages:    float64(c.messages.Load()-messages) / d.Seconds(),
		Statements:  float64(c.statements.Load()-statements) / d.Seconds(),
		CPU:         float64(cpuTime()-cpu) / float64(d),
		Connections: c.most.Load(),
		Goroutines:  runtime.NumGoroutine(),
	}
	least := occupied()
	for range 3 { // a large reading may be under way
		wait(time.Second)
		least = min(least, occupied())
	}
	l.Bytes = float64(least-base) / float64(len(elections))
	for _, e := range elections {
		if e.Leading() {
			l.Leading++
		}
	}
	return l
}

// occupied returns the bytes of live heap and of goroutine stacks. In libraries that start
// goroutines for each election the stacks are as large as the heap.
func occupied() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc + s.StackInuse
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// seed is a process that elects like older systems on MySQL: every third of the TTL it sends one INSERT … ON DUPLICATE KEY
// UPDATE, with a resolution of microseconds instead of seconds, and it leads if the row then names it.
func (r role) seed(ctx context.Context) error {
	db, err := sql.Open("mysql", r.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	if r.Load > 0 {
		base := occupied()
		go func() { r.say("load", r.settle(ctx, base, max(r.Elections, 1))) }()
	}
	n := max(r.Elections, 1)
	r.poll(ctx, r.TTL/3, n, func(i int) (bool, error) { return r.bid(ctx, db, fmt.Sprintf("bench%d", i)) })
	return nil
}

// poll bids for n elections again and again, and says whether it leads the first, and when it leads all.
func (r role) poll(ctx context.Context, every time.Duration, n int, bid func(i int) (leads bool, err error)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	leads := make([]bool, n)
	led := 0
	for {
		for i := range n {
			is, err := bid(i)
			if err != nil || is == leads[i] {
				continue
			}
			leads[i] = is
			if led++; !is {
				led -= 2
			}
			if i == 0 {
				r.say(map[bool]string{true: "leads", false: "lost"}[is], nil)
			}
			if led == n {
				r.say("all", nil)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r role) bid(ctx context.Context, db *sql.DB, name string) (leads bool, err error) {
	_, err = db.ExecContext(ctx, `INSERT IGNORE INTO seed_election (service_id, leader_id, update_time) VALUES (?, ?, UTC_TIMESTAMP(6))
		ON DUPLICATE KEY UPDATE leader_id = IF(TIMESTAMPDIFF(MICROSECOND, update_time, UTC_TIMESTAMP(6)) > ?, VALUES(leader_id), leader_id),
		update_time = IF(leader_id = VALUES(leader_id), VALUES(update_time), update_time)`, name, r.ID, r.TTL.Microseconds())
	if err != nil {
		return false, err
	}
	var n int
	err = db.QueryRowContext(ctx, "SELECT COUNT(*) FROM seed_election WHERE service_id = ? AND leader_id = ?", name, r.ID).Scan(&n)
	return n > 0, err
}

type child struct {
	role
	cmd   *exec.Cmd
	stdin io.Closer
}

// start starts a child and sends its lines to all.
func start(t testing.TB, r role, all chan<- line) *child {
	t.Helper()
	text, _ := json.Marshal(r)
	c := &child{role: r, cmd: exec.Command(os.Args[0])}
	switch r.Peer {
	case curatorLatch:
		c.cmd = latchCommand(t, r)
	case riverElector:
		c.cmd = riverCommand(t)
	}
	c.cmd.Env = append(os.Environ(), "ELECTION_BENCH_ROLE="+string(text))
	c.cmd.Stderr = os.Stderr
	stdin, err := c.cmd.StdinPipe()
	testbed.NoError(t, err)
	c.stdin = stdin
	stdout, err := c.cmd.StdoutPipe()
	testbed.NoError(t, err)
	testbed.NoError(t, c.cmd.Start())
	go func() {
		s := bufio.NewScanner(stdout)
		for s.Scan() {
			var l line
			if json.Unmarshal(s.Bytes(), &l) == nil && strings.HasPrefix(s.Text(), "{") {
				all <- l
			}
		}
	}()
	t.Cleanup(func() { c.end(syscall.SIGKILL) })
	return c
}

// end sends a signal and waits until the child has ended.
func (c *child) end(sig syscall.Signal) {
	if c.cmd.ProcessState == nil {
		c.cmd.Process.Signal(sig)
		c.cmd.Wait()
	}
}

// A counter counts connections, and what is sent on them: a message may have several statements.
type counter struct {
	driver.Connector
	messages, statements, open, most atomic.Int64
}

func (c *counter) sent(q string) {
	c.messages.Add(1)
	c.statements.Add(int64(1 + strings.Count(q, ";\n")))
}

func (c *counter) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c.most.Store(max(c.most.Load(), c.open.Add(1)))
	return &counted{conn, c}, nil
}

type counted struct {
	driver.Conn
	c *counter
}

func (c *counted) QueryContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Rows, error) {
	c.c.sent(q)
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, q, args)
}

func (c *counted) ExecContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Result, error) {
	c.c.sent(q)
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, q, args)
}

func (c *counted) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
}

func (c *counted) ResetSession(ctx context.Context) error {
	return c.Conn.(driver.SessionResetter).ResetSession(ctx)
}

func (c *counted) IsValid() bool { return c.Conn.(driver.Validator).IsValid() }

func (c *counted) CheckNamedValue(v *driver.NamedValue) error {
	return c.Conn.(driver.NamedValueChecker).CheckNamedValue(v)
}

func (c *counted) Ping(ctx context.Context) error { return c.Conn.(driver.Pinger).Ping(ctx) }

func (c *counted) Close() error {
	c.c.open.Add(-1)
	return c.Conn.Close()
}
