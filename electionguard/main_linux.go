package electionguard

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// guardName is argument 0 of a guard, as ps shows it.
const guardName = "electionguard"

// Files that a guard inherits after standard input, output and error.
const (
	reportFile   = 3 // the pipe on which the program tells what it may hold
	pidFile      = 4 // the program: a pidfd
	lifelineFile = 5 // the reading end of its lifeline
)

// Main must be the first call of main: a guard knows the processes that the program starts after it. In
// the program it returns at once. In a guard it never returns: open is called there. If the program is
// process 1 of a container, Main does not return in that either: it starts the program as its child,
// passes signals on, reaps orphans, and ends with the program's code when the program and its guards have
// ended. Variables of packages are initialized in all of them.
func Main(open Open) {
	code, err := 0, error(nil)
	self, _ := os.Readlink("/proc/self")
	switch {
	case os.Getenv(variable) != "":
		os.Unsetenv(variable)
		if err = guard(open); err != nil {
			code = 1
		}
	case os.Getpid() == 1 && self == "1": // process 1, and /proc shows the processes of its container
		code, err = runAsChild()
	default:
		lifeline.read, lifeline.err = openLifeline()
		isMain.Store(true)
		return
	}
	if err != nil {
		say(code, "%v", err)
	}
	os.Exit(code)
}

// Start starts the guard of this process: a second process of the same binary, with the same
// environment. It ends after [Guard.Close], or after it has released what the program held.
// Errors are of class backend.ErrInvalid if o is wrong or [Main] was not called; others come from
// the operating system: Linux 5.3 or later is needed, and pidfd_open must be allowed.
func Start(o Options) (*Guard, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	// The guard could only open the pidfd of a number, which may be another process by then.
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(os.Getpid()), 0, 0)
	if errno != 0 {
		return nil, fmt.Errorf("electionguard: pidfd_open: %w", errno)
	}
	program := os.NewFile(fd, "program")
	defer program.Close()
	if lifeline.err != nil {
		return nil, fmt.Errorf("electionguard: open the lifeline: %w", lifeline.err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("electionguard: %w", err)
	}
	defer read.Close()
	fcntl(read.Fd(), fSetPipeSize, 1<<20) // for ten thousand elections at once; it may be refused
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", // this program, even if its file has been replaced
		Args: []string{guardName, strconv.Itoa(os.Getpid())},
		Env:  append(os.Environ(), variable+"=1"), Stderr: os.Stderr,
		ExtraFiles: []*os.File{read, program, lifeline.read},
		// In a process group of its own: the signals of a terminal are for the program.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := cmd.Start(); err != nil {
		write.Close()
		return nil, fmt.Errorf("electionguard: %w", err)
	}
	g := &Guard{o: o, pid: cmd.Process.Pid, pipe: write}
	go g.watch(cmd.Wait)
	if err := g.tell(10*time.Second, report{Store: o.Store, Grace: o.Grace}); err != nil {
		g.Close()
		return nil, fmt.Errorf("electionguard: %w", err)
	}
	return g, nil
}

// The lifeline is a pipe on which nobody writes. The program opens it before it does anything else, and each
// process that it starts inherits the writing end, as do theirs: the end of file says that all have ended.
var lifeline struct {
	read *os.File
	err  error // why there is none
}

// lifelineNumber is the least number of the writing end. A command that is started with files of its own gets
// them from 3 on, and they replace what it would have inherited there. The table of a process has that many
// places, and each child a copy of it, so it is no greater.
const lifelineNumber = 4000

func openLifeline() (read *os.File, err error) {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		return nil, err
	}
	read = os.NewFile(uintptr(ends[0]), "lifeline")
	defer syscall.Close(ends[1])

	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return read, err
	}
	// This duplicate is not closed on exec.
	_, err = fcntl(uintptr(ends[1]), syscall.F_DUPFD, int(min(lifelineNumber, limit.Cur*3/4)))
	return read, err
}

// Numbers that package syscall lacks; they are the same on all architectures that Go has Linux for.
const (
	sysPidfdOpen = 434
	fSetPipeSize = 1031
	pollIn       = 1
	pollHangUp   = 16
)

// fcntl calls fcntl(2).
func fcntl(fd uintptr, command, arg int) (int, error) {
	n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, uintptr(command), uintptr(arg))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// guard is the main function of a guard.
func guard(open Open) error {
	// systemd, a terminal or pkill may send these to the guard as well, which must outlive the program.
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE,
		syscall.SIGUSR1, syscall.SIGUSR2)
	if err := closeInherited(); err != nil {
		return err
	}
	h := &holdings{terms: map[string]uint64{}}
	s := &store{open: open, holdings: h}
	h.follow(os.NewFile(reportFile, "report"), s)
	held := h.held()
	if h.ended || len(held) == 0 {
		return nil
	}
	switch ended, err := awaitEnd(time.Now().Add(h.ttl)); {
	case err != nil:
		return fmt.Errorf("wait for the program: %w", err)
	case !ended:
		return errors.New("the program, or what it has started, lives on; its leases expire by themselves")
	}
	ended := time.Now()
	time.Sleep(h.grace)
	if err := s.release(h.nonce, held); err != nil {
		return fmt.Errorf("the program has ended, and its leases were not released: %w", err)
	}
	took := time.Since(ended).Round(time.Millisecond)
	say(0, "the program has ended; what it held is released, %v later", took)
	return nil
}

// say writes the last line of this process, which then ends with a code, also if nobody reads standard error.
func say(code int, format string, args ...any) {
	time.AfterFunc(time.Second, func() { os.Exit(code) })
	fmt.Fprintf(os.Stderr, "electionguard: "+format+"\n", args...)
}

// follow takes in what the program reports, until the pipe is closed or the program needs no guard. While the
// program holds a lease the store is kept open, and one record read in each TTL: connecting takes longer than
// a release.
func (h *holdings) follow(reports *os.File, s *store) {
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		for r := bufio.NewReader(reports); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()

	var again <-chan time.Time // when a record is to be read again; nil: at once
	for !h.ended {
		select {
		case line, open := <-lines:
			if !open {
				return
			}
			h.apply(line)
		case <-again:
			again = nil
		}

		if len(h.terms) == 0 {
			s.close()
			again = nil
		} else if again == nil {
			for election := range h.terms {
				s.read(election, h.ttl)
				break
			}
			again = time.After(h.ttl)
		}
	}
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
		if err != nil || fd <= lifelineFile {
			continue
		}
		if flags, err := fcntl(uintptr(fd), syscall.F_GETFD, 0); err == nil && flags&syscall.FD_CLOEXEC == 0 {
			syscall.Close(fd)
		}
	}
	syscall.CloseOnExec(reportFile)
	syscall.CloseOnExec(pidFile)
	syscall.CloseOnExec(lifelineFile)
	return nil
}

// awaitEnd waits until the last thread of the program has ended, and all processes that it has started. It
// returns false if one lives on at a time at which all leases of the program have expired.
func awaitEnd(expired time.Time) (ended bool, err error) {
	ended, err = await(pidFile, pollIn, expired)
	if ended {
		ended, err = await(lifelineFile, pollHangUp, expired)
	}
	return ended, err
}

// await waits until a file has an event. It returns false if it has not at a time.
func await(file int, event int16, until time.Time) (bool, error) {
	poll := struct {
		fd              int32
		events, revents int16
	}{fd: int32(file), events: event}
	for {
		rest := syscall.NsecToTimespec(int64(max(time.Until(until), 0)))
		n, _, errno := syscall.Syscall6(syscall.SYS_PPOLL,
			uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&rest)), 0, 0, 0)
		switch {
		case errno == syscall.EINTR:
		case errno != 0:
			return false, errno
		case n == 0:
			return false, nil
		case poll.revents&event != 0:
			return true, nil
		default:
			return false, fmt.Errorf("poll returns %d and %#x", n, poll.revents)
		}
	}
}
