//go:build linux

package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/conformance"
)

// A child is a running writer, as the harness sees it.
type child struct {
	Role
	seat  int // which of the members it is; a successor has the same
	board *Board
	cmd   *exec.Cmd
	stdin io.WriteCloser
	noted chan struct{} // told when it has noted its final state
	done  chan struct{} // closed when it has ended
	died  time.Duration // when it was killed, or had ended
}

// startChild starts the test binary again, as a writer.
func startChild(t testing.TB, r Role, seat int) *child {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{Role: r, seat: seat, cmd: exec.Command(program), noted: make(chan struct{}, 1), done: make(chan struct{})}
	if c.board, err = openBoard(r.board()); err != nil {
		t.Fatal(err)
	}
	for _, v := range os.Environ() { // the configuration is the role's alone
		if !strings.HasPrefix(v, "ELECTION_") {
			c.cmd.Env = append(c.cmd.Env, v)
		}
	}
	c.cmd.Env = append(c.cmd.Env, RoleVariable+"="+string(text), "GOMAXPROCS=2")
	log, err := os.Create(filepath.Join(r.Dir, r.Process+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c.cmd.Stderr = log
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if lines.Text() == "noted" {
				c.noted <- struct{}{}
			}
		}
		c.cmd.Wait()
		close(c.done)
	}()
	return c
}

// signal sends a signal. To a process that has ended it is nothing.
func (c *child) signal(sig syscall.Signal) { c.cmd.Process.Signal(sig) }

// kill kills it, as kill -9 does, and waits until it is gone.
func (c *child) kill() {
	c.signal(syscall.SIGKILL)
	<-c.done
	if c.died == 0 {
		c.died = Now()
	}
}

// alive reports whether it runs, stopped or not.
func (c *child) alive() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// stop stops all its threads and waits until they have.
func (c *child) stop(t testing.TB) {
	t.Helper()
	c.signal(syscall.SIGSTOP)
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); !c.stopped(); <-tick.C {
		if time.Now().After(deadline) || !c.alive() {
			t.Fatalf("%s does not stop", c.Process)
		}
	}
}

// stopped reports whether all threads are.
func (c *child) stopped() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.cmd.Process.Pid))
	for _, name := range threads {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has just ended
		}
		// "pid (name) state …", and the name may hold anything.
		_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
		if !strings.HasPrefix(rest, "T") {
			return false
		}
	}
	return len(threads) > 0
}

func (c *child) goOn() { c.signal(syscall.SIGCONT) }

// lines returns what it has noted, and what it believed when it ended.
func (c *child) lines() ([]Line, error) {
	lines, err := readJournal(c.journal())
	if err != nil {
		return nil, err
	}
	said := map[string]bool{}
	entered := map[string]Line{}
	for _, l := range lines {
		key := fmt.Sprint(l.Election, l.Term)
		switch l.Kind {
		case conformance.Believed:
			said[key] = true
		case Running:
			entered[key] = l
		case conformance.Ran:
			delete(entered, key)
		}
	}
	for i, name := range c.Elections {
		term, from, to, ok := c.board.belief(i).read()
		if !ok || said[fmt.Sprint(name, term)] {
			continue
		}
		e := conformance.Entry{Process: c.Process, Election: name, Kind: conformance.Believed, Term: term, From: from, To: to}
		lines = append(lines, Line{Entry: e})
		// Its watcher may not have been told of this leadership before the end.
		e.Kind, e.To, e.Watcher = conformance.Ended, from, 1
		lines = append(lines, Line{Entry: e})
	}
	for _, l := range entered { // the function ran until the end
		l.Kind, l.To = conformance.Ran, max(c.died, l.From)
		lines = append(lines, l)
	}
	if c.died > 0 {
		lines = append(lines, Line{Entry: conformance.Entry{Process: c.Process, Kind: Died, From: c.died, To: c.died}})
	}
	return lines, nil
}

// finals has children note their final states, all at a time.
func finals(children []*child) {
	var all sync.WaitGroup
	for _, c := range children {
		all.Go(func() {
			io.WriteString(c.stdin, "final\n")
			select {
			case <-c.noted:
			case <-c.done:
			case <-time.After(2 * time.Minute): // its history lacks the line then, and says so
			}
		})
	}
	all.Wait()
}
