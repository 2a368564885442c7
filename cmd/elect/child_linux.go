package main

import (
	"bufio"
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

// A child is the command of one leadership, as elect sees it through its guard.
type child struct {
	limits
	guard  *exec.Cmd
	orders *os.File
	pid    atomic.Int64  // of the command; 0: not started
	until  time.Duration // what the guard was told last
	said   chan report
	done   chan struct{} // closed when guard, command and all descendants are gone

	asked bool // to end, by elect or, since the lease runs out, by the guard; told by tend

	// After done.
	ended bool // the command has said how it ended
	code  int
	err   error // why it could not be started
}

// A report is a line of the guard.
type report struct {
	what string
	n    int
	text string
}

// startChild starts the guard, which starts the command. lock may be nil.
func startChild(lead *election.Leadership, l limits, command, environ []string, lock *os.File) (*child, error) {
	c := &child{limits: l, said: make(chan report, 8), done: make(chan struct{})}
	ordersIn, ordersOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	reportsIn, reportsOut, err := os.Pipe()
	if err != nil {
		ordersIn.Close()
		ordersOut.Close()
		return nil, err
	}
	number := func(d time.Duration) string { return strconv.FormatInt(int64(d), 10) }
	shared := "none"
	files := []*os.File{ordersIn, reportsOut}
	if lock != nil {
		files, shared = append(files, lock), "lock"
	}
	c.guard = &exec.Cmd{
		Path: "/proc/self/exe", // this very program, though the file may have been replaced
		Args: append([]string{guardName, number(l.grace), number(l.reserve), number(l.stop), shared}, command...),
		Env:  environ, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		ExtraFiles: files,
		// A group of its own: what a terminal sends to ours is for us to pass on.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if isTerminal(os.Stdin) {
		c.guard.Stdin = nil // a group in the background that reads a terminal is stopped
	}
	c.orders = ordersOut
	err = c.guard.Start()
	ordersIn.Close()
	reportsOut.Close()
	if err != nil {
		ordersOut.Close()
		reportsIn.Close()
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	c.extend(lead)
	go c.listen(reportsIn)
	return c, nil
}

// listen hears the guard until it ends.
func (c *child) listen(reports *os.File) {
	defer close(c.done)
	for s := bufio.NewScanner(reports); s.Scan(); {
		what, rest, _ := strings.Cut(s.Text(), " ")
		number, text, _ := strings.Cut(rest, " ")
		n, _ := strconv.Atoi(number)
		switch what {
		case "started":
			c.pid.Store(int64(n))
		case "exit":
			c.ended, c.code = true, n
		case "error":
			c.ended, c.code, c.err = true, n, fmt.Errorf("%s", text)
		}
		c.said <- report{what, n, text}
	}
	reports.Close()
	if err := c.guard.Wait(); err != nil { // killed, or it went wrong: its orphans are ours
		c.sweep()
	}
	c.orders.Close()
}

// sweep kills and reaps everything that descends from this process. It is for
// orphans of a guard that has died; there is nobody else then.
func (c *child) sweep() {
	for {
		killBelow(os.Getpid())
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err == syscall.ECHILD {
			return
		} else if pid == 0 {
			time.Sleep(time.Millisecond) // they are dying
		}
	}
}

// order tells the guard something. If the guard is stopped and the pipe full, it is
// not told, and knows an older instant, which is a safe one.
func (c *child) order(word string, n int64) {
	c.orders.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	fmt.Fprintf(c.orders, "%s %d\n", word, n)
}

// extend tells the guard until when the lease is trusted. The clock is read first.
func (c *child) extend(lead *election.Leadership) {
	now := boottime()
	if left := lead.Remaining(); left > 0 && now+left > c.until {
		c.until = now + left
		c.order("until", int64(c.until))
	}
}

// tend keeps the guard informed until the command and all that it started are dead.
// Lost trust ends it; so does a word on stop, while the lease is renewed.
func (c *child) tend(ctx context.Context, lead *election.Leadership, every time.Duration, stop <-chan syscall.Signal, hear func(report)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	lost := ctx.Done()
	var killAt time.Duration // if the guard, asked to, has not ended the command: it is stopped
	ask := func(s syscall.Signal) {
		c.order("stop", int64(s))
		killAt = boottime() + c.stop + c.reserve
	}
	heard := func(r report) {
		c.asked = c.asked || r.what == "expiring"
		hear(r)
	}
	for {
		select {
		case <-c.done:
			for len(c.said) > 0 {
				heard(<-c.said)
			}
			return
		case r := <-c.said:
			heard(r)
		case s := <-stop:
			c.asked = true
			ask(s)
		case <-lost:
			lost = nil
			ask(syscall.SIGTERM)
		case <-tick.C:
			c.extend(lead)
			if now := boottime(); now >= c.until-c.reserve/2 || killAt > 0 && now >= killAt {
				c.kill()
			}
		}
	}
}

// kill kills the command, its descendants and the guard.
func (c *child) kill() {
	if pid := c.pid.Load(); pid > 0 {
		syscall.Kill(-int(pid), syscall.SIGKILL)
	}
	killBelow(c.guard.Process.Pid)
	c.guard.Process.Kill()
}

// signal passes a signal on to the command.
func (c *child) signal(s syscall.Signal) { c.order("signal", int64(s)) }

// reapOrphans reaps what this process has adopted, as process 1 must. The guard is
// waited for by its own name.
func reapOrphans(ctx context.Context, born <-chan os.Signal, guard func() int) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-born:
		}
		own := guard()
		for _, p := range processes() {
			if p.parent == os.Getpid() && p.zombie && p.pid != own {
				syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
			}
		}
	}
}
