package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/internal/testbed"
)

const ttl = 2 * time.Second

// Three processes elect a leader on a real server. It is killed, and another takes
// over. A fourth takes over when all three are dead, and hands over at once when
// it is asked to end.
func TestProcessesElectAndTakeOver(t *testing.T) {
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
		first := f.leader(ttl)
		f.signal(first, syscall.SIGKILL)
		killed := time.Now()
		second := f.leader(2 * ttl)
		if second == first {
			t.Fatalf("%s leads after it was killed", first)
		}
		t.Logf("%s was killed, %s leads %.2f TTL later", first, second, time.Since(killed).Seconds()/ttl.Seconds())

		f.candidate("four", d.User.FormatDSN())
		for _, id := range []string{"one", "two", "three"} {
			f.signal(id, syscall.SIGKILL)
		}
		if id := f.leader(2*ttl + 5*time.Second); id != "four" {
			t.Fatalf("%s leads, expected the fourth", id)
		}

		f.candidate("five", d.User.FormatDSN())
		testbed.Eventually(t, 10*time.Second, "five to see the leader", func() error {
			if !f.said("five", `elected "four"`) {
				return fmt.Errorf("five has said %q", f.lines("five"))
			}
			return nil
		})
		f.signal("four", syscall.SIGTERM)
		asked := time.Now()
		if id := f.leader(ttl); id != "five" {
			t.Fatalf("%s leads, expected the fifth", id)
		}
		t.Logf("four was asked to end, five leads %v later", time.Since(asked))
	})
}

// A fleet is the processes of one election.
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
	heard  []string
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

// leader waits until a process says that it leads.
func (f *fleet) leader(limit time.Duration) string {
	f.t.Helper()
	select {
	case id := <-f.leads:
		return id
	case <-time.After(limit + 3*time.Second): // of a busy machine
		f.t.Fatalf("nobody leads after %v", limit)
	}
	return ""
}

func (f *fleet) signal(id string, sig syscall.Signal) {
	for _, p := range f.all {
		if p.id == id {
			p.cmd.Process.Signal(sig)
		}
	}
}

func (f *fleet) lines(id string) []string {
	for _, p := range f.all {
		for p.id == id && len(p.output) > 0 {
			p.heard = append(p.heard, <-p.output)
		}
		if p.id == id {
			return p.heard
		}
	}
	return nil
}

func (f *fleet) said(id, text string) bool {
	return strings.Contains(strings.Join(f.lines(id), "\n"), text)
}
