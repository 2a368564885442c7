package testbed

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Member is a process that takes part in an election, and says on its output what
// it believes:
//
//	leader        it leads
//	led 171…      it has led at that microsecond of the wall clock, all the time since
//	              it said so last
//	not leader    it does not lead any more
//	idle          the same, found out by asking now and then
//
// and anything else that a test may wait for. It ends with its input.
type Member struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	ended chan struct{}

	mu      sync.Mutex
	spans   []Span
	leads   bool
	stopped time.Time         // by Stop, last
	last    map[string]string // what it said last, by its first word
}

// A Span is a time during which a member has believed to lead, by the wall clock of
// this machine. It may have been longer by some milliseconds.
type Span struct {
	From, To time.Time

	// Stale: the member was stopped while it led, and has gone on with that belief.
	// A span never includes the time during which it stood still.
	Stale bool
}

// StartMember starts a program that behaves as a [Member] does. It ends with the test.
func StartMember(t testing.TB, cmd *exec.Cmd) *Member {
	t.Helper()
	Full(t, "kills and stops processes")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe() // it ends with its input, and so with the test binary
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	j := &Member{cmd: cmd, in: in, lines: make(chan string, 1000), ended: make(chan struct{}), last: make(map[string]string)}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			j.said(s.Text())
		}
		close(j.lines)
		cmd.Wait()
		close(j.ended)
	}()
	t.Cleanup(func() { j.Kill() })
	return j
}

// said takes in a line.
func (j *Member) said(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var micros int64
	switch _, err := fmt.Sscanf(line, "led %d", &micros); {
	case err == nil:
		at := time.UnixMicro(micros)
		stale := j.stale(at)
		if !j.leads || stale && !j.spans[len(j.spans)-1].Stale {
			j.spans = append(j.spans, Span{at, at, stale})
		}
		j.leads = true
		if last := &j.spans[len(j.spans)-1]; at.After(last.To) { // two threads of it tell
			last.To = at
		}
	case line == "idle":
		j.leads = false
	default:
		if line == "not leader" {
			j.leads = false
		}
		word, _, _ := strings.Cut(line, " ")
		j.last[word] = line
		select {
		case j.lines <- line:
		default: // nobody listens
		}
	}
}

// stale reports whether the member is in a belief from before it was stopped, at a time
// after that.
func (j *Member) stale(at time.Time) bool {
	if !j.leads || len(j.spans) == 0 {
		return false
	}
	last := j.spans[len(j.spans)-1]
	return last.Stale || last.From.Before(j.stopped) && at.After(j.stopped)
}

// Leads reports whether it believed to lead when it last said so. A belief from before
// Stop does not count.
func (j *Member) Leads() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.leads && !j.stale(time.Now())
}

// Believes is [Member.Leads], but a belief from before Stop counts.
func (j *Member) Believes() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.leads
}

// Last returns the last line that has begun with this word, or "". It may be from
// before Stop.
func (j *Member) Last(word string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last[word]
}

// Led returns when it has believed to lead.
func (j *Member) Led() []Span {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]Span(nil), j.spans...)
}

// Says waits for a line that begins with these words. In Java these are "started",
// "leader", "not leader", "waits" (a node's member does), "closed".
func (j *Member) Says(t testing.TB, words string) string {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		select {
		case line, ok := <-j.lines:
			if !ok {
				t.Fatalf("the member has ended; want it to say %q", words)
			}
			if strings.HasPrefix(line, words) {
				return line
			}
		case <-limit:
			t.Fatalf("the member has not said %q within two minutes", words)
		}
	}
}

// Who returns the ids that it takes for those of the participants, with a star
// behind the leader's, as soon as there are n.
func (j *Member) Who(t testing.TB, n int) (line string) {
	t.Helper()
	Eventually(t, time.Minute, fmt.Sprintf("%d participants", n), func() error {
		fmt.Fprintln(j.in, "who")
		if line = strings.TrimPrefix(j.Says(t, "participants"), "participants "); len(strings.Fields(line)) < n {
			return fmt.Errorf("there are %s", line)
		}
		return nil
	})
	return line
}

// Resign makes it leave in order, and waits until it has. After half a minute it is
// killed.
func (j *Member) Resign() {
	j.in.Close()
	select {
	case <-j.ended:
	case <-time.After(30 * time.Second):
		j.Kill()
	}
}

// Kill ends it as kill -9 does.
func (j *Member) Kill() {
	j.cmd.Process.Kill()
	<-j.ended
	j.mu.Lock()
	defer j.mu.Unlock()
	j.leads = false
}

// Stop makes it stand still until Continue. What it has said before is forgotten: Says
// waits for what it says when it goes on.
func (j *Member) Stop(t testing.TB) {
	t.Helper()
	j.mu.Lock()
	j.stopped = time.Now()
	j.mu.Unlock()
	j.freeze(t, true)
	for {
		select {
		case _, ok := <-j.lines:
			if ok {
				continue
			}
		default:
		}
		return
	}
}

// Continue ends Stop.
func (j *Member) Continue(t testing.TB) { j.freeze(t, false) }

func (j *Member) freeze(t testing.TB, on bool) {
	t.Helper()
	if err := freeze(j.cmd.Process, on); err != nil {
		t.Fatal(err)
	}
}
