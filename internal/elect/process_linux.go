package elect

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// boottime reads CLOCK_BOOTTIME, one clock for all processes of the machine. The clock
// advances while the machine is suspended (clock_gettime(2)).
func boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("elect: this kernel has no CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(ts.Nano())
}

// adoptOrphans makes this process the parent of descendants whose own parent has died.
// Process 1 of a container always is.
func adoptOrphans() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// setNoNewPrivs makes sure that this process may kill everything that this thread starts:
// programs with a set-user-ID bit, such as sudo, gain no privileges (prctl(2),
// PR_SET_NO_NEW_PRIVS). Root needs no such limit, because root may kill every process.
func setNoNewPrivs() error {
	if os.Geteuid() == 0 {
		return nil
	}
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}

// checkProc returns an error if /proc belongs to another PID namespace than this process. The
// process ids there are those of other processes, and elect would kill the wrong ones.
func checkProc() error {
	self, err := os.Readlink("/proc/self")
	if err == nil && self == strconv.Itoa(os.Getpid()) {
		return nil
	}
	return fmt.Errorf("/proc is missing or belongs to another PID namespace (this process is %d, and /proc/self is %q): "+
		"elect would kill the wrong processes. Mount one for this namespace, as unshare --mount-proc does", os.Getpid(), self)
}

// A process is what /proc/PID/stat says of a process.
type process struct {
	pid, parent int
	zombie      bool
}

// descendants returns the descendants of a process, zombies included.
func descendants(pid int) (list []process) {
	var all []process
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		// The name, in parentheses, may contain any character. State and parent follow it.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 { // it has ended meanwhile
			continue
		}
		parent, _ := strconv.Atoi(string(fields[1]))
		all = append(all, process{pid, parent, fields[0][0] == 'Z'})
	}
	known := map[int]bool{pid: true}
	for added := true; added; {
		added = false
		for _, p := range all {
			if known[p.parent] && !known[p.pid] {
				known[p.pid], added = true, true
				list = append(list, p)
			}
		}
	}
	return list
}

// killDescendants kills all descendants of a process. It returns the id of one that this
// process is not allowed to kill, or 0.
func killDescendants(pid int) (denied int) {
	for _, p := range descendants(pid) {
		if !p.zombie && syscall.Kill(p.pid, syscall.SIGKILL) == syscall.EPERM {
			denied = p.pid
		}
	}
	return denied
}
