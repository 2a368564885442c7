package electionshard_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/postgres"
	"github.com/go-election/go-election/backend/redis"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionshard"
	"github.com/go-election/go-election/lab/testbed"
)

// processVariable makes the test binary a process of a fleet: "id store address".
const (
	processVariable = "ELECTIONSHARD_TEST_PROCESS"
	processTTL      = 3 * time.Second
	processShards   = 64
	processLimit    = 3 * time.Minute // bounds every wait, on a very busy machine
	processPace     = 4 * time.Second // from one restart of a rolling deployment to the next
)

func TestMain(m *testing.M) {
	if what := os.Getenv(processVariable); what != "" {
		if err := process(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process takes part until its input ends, and says when work begins and ends.
func process(what string) error {
	var id, kind, address string
	if _, err := fmt.Sscan(what, &id, &kind, &address); err != nil {
		return err
	}
	var store backend.Backend
	var err error
	if kind == "Redis" {
		store, err = redis.Open(redis.Options{Addresses: []string{address}})
	} else {
		store, err = postgres.Open(postgres.Options{DSN: address})
	}
	if err != nil {
		return err
	}
	m, err := election.New(store, election.Options{ID: id, TTL: processTTL})
	if err != nil {
		return err
	}

	work := func(ctx context.Context, lead *election.Leadership) error {
		fmt.Println("begin", lead.Election(), lead.Term, time.Now().UnixMicro())
		<-ctx.Done()
		fmt.Println("end", lead.Election(), lead.Term, time.Now().UnixMicro())
		return nil
	}
	names := electionshard.Names("shard", processShards)
	if _, err := electionshard.Lead(m, "shard", names, work, electionshard.Options{Settle: 10 * time.Second}); err != nil {
		return err
	}
	io.Copy(io.Discard, os.Stdin)
	return m.Close(context.Background())
}

// A realFleet is five processes on a real store.
type realFleet struct {
	t     *testing.T
	store string // kind and address

	processes map[string]*realProcess

	mu   sync.Mutex
	work map[string][]*span // by shard, in the order in which this test was told
}

type realProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
}

type span struct {
	id       string
	term     uint64
	from, to int64 // Unix time in microseconds; to is 0 while it works
}

func (f *realFleet) start(id string) {
	f.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), processVariable+"="+id+" "+f.store)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	testbed.NoError(f.t, err)
	stdout, err := cmd.StdoutPipe()
	testbed.NoError(f.t, err)
	testbed.NoError(f.t, cmd.Start())
	p := &realProcess{cmd, stdin, make(chan struct{})}
	f.processes[id] = p
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			f.take(id, lines.Text())
		}
		cmd.Wait()
	}()
}

func (f *realFleet) take(id, line string) {
	var what, shard string
	var term uint64
	var at int64
	if _, err := fmt.Sscan(line, &what, &shard, &term, &at); err != nil {
		f.t.Errorf("%s says %q", id, line)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if what == "begin" {
		f.work[shard] = append(f.work[shard], &span{id: id, term: term, from: at})
		return
	}
	for _, s := range f.work[shard] {
		if s.id == id && s.term == term {
			s.to = at
		}
	}
}

func (f *realFleet) end(id string, kill bool) {
	p := f.processes[id]
	delete(f.processes, id)
	if p == nil {
		return
	}
	if kill {
		p.cmd.Process.Kill()
	} else {
		p.stdin.Close()
	}
	<-p.ended

	f.mu.Lock()
	defer f.mu.Unlock()
	for _, all := range f.work {
		for _, s := range all {
			if s.id == id && s.to == 0 {
				s.to = time.Now().UnixMicro()
			}
		}
	}
}

// leads returns for how many shards each process works, and how often work has begun.
func (f *realFleet) leads() (leads map[string]int, begun int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	leads = map[string]int{}
	for id := range f.processes {
		leads[id] = 0
	}
	for _, all := range f.work {
		begun += len(all)
		for _, s := range all {
			if s.to == 0 {
				leads[s.id]++
			}
		}
	}
	return leads, begun
}

// note logs who leads how many, after what was done.
func (f *realFleet) note(what string) {
	leads, begun := f.leads()
	f.t.Logf("%-12s they lead %v after %d moves", what, leads, begun-processShards)
}

// led waits until all shards are led, no process leading more than so many more than another.
func (f *realFleet) led(difference int) {
	f.t.Helper()
	testbed.Eventually(f.t, processLimit, "all shards to be led", func() error {
		leads, _ := f.leads()
		sum, least, most := 0, processShards, 0
		for _, n := range leads {
			sum, least, most = sum+n, min(least, n), max(most, n)
		}
		if sum != processShards || most-least > difference {
			return fmt.Errorf("they lead %v", leads)
		}
		return nil
	})
}

var fiveIDs = []string{"a", "b", "c", "d", "e"}

// Five processes lead 64 shards on a real store, while they are killed and restarted. In the end they
// lead equally many, and no two ever worked for a shard at the same time.
func TestFiveProcessesShareOnARealStore(t *testing.T) {
	testbed.Full(t, "kills and restarts processes for a minute")
	stores := map[string]func(t *testing.T) string{
		"Redis":      func(t *testing.T) string { return testbed.StartRedis(t, testbed.Options{}).Addr() },
		"PostgreSQL": func(t *testing.T) string { return testbed.SharedPostgres(t).Database(t).DSN("") },
	}
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &realFleet{t: t, store: name + " " + store(t), processes: map[string]*realProcess{}, work: map[string][]*span{}}
			defer func() {
				for _, id := range fiveIDs {
					f.end(id, true)
				}
			}()
			f.story()
			f.neverTwo()
		})
	}
}

func (f *realFleet) story() {
	for _, id := range fiveIDs {
		f.start(id)
	}
	f.led(1)
	f.note("")

	f.pace()
	f.note("kill a, b")
	f.end("a", true)
	f.end("b", true)
	f.led(1)

	f.pace()
	f.note("start a, b")
	f.start("a")
	f.start("b")
	f.led(1)

	for _, id := range fiveIDs {
		f.pace()
		f.note("roll " + id)
		f.restart(id)
	}
	f.led(1)

	f.pace()
	f.note("roll at once")
	for _, id := range fiveIDs {
		f.restart(id)
	}
	f.led(1)
	f.pace()
	f.note("")
}

func (f *realFleet) pace() { <-time.After(processPace) }

// restart restarts a process in order, and waits until all shards are led.
func (f *realFleet) restart(id string) {
	f.t.Helper()
	f.end(id, false)
	f.start(id)
	f.led(processShards)
}

func (f *realFleet) neverTwo() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for shard, all := range f.work {
		slices.SortFunc(all, func(a, b *span) int { return int(a.from - b.from) })
		for i, s := range all[1:] {
			before := all[i]
			if before.to == 0 || s.from < before.to || s.term <= before.term {
				f.t.Errorf("%s: %s worked in term %d from %d to %d, and %s in term %d from %d",
					shard, before.id, before.term, before.from, before.to, s.id, s.term, s.from)
			}
		}
	}
}
