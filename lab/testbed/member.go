package testbed

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Member is a process that takes part in an election. It prints what it believes:
//
//	led 171…      it led at that microsecond of the wall clock, and ever since the
//	              previous such line
//	not leader    it stopped leading
//	idle          the same, noticed by a periodic check
//
// It may print other lines that a test waits for. It ends when its input ends.
type Member struct {
	ID   string
	Ours bool // of this module: it keeps deadlines, so all its beliefs count

	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{}

	mu      sync.Mutex
	spans   []Span
	leads   bool
	stopped time.Time // by Stop, last
	said    []string  // the other lines
	heard   int       // how many of them Says has passed
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
func StartMember(t testing.TB, id string, cmd *exec.Cmd) *Member {
	t.Helper()
	Full(t, "kills and stops processes")
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	in, err := cmd.StdinPipe() // closed when the test binary ends, which ends the member
	NoError(t, err)
	out, err := cmd.StdoutPipe()
	NoError(t, err)
	NoError(t, cmd.Start())
	t.Logf("%s starts", id)
	j := &Member{ID: id, t: t, cmd: cmd, in: in, ended: make(chan struct{})}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			j.take(s.Text())
		}
		cmd.Wait()
		close(j.ended)
	}()
	t.Cleanup(func() { // a guard would write into what the test removes next
		guards := Children(j.Pid(), "electionguard\x00")
		j.kill()
		for _, pid := range guards {
			if guard, err := os.FindProcess(pid); err == nil {
				guard.Kill()
			}
		}
	})
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
	case line == "idle", line == "not leader":
		j.leads = false
	default:
		j.said = append(j.said, line)
	}
}

// stale reports whether, at this time, the member still believes what it believed before it was stopped.
func (j *Member) stale(at time.Time) bool {
	if !j.leads || len(j.spans) == 0 {
		return false
	}
	last := j.spans[len(j.spans)-1]
	return last.Stale || last.From.Before(j.stopped) && at.After(j.stopped)
}

// Leads reports whether the member believes that it leads, and not only from before Stop.
func (j *Member) Leads() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.leads && !j.stale(time.Now())
}

// Last returns the last line that begins with this word, or "". It may be from before Stop.
func (j *Member) Last(word string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last(word)
}

func (j *Member) last(word string) string {
	for _, line := range slices.Backward(j.said) {
		if first, _, _ := strings.Cut(line, " "); first == word {
			return line
		}
	}
	return ""
}

// Pid returns the number of the member's process.
func (j *Member) Pid() int { return j.cmd.Process.Pid }

// Ended reports whether the process has ended.
func (j *Member) Ended() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// Led returns the times during which the member believed that it led.
func (j *Member) Led() []Span {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.spans)
}

// memberLimit is for steps that take some seconds on an idle machine.
const memberLimit = 3 * time.Minute

// await waits until the member is as it should be. The function is called with the member's lock.
func (j *Member) await(what string, is func() bool) {
	j.t.Helper()
	Eventually(j.t, memberLimit, j.ID+" "+what, func() error {
		j.mu.Lock()
		defer j.mu.Unlock()
		switch {
		case is():
			return nil
		case j.Ended():
			return fmt.Errorf("it has ended: %w", errGiveUp)
		}
		return fmt.Errorf("it has said %q", j.said[max(0, len(j.said)-3):])
	})
}

// Says waits for another line that begins with these words.
func (j *Member) Says(words string) (line string) {
	j.t.Helper()
	j.await(fmt.Sprintf("to say %q", words), func() bool {
		for j.heard < len(j.said) {
			line = j.said[j.heard]
			j.heard++
			if strings.HasPrefix(line, words) {
				return true
			}
		}
		return false
	})
	return line
}

// Who waits until the member knows n participants, and returns their ids. A star follows the leader's.
func (j *Member) Who(n int) (line string) {
	j.t.Helper()
	Eventually(j.t, memberLimit, fmt.Sprintf("%d participants", n), func() error {
		fmt.Fprintln(j.in, "who")
		if line = strings.TrimPrefix(j.Says("participants"), "participants "); len(strings.Fields(line)) < n {
			return fmt.Errorf("there are %s", line)
		}
		return nil
	})
	return line
}

// Follows waits until the member follows a leader whose id and address begin with prefix. It reads the last
// line about that, because a member prints it only on a change.
func (j *Member) Follows(prefix string) {
	j.t.Helper()
	last := "follows " + prefix
	j.await("to say "+last, func() bool { return strings.HasPrefix(j.last("follows"), last) })
}

// FindsOut waits until the member no longer believes that it leads. One that was stopped may believe so anew:
// only what it believed before must end.
func (j *Member) FindsOut() {
	j.t.Helper()
	j.await("to find out that it does not lead", func() bool {
		return !j.leads || !j.stopped.IsZero() && !j.stale(time.Now())
	})
}

// Resign makes the member resign and end, and waits for it. After half a minute Resign kills it.
func (j *Member) Resign() {
	j.t.Logf("%s is asked to end", j.ID)
	j.in.Close()
	select {
	case <-j.ended:
	case <-time.After(30 * time.Second):
		j.kill()
	}
}

// Kill kills the member with SIGKILL.
func (j *Member) Kill() {
	j.t.Logf("kill -9 %s", j.ID)
	j.kill()
}

func (j *Member) kill() {
	j.cmd.Process.Kill()
	<-j.ended
	j.mu.Lock()
	defer j.mu.Unlock()
	j.leads = false
}

// Stop stops the member until Continue. Says then waits for lines from after Continue.
func (j *Member) Stop() {
	j.t.Helper()
	j.t.Logf("%s is stopped", j.ID)
	j.mu.Lock()
	j.stopped = time.Now()
	j.mu.Unlock()
	NoError(j.t, Pause(j.cmd.Process, true))
	j.mu.Lock()
	defer j.mu.Unlock()
	j.heard = len(j.said)
}

// Continue resumes a stopped member.
func (j *Member) Continue() {
	j.t.Helper()
	j.t.Logf("%s resumes", j.ID)
	NoError(j.t, Pause(j.cmd.Process, false))
}
