//go:build linux

package chaos

import (
	"encoding/json"
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
	*testbed.Member
	place int // of the member; its replacement has the same
	board *Board
}

// startChild starts the test binary again, as a writer.
func startChild(t testing.TB, r Role, place int) *child {
	t.Helper()
	text, err := json.Marshal(r)
	testbed.NoError(t, err)
	board, err := openBoard(r.file("board"))
	testbed.NoError(t, err)
	log, err := os.Create(r.file("log"))
	testbed.NoError(t, err)
	defer log.Close()
	cmd := exec.Command(os.Args[0])
	for _, v := range os.Environ() { // the configuration comes from the role alone
		if !strings.HasPrefix(v, "ELECTION_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, RoleVariable+"="+string(text), "GOMAXPROCS=2")
	cmd.Stderr = log
	t.Cleanup(func() {
		if text, _ := os.ReadFile(r.file("log")); t.Failed() {
			t.Logf("%s wrote:\n%.3000s", r.Process, text)
		}
	})
	return &child{r, testbed.StartMember(t, r.Process, cmd), place, board}
}

// resume is Continue that does not wait until the process runs.
func (c *child) resume() { syscall.Kill(c.Pid(), syscall.SIGCONT) }

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
		e := held.entry(c.Process, name)
		if held.ok() && !recorded[e.Leadership()] {
			lines = append(lines, Line{Entry: e})
		}
	}
	return lines, nil
}
