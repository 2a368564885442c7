//go:build linux || darwin

package file_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/file"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/internal/testbed"
)

// The test binary is also the program of the processes that it starts.
const (
	childDir = "GO_ELECTION_TEST_FILE_DIR"
	childID  = "GO_ELECTION_TEST_FILE_ID"
	childTTL = "GO_ELECTION_TEST_FILE_TTL"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := campaign(dir, os.Getenv(childID)); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	flag.Set("test.parallel", "8") // nearly all of the time they wait
	os.Exit(m.Run())
}

// campaign is what a child does: it says when it leads and when it does not. The
// word "spawn" on its input makes it start a process that outlives it.
func campaign(dir, id string) error {
	store, err := file.Open(context.Background(), file.Options{Dir: dir})
	if err != nil {
		return err
	}
	ttl, err := time.ParseDuration(os.Getenv(childTTL))
	if err != nil {
		return err
	}
	m, err := election.New(store, &election.Options{ID: id, TTL: ttl})
	if err != nil {
		return err
	}
	e, err := m.Join("jobs")
	if err != nil {
		return err
	}
	if err := e.Lead(func(ctx context.Context, l *election.Leadership) error {
		fmt.Println("leads", l.Term, time.Now().UnixNano())
		<-ctx.Done()
		fmt.Println("lost", l.Term, time.Now().UnixNano())
		return nil
	}); err != nil {
		return err
	}
	fmt.Println("ready", 0, 0)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if in.Text() == "spawn" {
			c := exec.Command("sleep", "600")
			if err := c.Start(); err != nil {
				return err
			}
			fmt.Println("spawned", c.Process.Pid, 0)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // its input ended: in order
	defer cancel()
	return m.Close(ctx)
}

// A process is a child that campaigns.
type process struct {
	*exec.Cmd
	id string
	in io.WriteCloser
}

// said is a line of a child: what, of which term or process, and when.
type said struct {
	by   *process
	what string
	n    uint64
	at   time.Time
}

// ears hear all children of a test, in the order in which they speak.
type ears struct {
	said chan said
	kept []said // heard while something else was waited for
}

func listen() *ears { return &ears{said: make(chan said, 100)} }

// start starts a child, and waits until it campaigns.
func start(t *testing.T, dir, id string, ttl time.Duration, e *ears) {
	t.Helper()
	testbed.Full(t, "kills and stops processes")
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childDir+"="+dir, childID+"="+id, childTTL+"="+ttl.String())
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{c, id, in}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			f := strings.Fields(lines.Text())
			if len(f) != 3 {
				fmt.Fprintln(os.Stderr, id, "says:", lines.Text())
				continue
			}
			n, _ := strconv.ParseUint(f[1], 10, 64)
			at, _ := strconv.ParseInt(f[2], 10, 64)
			e.said <- said{p, f[0], n, time.Unix(0, at)}
		}
	}()
	t.Cleanup(func() {
		in.Close()
		c.Process.Kill()
		<-done
		c.Wait()
	})
	e.hear(t, "ready")
}

// hear waits until some child says what.
func (e *ears) hear(t *testing.T, what string) said {
	t.Helper()
	for i, s := range e.kept {
		if s.what == what {
			e.kept = slices.Delete(e.kept, i, i+1)
			return s
		}
	}
	for deadline := time.After(soon); ; {
		select {
		case s := <-e.said:
			if s.what == what {
				return s
			}
			e.kept = append(e.kept, s)
		case <-deadline:
			t.Fatalf("no process says %q within %v; they say %v", what, soon, e.kept)
		}
	}
}

// local is a directory of this machine: in memory, since a disk may be busy for longer
// than a TTL.
func local(t *testing.T) string {
	dir, err := os.MkdirTemp(memory(t), "go-election-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// On a machine with other things to do.
const (
	soon     = 90 * time.Second
	longLed  = 30 * time.Second // a TTL that nobody loses by being slow
	shortLed = 5 * time.Second
)

func TestAKilledLeaderIsReplacedInMilliseconds(t *testing.T) {
	t.Parallel()
	dir, ch := local(t), listen()
	for i := range 3 {
		start(t, dir, fmt.Sprintf("p%d", i), longLed, ch)
	}
	var gaps []time.Duration
	last := ch.hear(t, "leads")
	for i := range 9 {
		start(t, dir, fmt.Sprintf("q%d", i), longLed, ch) // in place of the one that is killed
		killed := time.Now()
		if err := last.by.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		next := ch.hear(t, "leads")
		if next.n <= last.n {
			t.Fatalf("expected a term above %d after a kill, got %d", last.n, next.n)
		}
		gaps = append(gaps, next.at.Sub(killed))
		last = next
	}
	slices.Sort(gaps)
	t.Logf("from kill -9 to the next leader's first line: median %v, worst %v", gaps[len(gaps)/2], gaps[len(gaps)-1])
	// A third of a TTL is what reading now and then would cost; the bar of 10 ms is
	// for the bench, on a machine that does nothing else.
	if median := gaps[len(gaps)/2]; median > longLed/10 {
		t.Errorf("expected the kernel to tell of a death at once, median %v of %v", median, gaps)
	}
}

func TestALeaderThatEndsInOrderHandsOver(t *testing.T) {
	t.Parallel()
	dir, ch := local(t), listen()
	start(t, dir, "a", longLed, ch)
	first := ch.hear(t, "leads")
	start(t, dir, "b", longLed, ch)
	began := time.Now()
	first.by.in.Close()
	next := ch.hear(t, "leads")
	t.Logf("from the end of its input to the next leader: %v", next.at.Sub(began))
	if next.by == first.by || next.n <= first.n {
		t.Errorf("expected another leader with a term above %d, got %s with %d", first.n, next.by.id, next.n)
	}
}

func TestChildrenDoNotInheritTheLock(t *testing.T) {
	t.Parallel()
	dir, ch := local(t), listen()
	start(t, dir, "a", longLed, ch)
	first := ch.hear(t, "leads")
	io.WriteString(first.by.in, "spawn\n")
	child := int(ch.hear(t, "spawned").n)
	t.Cleanup(func() { syscall.Kill(child, syscall.SIGKILL) })
	start(t, dir, "b", longLed, ch)
	first.by.Process.Kill()
	ch.hear(t, "leads")
	if err := syscall.Kill(child, 0); err != nil {
		t.Errorf("expected the child to outlive the leader, else this test shows nothing: %v", err)
	}
}

func TestAStoppedLeaderKeepsItsLockAndDoesNotLead(t *testing.T) {
	t.Parallel()
	dir, ch := local(t), listen()
	start(t, dir, "a", shortLed, ch)
	first := ch.hear(t, "leads")
	start(t, dir, "b", shortLed, ch)
	first.by.Process.Signal(syscall.SIGSTOP)
	select {
	case s := <-ch.said:
		t.Fatalf("expected nobody to say anything while the leader is stopped, %s says %s", s.by.id, s.what)
	case <-time.After(2 * shortLed):
	}
	first.by.Process.Signal(syscall.SIGCONT)
	lost := ch.hear(t, "lost")
	if lost.by != first.by || lost.n != first.n {
		t.Errorf("expected the stopped leader to find that its leadership is over, got %+v", lost)
	}
	next := ch.hear(t, "leads")
	if next.n <= first.n || next.at.Before(lost.at) {
		t.Errorf("expected a new leadership after the old one, got %+v after %+v", next, lost)
	}
	// Stopped for good, and killed while it is stopped.
	next.by.Process.Signal(syscall.SIGSTOP)
	next.by.Process.Kill()
	if last := ch.hear(t, "leads"); last.by == next.by {
		t.Errorf("expected the other process to lead, got %s", last.by.id)
	}
}
