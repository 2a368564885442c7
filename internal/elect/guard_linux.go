package elect

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
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Elect holds the lease, and the guard, a second process of "elect run", holds the command.
// docs/design/elect.md says why the command is dead before the lease can no longer be trusted, and its
// limits.

// Files that the guard inherits after standard input, output and error.
const (
	guardOrders  = 3 // lines from elect
	guardReports = 4 // lines to elect
	guardLock    = 5 // the lock of the file backend, if there is one
)

// A guard runs one command for one leadership.
type guard struct {
	limits
	deadline time.Duration // until then the lease is trusted, on CLOCK_BOOTTIME
	command  int           // its process id
	stopped  bool          // the guard has sent SIGTERM
	killAt   time.Duration // when to send SIGKILL, if stopped
	exited   bool          // the command itself has ended
	denied   bool          // the guard has reported a process that it may not kill
	reports  *os.File
}

// guardMain is the main function of the guard. Its arguments are the limits, with the lock, and the command.
func guardMain(args []string) int {
	spareThreads()
	runtime.LockOSThread()                                // the command dies with the thread that started it
	os.WriteFile("/proc/self/comm", []byte(guardName), 0) // for ps
	// A terminal, systemd or pkill may send these signals to all descendants of elect. The guard waits for
	// its orders. It does not ignore them, because the command would inherit that.
	catch(make(chan os.Signal, 1), syscall.SIGPIPE)
	g := &guard{reports: os.NewFile(guardReports, "reports")}
	orders := os.NewFile(guardOrders, "orders")
	syscall.CloseOnExec(guardOrders)
	syscall.CloseOnExec(guardReports)
	locked := false
	if _, err := fmt.Sscan(args[1], &g.grace, &g.reserve, &g.stop, &locked); err != nil {
		return exitElect
	}
	if locked {
		// Move the lock to a number that commands do not use, without close-on-exec, if there may be so many.
		if _, err := unix.FcntlInt(guardLock, unix.F_DUPFD, 100); err == nil {
			syscall.Close(guardLock)
		}
	}
	if err := errors.Join(adoptOrphans(), setNoNewPrivs()); err != nil {
		g.report("error", exitElect, err)
		return 0
	}
	g.run(orders, args[2:])
	return 0
}

// catch has a signal told, and those that ask a process for something; SIGHUP unless nohup has it ignored.
func catch(signals chan<- os.Signal, more os.Signal) {
	signal.Notify(signals, more,
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
}

func (g *guard) report(what string, n int, err error) {
	text := ""
	if err != nil {
		text = " " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	fmt.Fprintf(g.reports, "%s %d%s\n", what, n, text)
}

// run starts the command. It returns when the command and all its descendants are dead.
func (g *guard) run(orders io.Reader, command []string) {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(orders); s.Scan(); {
			lines <- s.Text()
		}
	}()
	for g.deadline-boottime() <= g.grace+g.reserve { // a later one may wait, if this began slowly
		line, ok := <-lines
		if g.handleOrder(line); !ok || g.stopped {
			return
		}
	}
	if err := g.start(command); err != nil {
		g.report("error", startErrorCode(err), err)
		return
	}
	g.report("started", g.command, nil)

	exited := make(chan syscall.WaitStatus)
	go reap(g.command, exited)
	timer := time.NewTimer(0)
	for {
		select {
		case line, ok := <-lines:
			if !ok { // elect has died
				lines, g.stopped, g.killAt = nil, true, 0
			}
			g.handleOrder(line)
		case status, ok := <-exited:
			if !ok {
				return // all are dead
			}
			if status.Stopped() {
				g.report("stopped", int(status.StopSignal()), nil)
				break
			}
			list, _ := descendants(os.Getpid())
			if !g.stopped && slices.ContainsFunc(list, func(p process) bool { return !p.zombie }) {
				g.report("left", 0, nil)
			}
			g.exited = true
			g.report("exit", exitCode(status), nil)
		case <-timer.C:
		}
		timer.Reset(g.enforce())
	}
}

// enforce ends the command if it is time to, and returns when to call enforce again.
func (g *guard) enforce() time.Duration {
	now := boottime()
	end := g.deadline - g.reserve
	switch {
	case g.exited || now >= end || g.stopped && now >= g.killAt:
		if !g.exited {
			syscall.Kill(-g.command, syscall.SIGKILL)
		}
		if pid := killDescendants(os.Getpid()); pid > 0 && !g.denied {
			g.denied = true
			g.report("denied", pid, nil)
		}
		return 10 * time.Millisecond // again, for processes that were just being forked
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
	// The clock of timers stops while the machine is suspended, and boottime does not.
	return min(max(next-now, time.Millisecond), 100*time.Millisecond)
}

func (g *guard) handleOrder(line string) {
	var word string
	var n int64
	if _, err := fmt.Sscan(line, &word, &n); err != nil {
		return
	}
	switch word {
	case "until":
		g.deadline = max(g.deadline, time.Duration(n))
	case "stop":
		if !g.stopped {
			g.terminate(syscall.Signal(n), boottime()+g.stop)
		}
	case "signal":
		if g.command != 0 && !g.exited {
			syscall.Kill(g.command, syscall.Signal(n))
		}
	}
}

// terminate sends a signal to the process group of the command.
func (g *guard) terminate(s syscall.Signal, killAt time.Duration) {
	g.stopped, g.killAt = true, killAt
	if g.command != 0 && !g.exited {
		syscall.Kill(-g.command, s)
		syscall.Kill(-g.command, syscall.SIGCONT) // a stopped process does not handle the signal
	}
}

func (g *guard) start(command []string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	g.command, err = syscall.ForkExec(path, command, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return &fs.PathError{Op: "exec", Path: path, Err: err}
	}
	return nil
}

// startErrorCode returns the exit code that a shell has for a command that cannot be started.
func startErrorCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotRunnable
}

// reap waits for all children, adopted ones too, until there are none. It tells that the command was stopped,
// and how it has ended.
func reap(command int, exited chan<- syscall.WaitStatus) {
	defer close(exited)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED, nil)
		if err != nil && err != syscall.EINTR {
			return
		}
		if pid == command {
			exited <- status
		}
	}
}

// exitCode returns the exit code that a shell has for a process that has ended so.
func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
