package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// # Why the command is dead before trust ends
//
// "elect run" holds the lease, and a second process, the guard, holds the command.
// What can each believe?
//
//   - Elect tells the guard until when the lease is trusted, as an instant of a
//     clock that both read (CLOCK_BOOTTIME, read before Leadership.Remaining is asked:
//     so the instant is no later than the truth). Trust only ever grows while a leadership
//     lasts, so an old instant is a safe one. After a loss, or while stepping down,
//     Remaining is 0 and nothing is said any more: the last instant holds, since the
//     lease is released after the lead function has returned, and never before the
//     deadline after a loss.
//   - The guard kills at that instant less a reserve, by its own timer: whether the
//     store hangs, or elect is stopped, starved or dead. It asks nobody.
//   - If elect dies, its end of the pipe closes, and the guard kills at once. On the
//     stores with a TTL nobody can have the lease before the deadline. On the file
//     backend the kernel would free it with elect; so guard and command inherit the
//     lock, and it is free when the last of them is gone.
//   - If the guard dies, the kernel kills the command (PR_SET_PDEATHSIG), its
//     descendants become children of elect, which kills them before it lets the
//     lease go.
//   - If the guard is stopped, elect kills command and guard by its own timer.
//
// All descendants are meant, also those in process groups or sessions of their own:
// guard and elect adopt orphans (PR_SET_CHILD_SUBREAPER), and none can become another
// user's, whom elect may not kill (PR_SET_NO_NEW_PRIVS). So nobody gets away, and the lead
// function returns when the last is dead.
//
// What this cannot do: if elect and guard are both stopped (a frozen container, a
// suspended machine), the command is stopped with them or runs on, and may do one
// more thing when all wake up, before the guard has looked at the clock. If both are
// killed at the same instant, its descendants, though not the command itself, run
// on where the store has a TTL; the command does too if elect is killed while the
// guard is stopped. Descendants that make another and end, faster than /proc is read,
// are missed. If elect is root without CAP_KILL, who has become another user is not
// killed. A process in an uninterruptible sleep dies late. A program that must not
// write late hands ELECTION_TERM to what it writes to.

// guardName is the name, as argument 0, by which elect starts itself as the guard.
const guardName = "elect-guard"

// Files that the guard inherits after standard input, output and error.
const (
	guardOrders  = 3 // lines from elect
	guardReports = 4 // lines to elect
	guardLock    = 5 // of the file backend, if it is there
)

// A guard runs one command for one leadership.
type guard struct {
	limits
	until   time.Duration // trust ends, on CLOCK_BOOTTIME
	child   int
	stopped bool          // SIGTERM was sent
	killAt  time.Duration // if stopped
	gone    bool          // the command itself has ended
	denied  bool          // one of its descendants may not be killed, which was reported
	reports *os.File
}

// guardMain is the whole guard. The arguments are its limits and the command.
func guardMain(args []string) int {
	runtime.LockOSThread() // the kernel kills the command when the thread that made it ends
	prctl(prSetName, nameOf(guardName))
	// Not ignored, which the command would inherit: a terminal, systemd or pkill
	// may mean elect and all that it started, and elect will say what to do.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE)
	if !signal.Ignored(syscall.SIGHUP) { // nohup, which the command is to inherit
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	g := &guard{reports: os.NewFile(guardReports, "reports")}
	orders := os.NewFile(guardOrders, "orders")
	syscall.CloseOnExec(guardOrders)
	syscall.CloseOnExec(guardReports)
	if len(args) < 6 {
		fmt.Fprintln(os.Stderr, "elect: the guard is started by elect run")
		return exitElect
	}
	for i, d := range []*time.Duration{&g.grace, &g.reserve, &g.stop} {
		n, err := strconv.ParseInt(args[1+i], 10, 64)
		if err != nil {
			return exitElect
		}
		*d = time.Duration(n)
	}
	if args[4] == "lock" {
		// Out of the way of a command that uses 3, 4 and 5 itself, and not closed on exec.
		syscall.Syscall(syscall.SYS_FCNTL, guardLock, syscall.F_DUPFD, 100)
		syscall.Close(guardLock)
	}
	if err := errors.Join(adoptOrphans(), keepUser()); err != nil {
		g.report("error", exitElect, err)
		return 0
	}
	g.run(orders, args[5:])
	return 0
}

func (g *guard) report(what string, n int, err error) {
	text := ""
	if err != nil {
		text = " " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	fmt.Fprintf(g.reports, "%s %d%s\n", what, n, text)
}

// run starts the command and returns when it and all that it has left are dead.
func (g *guard) run(orders io.Reader, command []string) {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(orders); s.Scan(); {
			lines <- s.Text()
		}
	}()
	g.obey(<-lines) // until when
	if g.until-boottime() <= g.grace+g.reserve {
		g.report("late", 0, nil)
		return
	}
	if err := g.start(command); err != nil {
		g.report("error", codeOf(err), err)
		return
	}
	g.report("started", g.child, nil)

	ends := make(chan end)
	go reap(ends)
	timer := time.NewTimer(0)
	for {
		select {
		case line, ok := <-lines:
			if !ok { // elect is gone
				lines, g.stopped, g.killAt = nil, true, 0
			}
			g.obey(line)
		case e, ok := <-ends:
			if !ok {
				return // nobody is left
			}
			if e.pid != g.child {
				continue // one of many, perhaps: to look at all that is left for each would take long
			}
			g.gone = true
			g.report("exit", exitCode(e.status), nil)
		case <-timer.C:
		}
		timer.Reset(g.look())
	}
}

// look does what the clock demands and returns when to look again.
func (g *guard) look() time.Duration {
	now := boottime()
	end := g.until - g.reserve
	switch {
	case g.gone || now >= end || g.stopped && now >= g.killAt:
		if !g.gone {
			syscall.Kill(-g.child, syscall.SIGKILL)
		}
		if pid := killBelow(os.Getpid()); pid > 0 && !g.denied {
			g.denied = true
			g.report("denied", pid, nil)
		}
		return 10 * time.Millisecond // again, for those who were just being born
	case !g.stopped && now >= end-g.grace:
		g.report("expiring", 0, nil)
		g.terminate(syscall.SIGTERM, end)
	}
	next := end
	if !g.stopped {
		next -= g.grace
	} else {
		next = min(next, g.killAt)
	}
	// The timer's clock stands still while the machine is suspended; boottime does not.
	return min(max(next-now, time.Millisecond), 100*time.Millisecond)
}

// obey carries out a line of elect.
func (g *guard) obey(line string) {
	word, arg, _ := strings.Cut(line, " ")
	n, err := strconv.ParseInt(arg, 10, 64)
	if err != nil {
		return
	}
	switch word {
	case "until":
		g.until = max(g.until, time.Duration(n))
	case "stop":
		if !g.stopped {
			g.terminate(syscall.Signal(n), boottime()+g.stop)
		}
	case "signal":
		if !g.gone {
			syscall.Kill(g.child, syscall.Signal(n))
		}
	}
}

// terminate asks the command and its process group to end.
func (g *guard) terminate(s syscall.Signal, killAt time.Duration) {
	g.stopped, g.killAt = true, killAt
	if !g.gone {
		syscall.Kill(-g.child, s)
		syscall.Kill(-g.child, syscall.SIGCONT) // or it would not hear
	}
}

func (g *guard) start(command []string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	g.child, err = syscall.ForkExec(path, command, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return &fs.PathError{Op: "exec", Path: path, Err: err}
	}
	return nil
}

// codeOf is what a shell returns for a command that cannot be started.
func codeOf(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotRunnable
}

// An end is how a process ended.
type end struct {
	pid    int
	status syscall.WaitStatus
}

// reap waits for children, born or adopted, until there are none.
func reap(ends chan<- end) {
	defer close(ends)
	for {
		var e end
		var err error
		if e.pid, err = syscall.Wait4(-1, &e.status, 0, nil); err == syscall.EINTR {
			continue
		} else if err != nil {
			return
		}
		ends <- e
	}
}

// exitCode is what a shell would make of it.
func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
