package elect

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// boottime reads the clock of the machine that advances while it is suspended (clock_gettime(2)).
func boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("elect: this kernel has no CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(ts.Nano())
}

// adoptOrphans makes this process the parent of descendants whose parent has died, as process 1 is.
func adoptOrphans() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// setNoNewPrivs makes sure that this process may kill everything that this thread starts: programs with a
// set-user-ID bit, such as sudo, gain no privileges (prctl(2)). Root may kill every process.
func setNoNewPrivs() error {
	if os.Geteuid() == 0 {
		return nil
	}
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}

// checkProc returns an error if /proc has the process ids of another PID namespace.
func checkProc() error {
	self, err := os.Readlink("/proc/self")
	if err == nil && self == strconv.Itoa(os.Getpid()) {
		return nil
	}
	return fmt.Errorf("/proc is missing or of another PID namespace (this is process %d, /proc/self is %q): "+
		"elect would kill the wrong ones. Mount it, as unshare --mount-proc does", os.Getpid(), self)
}

// A process is what /proc/PID/stat says of a process.
type process struct {
	pid, parent int
	zombie      bool
}

// descendants returns the descendants of a process, zombies included. all is false if some may be missing,
// since no more files can be opened.
func descendants(pid int) (list []process, all bool) {
	var found []process
	entries, err := os.ReadDir("/proc")
	all = !tooManyFiles(err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		all = all && !tooManyFiles(err)
		// The name, in parentheses, may contain any character. State and parent follow it, and the number of
		// threads. A process whose first thread has ended has the state of a zombie while others run.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 18 { // it has ended meanwhile
			continue
		}
		parent, _ := strconv.Atoi(string(fields[1]))
		threads, _ := strconv.Atoi(string(fields[17]))
		found = append(found, process{pid, parent, fields[0][0] == 'Z' && threads < 2})
	}
	known := map[int]bool{pid: true}
	for added := true; added; {
		added = false
		for _, p := range found {
			if known[p.parent] && !known[p.pid] {
				known[p.pid], added = true, true
				list = append(list, p)
			}
		}
	}
	return list, all
}

func tooManyFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// killDescendants kills all descendants of a process. It returns the id of one that it may not kill, or 0.
func killDescendants(pid int) (denied int) {
	list, _ := descendants(pid)
	for _, p := range list {
		if !p.zombie && syscall.Kill(p.pid, syscall.SIGKILL) == syscall.EPERM {
			denied = p.pid
		}
	}
	return denied
}
