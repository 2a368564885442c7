package elect

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-election/go-election/election"
)

// A child is the command of one leadership and the guard process that runs it. See
// docs/design/elect.md for what each process may believe.
type child struct {
	runner   *runner
	lead     *election.Leadership
	guard    *exec.Cmd
	orders   *os.File            // lines to the guard
	pid      atomic.Int64        // of the command; 0: not started
	deadline time.Duration       // as the guard was told last: until then the lease is trusted, by boottime
	ask      chan syscall.Signal // asks the command to end, while the lease is renewed
	done     chan struct{}       // closed when the guard, the command and all descendants have ended

	asked bool // set by supervise: elect has asked the command to end, at a signal

	// What the guard has reported; valid after done is closed.
	expiring bool // it has asked the command to end, because the lease was about to expire
	ended    bool // how the command has ended is known
	code     int
	err      error // why the command could not be started
}

// startChild starts the guard, which starts the command. lock may be nil. After an error elect ends.
func (r *runner) startChild(lead *election.Leadership, environ []string, lock *os.File) (*child, error) {
	c := &child{runner: r, lead: lead, ask: make(chan syscall.Signal, 1), done: make(chan struct{})}
	ordersIn, ordersOut, err1 := os.Pipe()
	reportsIn, reportsOut, err2 := os.Pipe()
	if err := cmp.Or(err1, err2); err != nil {
		return nil, err
	}
	files := []*os.File{ordersIn, reportsOut}
	if lock != nil {
		files = append(files, lock)
	}
	setup := fmt.Sprintf("%d %d %d %t", r.grace, r.reserve, r.stop, lock != nil)
	c.guard = &exec.Cmd{
		Path: "/proc/self/exe", // this program, even if its file has been replaced
		Args: append([]string{guardName, setup}, r.command...),
		Env:  environ, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		ExtraFiles: files,
		// The guard has its own process group: elect passes on the signals of a terminal.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if isTerminal(os.Stdin) {
		c.guard.Stdin = nil // the kernel stops a background group that reads from a terminal
	}
	if err := c.guard.Start(); err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	ordersIn.Close()
	reportsOut.Close()
	c.orders = ordersOut
	c.extend()
	go c.readReports(reportsIn)
	return c, nil
}

// readReports takes in what the guard reports, and says it.
func (c *child) readReports(reports *os.File) {
	defer close(c.done)
	for s := bufio.NewScanner(reports); s.Scan(); {
		what, rest, _ := strings.Cut(s.Text(), " ")
		number, text, _ := strings.Cut(rest, " ")
		n, _ := strconv.Atoi(number)
		switch what {
		case "started":
			c.pid.Store(int64(n))
			c.runner.say("leads %q in term %d; process %d runs", c.lead.Election(), c.lead.Term, n)
		case "expiring":
			c.expiring = true
			c.runner.say("the lease is about to expire: ending the command")
		case "stopped": // it may have used a terminal, which is for the group of elect
			c.runner.say("the command does nothing, and this process leads on: %v", syscall.Signal(n))
		case "left":
			c.runner.say("the command has ended; what it left is killed: it must stay in the foreground")
		case "denied":
			c.runner.say("process %d belongs to another user, and elect may not kill it without CAP_KILL: "+
				"IT RUNS ON, even when another process leads", n)
		case "exit":
			c.ended, c.code = true, n
		case "error":
			c.ended, c.code, c.err = true, n, fmt.Errorf("%s", text)
		}
	}
	reports.Close()
	if err := c.guard.Wait(); err != nil { // elect has adopted its descendants
		killOrphans(c.runner.successor)
		if !c.ended { // the kernel has killed the command with its guard
			c.code = 128 + int(syscall.SIGKILL)
		}
	}
	c.orders.Close()
}

// killOrphans kills and reaps all descendants of this process but one. The guard has died.
func killOrphans(spared int) {
	for {
		list, err := descendants(os.Getpid())
		left := err != nil
		for _, p := range list {
			if p.pid == spared {
				continue
			}
			if !p.zombie {
				syscall.Kill(p.pid, syscall.SIGKILL)
			}
			if p.parent == os.Getpid() {
				syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
			}
			left = true
		}
		if !left {
			return
		}
		time.Sleep(time.Millisecond) // they have been killed, but may not have ended yet
	}
}

// send sends an order to the guard. If that is stopped and the pipe is full, it is lost: the guard has an
// earlier deadline.
func (c *child) send(word string, n int64) {
	c.orders.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	fmt.Fprintf(c.orders, "%s %d\n", word, n)
}

// extend tells the guard until when the lease is trusted. The clock is read first, so it is never too late.
func (c *child) extend() {
	now := boottime()
	if remaining := c.lead.Remaining(); remaining > 0 && now+remaining > c.deadline {
		c.deadline = now + remaining
		c.send("until", int64(c.deadline))
	}
}

// supervise keeps the guard informed until the command and all its descendants are dead. It ends the command
// when ctx ends, since the leadership is lost, or at a signal on c.ask, while the lease is renewed.
func (c *child) supervise(ctx context.Context) {
	tick := time.NewTicker(c.runner.extendEvery)
	defer tick.Stop()
	lost := ctx.Done()
	var killAt time.Duration // then the guard itself must be stopped, since it has not ended the command
	requestStop := func(s syscall.Signal) {
		c.send("stop", int64(s))
		killAt = boottime() + c.runner.stop + c.runner.reserve
	}
	for {
		select {
		case <-c.done:
			return
		case s := <-c.ask:
			c.asked = true
			requestStop(s)
		case <-lost:
			lost = nil
			requestStop(syscall.SIGTERM)
		case <-tick.C:
			c.extend()
			if now := boottime(); now >= c.deadline-c.runner.reserve/2 || killAt > 0 && now >= killAt {
				c.kill()
			}
		}
	}
}

func (c *child) kill() {
	if pid := c.pid.Load(); pid > 0 {
		syscall.Kill(-int(pid), syscall.SIGKILL)
	}
	killDescendants(c.guard.Process.Pid)
	c.guard.Process.Kill()
}
