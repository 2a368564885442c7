//go:build linux

package chaos

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/testbed"
)

// A child is a writer process of the harness.
type child struct {
	Role
	member int // index of the member; its replacement has the same
	board  *Board
	cmd    *exec.Cmd
	stdin  io.Closer     // ends the child when the harness ends
	done   chan struct{} // closed when it has ended
}

// startChild starts the test binary again, as a writer.
func startChild(t testing.TB, r Role, member int) *child {
	t.Helper()
	text, err := json.Marshal(r)
	testbed.NoError(t, err)
	program, err := os.Executable()
	testbed.NoError(t, err)
	c := &child{Role: r, member: member, cmd: exec.Command(program), done: make(chan struct{})}
	if c.board, err = openBoard(r.file("board")); err != nil {
		t.Fatal(err)
	}
	for _, v := range os.Environ() { // the configuration comes from the role alone
		if !strings.HasPrefix(v, "ELECTION_") {
			c.cmd.Env = append(c.cmd.Env, v)
		}
	}
	c.cmd.Env = append(c.cmd.Env, RoleVariable+"="+string(text), "GOMAXPROCS=2")
	log, err := os.Create(r.file("log"))
	testbed.NoError(t, err)
	defer log.Close()
	c.cmd.Stdout, c.cmd.Stderr = log, log
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	testbed.NoError(t, c.cmd.Start())
	go func() {
		c.cmd.Wait()
		close(c.done)
	}()
	return c
}

// signal sends a signal. If the process has ended it does nothing.
func (c *child) signal(sig syscall.Signal) { c.cmd.Process.Signal(sig) }

// kill sends SIGKILL and waits until the process has ended.
func (c *child) kill() {
	c.signal(syscall.SIGKILL)
	<-c.done
}

// alive reports whether the process exists, stopped or not.
func (c *child) alive() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// stop stops all threads and waits until they have stopped.
func (c *child) stop(t testing.TB) {
	t.Helper()
	if err := testbed.Pause(c.cmd.Process, true); err != nil || !c.alive() {
		t.Fatalf("%s does not stop: %v", c.Process, err)
	}
}

func (c *child) resume() { c.signal(syscall.SIGCONT) }

// lines returns the lines that the child recorded, and its belief when it ended.
func (c *child) lines() ([]Line, error) {
	lines, err := readJournal(c.file("jsonl"))
	if err != nil {
		return nil, err
	}
	recorded := map[conformance.Leadership]bool{}
	for _, l := range lines {
		if l.Kind == conformance.Believed {
			recorded[l.Leadership()] = true
		}
	}
	for i, name := range c.Elections {
		held := c.board.belief(i)
		e := conformance.Entry{Process: c.Process, Election: name, Kind: conformance.Believed, Term: held.Term, From: held.From, To: held.To}
		if held.ok() && !recorded[e.Leadership()] {
			lines = append(lines, Line{Entry: e})
		}
	}
	return lines, nil
}
