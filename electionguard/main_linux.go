package electionguard

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Files that a guard inherits after standard input, output and error.
const (
	willFile = 3 // the pipe on which the program tells what it may hold
	pidFile  = 4 // the program: a pidfd
)

// isMain is set if main has called Main, so that another process of this program can be a guard.
var isMain atomic.Bool

// Main must be the first call of main. In the program it returns at once. In a guard it never returns:
// open is called there, when the program has ended. Variables of packages are initialized in the guard, too.
func Main(open Open) {
	if os.Getenv(variable) == "" {
		isMain.Store(true)
		return
	}
	os.Unsetenv(variable)
	if err := guard(open); err != nil {
		fmt.Fprintln(os.Stderr, "electionguard:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Start starts the guard of this process: a second process of the same binary, with the same
// environment. It ends after [Guard.Close], or after it has released what the program held.
// Errors are of class backend.ErrInvalid if o is wrong or [Main] was not called; others come from
// the operating system: Linux 5.3 or later is needed, and pidfd_open must be allowed.
func Start(o Options) (*Guard, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0) // of this process: the guard could only open that of a number
	if err != nil {
		return nil, fmt.Errorf("electionguard: pidfd_open: %w", err)
	}
	program := os.NewFile(uintptr(self), "program")
	defer program.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("electionguard: %w", err)
	}
	defer read.Close()
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", // this program, even if its file has been replaced
		Args: []string{"electionguard", strconv.Itoa(os.Getpid())},
		Env:  append(os.Environ(), variable+"=1"), Stderr: os.Stderr,
		ExtraFiles: []*os.File{read, program},
		// In a process group of its own: the signals of a terminal are for the program.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := cmd.Start(); err != nil {
		write.Close()
		return nil, fmt.Errorf("electionguard: %w", err)
	}
	g := &Guard{o: o, pipe: write, ended: make(chan struct{})}
	go g.watch(cmd.Wait)
	if err := g.prepare(); err != nil {
		g.Close()
		return nil, fmt.Errorf("electionguard: %w", err)
	}
	return g, nil
}

// firstPatience is how long a guard may take until it reads the first line.
const firstPatience = 10 * time.Second

// prepare sends the first line, and lets children inherit the pipe. The guard has begun before, so it
// does not inherit it.
func (g *Guard) prepare() error {
	control, err := g.pipe.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := control.Control(func(fd uintptr) {
		unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 1<<20) // for ten thousand elections at once; if it is refused, the size stays
		if !g.o.IgnoreChildren {
			_, failed = unix.FcntlInt(fd, unix.F_SETFD, 0)
		}
	}); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	line, err := json.Marshal(first{g.o.Store, g.o.Grace})
	if err != nil {
		return err
	}
	g.pipe.SetWriteDeadline(time.Now().Add(firstPatience))
	_, err = g.pipe.Write(append(line, '\n'))
	return err
}

// guard is the main function of a guard.
func guard(open Open) error {
	// systemd, a terminal or pkill may send these to the guard as well, which must outlive the program.
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2)
	if err := closeInherited(); err != nil {
		return err
	}
	r := bufio.NewReader(os.NewFile(willFile, "will"))
	e, err := readFirst(r)
	if err != nil {
		return nil // the program has ended before it held anything
	}
	s := &store{open: open, text: e.Store}
	if err := e.read(r, s.keepWarm); err != nil || e.ended {
		return err
	}
	if err := awaitEnd(pidFile); err != nil {
		return fmt.Errorf("wait for the program: %w", err)
	}
	ended := time.Now()
	held := e.held()
	if len(held) == 0 {
		return nil
	}
	time.Sleep(e.Grace)
	if err := s.release(e.nonce, held); err != nil {
		return fmt.Errorf("the program has ended, and its leases were not released: %w", err)
	}
	fmt.Fprintf(os.Stderr, "electionguard: the program has ended; what it held is released, %v later\n", time.Since(ended).Round(time.Millisecond))
	return nil
}

// closeInherited closes what the program has let its children inherit, such as the pipes of other
// guards and listening sockets. What this process has opened itself is closed on exec.
func closeInherited() error {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, f := range list {
		fd, err := strconv.Atoi(f.Name())
		if err != nil || fd <= pidFile {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	syscall.CloseOnExec(willFile)
	syscall.CloseOnExec(pidFile)
	return nil
}

// awaitEnd waits until the last thread of a process has ended.
func awaitEnd(pidfd int) error {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case n == 1 && fds[0].Revents&unix.POLLIN != 0:
			return nil
		case n == 1:
			return fmt.Errorf("the kernel says %#x of the program", fds[0].Revents)
		}
	}
}
