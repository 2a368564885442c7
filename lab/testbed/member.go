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

// A Member is a process that takes part in an election. It prints what it believes:
//
//	leader        it leads
//	led 171…      it led at that microsecond of the wall clock, and ever since the
//	              previous such line
//	not leader    it stopped leading
//	idle          the same, noticed by a periodic check
//
// It may print other lines that a test waits for. It ends when its input ends.
type Member struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	ended chan struct{}

	mu      sync.Mutex
	spans   []Span
	leads   bool
	stopped time.Time         // by Stop, last
	last    map[string]string // the last line, by its first word
}

// A Span is a time during which a member believed that it led, by the wall clock of
// this machine. The true time may be longer by some milliseconds.
type Span struct {
	From, To time.Time

	// Stale: the member was stopped while it led, and still believed it when it resumed.
	// A span never includes the time during which the member was stopped.
	Stale bool
}

// StartMember starts a program that behaves like a [Member]. It ends with the test.
func StartMember(t testing.TB, cmd *exec.Cmd) *Member {
	t.Helper()
	Full(t, "kills and stops processes")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe() // closed when the test binary ends, which ends the member
	noError(t, err)
	out, err := cmd.StdoutPipe()
	noError(t, err)
	noError(t, cmd.Start())
	j := &Member{cmd: cmd, in: in, lines: make(chan string, 1000), ended: make(chan struct{}), last: make(map[string]string)}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			j.take(s.Text())
		}
		close(j.lines)
		cmd.Wait()
		close(j.ended)
	}()
	t.Cleanup(func() { j.Kill() })
	return j
}

// take handles a line of the member's output.
func (j *Member) take(line string) {
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
		if last := &j.spans[len(j.spans)-1]; at.After(last.To) { // two threads print, so times may go back
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
		default: // no test reads the lines
		}
	}
}

// stale reports whether, at this time after it was stopped, the member still believes what
// it believed before.
func (j *Member) stale(at time.Time) bool {
	if !j.leads || len(j.spans) == 0 {
		return false
	}
	last := j.spans[len(j.spans)-1]
	return last.Stale || last.From.Before(j.stopped) && at.After(j.stopped)
}

// Leads reports whether the member believes that it leads, by its last line. A belief from
// before Stop does not count.
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

// Last returns the last line that begins with this word, or "". The line may be from
// before Stop.
func (j *Member) Last(word string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last[word]
}

// Led returns the times during which the member believed that it led.
func (j *Member) Led() []Span {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]Span(nil), j.spans...)
}

// Says waits for a line that begins with these words. Members in Java say "started",
// "leader", "not leader", "closed", and for kinds "node" and "cached" also "waits".
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

// Who waits until the member knows n participants, and returns their ids. A star follows
// the leader's id.
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

// Resign makes the member resign and end, and waits for it. After half a minute Resign
// kills it.
func (j *Member) Resign() {
	j.in.Close()
	select {
	case <-j.ended:
	case <-time.After(30 * time.Second):
		j.Kill()
	}
}

// Kill kills the member with SIGKILL.
func (j *Member) Kill() {
	j.cmd.Process.Kill()
	<-j.ended
	j.mu.Lock()
	defer j.mu.Unlock()
	j.leads = false
}

// Stop stops the member until Continue. It discards unread lines: Says then waits for
// lines from after Continue.
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

// Continue resumes a stopped member.
func (j *Member) Continue(t testing.TB) { j.freeze(t, false) }

func (j *Member) freeze(t testing.TB, on bool) {
	t.Helper()
	noError(t, freeze(j.cmd.Process, on))
}
