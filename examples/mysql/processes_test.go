package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

const (
	ttl      = 2 * time.Second
	patience = 3 * time.Minute // bounds every wait, on a very busy machine
)

// Three processes elect a leader on a real server. The test kills the leader, and another
// process takes over. A fourth process takes over when all three are dead, and hands over to
// a fifth at once when it is asked to end.
func TestProcessesElectAndTakeOver(t *testing.T) {
	testbed.Full(t, "kills and stops processes")
	binary := filepath.Join(t.TempDir(), "candidate")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		d := testbed.Shared(t, k).Database(t)
		f := &fleet{t: t, binary: binary, leads: make(chan string, 100)}
		f.start("admin", d.Admin.FormatDSN(), "-create").Wait()
		for _, id := range []string{"one", "two", "three"} {
			f.candidate(id, d.User.FormatDSN())
		}
		first := f.leader()
		f.signal(first, syscall.SIGKILL)
		killed := time.Now()
		second := f.leader()
		t.Logf("%s was killed, %s leads %.2f TTL later", first, second, time.Since(killed).Seconds()/ttl.Seconds())

		f.candidate("four", d.User.FormatDSN())
		for _, id := range []string{"one", "two", "three"} {
			f.signal(id, syscall.SIGKILL)
		}
		if id := f.leader(); id != "four" {
			t.Fatalf("%s leads, expected the fourth", id)
		}

		f.candidate("five", d.User.FormatDSN())
		testbed.Eventually(t, patience, "five to see the leader", func() error {
			if !f.said("five", `elected "four"`) {
				return fmt.Errorf("five has said %q", f.lines("five"))
			}
			return nil
		})
		f.signal("four", syscall.SIGTERM)
		asked := time.Now()
		if id := f.leader(); id != "five" {
			t.Fatalf("%s leads, expected the fifth", id)
		}
		t.Logf("four was asked to end, five leads %v later", time.Since(asked))
	})
}

// A wrong password needs an operator: the program ends at once, as that of the README does.
func TestAWrongPasswordEndsTheProgram(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		c := testbed.Shared(t, k).Database(t).User.Clone()
		c.Passwd = "wrong"
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := run(ctx, c.FormatDSN(), "demo", "", ttl, false); !errors.Is(err, backend.ErrDenied) || ctx.Err() != nil {
			t.Errorf("%v, want the denial", err)
		}
	})
}

// A fleet holds the processes of one election.
type fleet struct {
	t      *testing.T
	binary string
	leads  chan string
	all    []*process
}

type process struct {
	id     string
	cmd    *exec.Cmd
	output chan string
	said   []string
	ending bool // the test has told it to end
}

func (f *fleet) start(id, dsn string, args ...string) *exec.Cmd {
	f.t.Helper()
	cmd := exec.Command(f.binary, args...)
	cmd.Env = append(os.Environ(), "DSN="+dsn)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	p := &process{id: id, cmd: cmd, output: make(chan string, 1000)}
	f.all = append(f.all, p)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := bufio.NewScanner(out); s.Scan(); {
			if p.output <- s.Text(); strings.HasPrefix(s.Text(), "I lead ") {
				f.leads <- id
			}
		}
	}()
	f.t.Cleanup(func() {
		cmd.Process.Kill()
		<-done
		cmd.Wait()
	})
	return cmd
}

func (f *fleet) candidate(id, dsn string) {
	f.start(id, dsn, "-id", id, "-ttl", ttl.String())
}

// leader waits until a process says that it leads. It ignores processes that were told to
// end: their lines are older.
func (f *fleet) leader() string {
	f.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case id := <-f.leads:
			if !f.process(id).ending {
				return id
			}
		case <-limit:
			f.t.Fatalf("nobody leads after %v", patience)
		}
	}
}

func (f *fleet) process(id string) *process {
	return f.all[slices.IndexFunc(f.all, func(p *process) bool { return p.id == id })]
}

// signal tells a process to end.
func (f *fleet) signal(id string, sig syscall.Signal) {
	p := f.process(id)
	p.ending = true
	p.cmd.Process.Signal(sig)
}

func (f *fleet) lines(id string) []string {
	p := f.process(id)
	for len(p.output) > 0 {
		p.said = append(p.said, <-p.output)
	}
	return p.said
}

func (f *fleet) said(id, text string) bool {
	return strings.Contains(strings.Join(f.lines(id), "\n"), text)
}
