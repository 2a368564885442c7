package elect

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
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

// spareThreads makes the runtime start the threads that it may need later. It ends a process if it cannot
// start one, as when the command has used up what a user or a control group may have (ulimit -u, TasksMax=).
func spareThreads() {
	runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), 2)) // each needs a thread, and so does a call that blocks
	const spare = 8
	var locked sync.WaitGroup
	locked.Add(spare)
	for range spare {
		go func() {
			runtime.LockOSThread() // one of its own
			locked.Done()
			locked.Wait()
			runtime.UnlockOSThread()
		}()
	}
	locked.Wait()
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

// descendants returns the descendants of a process, zombies included. It fails if one may be missing, since
// too many files are open, say.
func descendants(pid int) (list []process, err error) {
	read := func(name string) []byte {
		text, unread := os.ReadFile(name)
		if errno, _ := errors.AsType[syscall.Errno](unread); errno.Temporary() || errno == syscall.ENOMEM {
			err = unread
		}
		return text
	}
	all := map[int]process{}
	entries, err := os.ReadDir("/proc")
	for _, e := range entries {
		pid, notOne := strconv.Atoi(e.Name())
		if notOne != nil {
			continue
		}
		stat := read("/proc/" + e.Name() + "/stat")
		// The name, in parentheses, may contain any character. State and parent follow it, and the number of
		// threads. A process whose first thread has ended has the state of a zombie while others run.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 18 { // it has ended meanwhile
			continue
		}
		parent, _ := strconv.Atoi(string(fields[1]))
		threads, _ := strconv.Atoi(string(fields[17]))
		all[pid] = process{pid, parent, fields[0][0] == 'Z' && threads < 2}
	}

	// With hidepid= /proc does not show processes that this one may not trace: programs that nobody may read,
	// and other users'. What they have started becomes this one's own, and is found, when they are killed.
	tasks := fmt.Sprintf("/proc/%d/task/", pid)
	threads, unread := os.ReadDir(tasks)
	err = cmp.Or(err, unread)
	for _, t := range threads {
		for _, child := range bytes.Fields(read(tasks + t.Name() + "/children")) {
			child, _ := strconv.Atoi(string(child))
			if _, shown := all[child]; !shown {
				all[child] = process{child, pid, false}
			}
		}
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
	return list, err
}

// killDescendants kills all descendants of a process that it finds. It returns the id of one that it may not
// kill, or 0.
func killDescendants(pid int) (denied int) {
	list, _ := descendants(pid)
	for _, p := range list {
		if !p.zombie && syscall.Kill(p.pid, syscall.SIGKILL) == syscall.EPERM {
			denied = p.pid
		}
	}
	return denied
}
