package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// boottime reads CLOCK_BOOTTIME: one clock for all processes of the machine, which
// counts while that is suspended (clock_gettime(2)).
func boottime() time.Duration {
	const clockBoottime = 7
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic("elect: this kernel has no CLOCK_BOOTTIME: " + errno.Error())
	}
	return time.Duration(ts.Nano())
}

// prctl sets a property of this process (prctl(2)).
func prctl(option, value uintptr) error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, option, value, 0, 0, 0, 0); errno != 0 {
		return os.NewSyscallError("prctl", errno)
	}
	return nil
}

const (
	prSetName           = 15
	prSetChildSubreaper = 36
	prSetNoNewPrivs     = 38
)

// adoptOrphans makes this process the parent of descendants whose own parent has
// died, as process 1 of a container is anyway.
func adoptOrphans() error { return prctl(prSetChildSubreaper, 1) }

// keepUser makes sure that whatever this thread starts stays a process that this one may
// kill: unless that is root, who may kill all, programs with a set-user-ID bit, such as
// sudo, gain nothing (prctl(2), PR_SET_NO_NEW_PRIVS).
func keepUser() error {
	if os.Geteuid() == 0 {
		return nil
	}
	return prctl(prSetNoNewPrivs, 1)
}

// checkProc reports that /proc is not that of this process's PID namespace. The numbers
// there mean other processes: to end ours by them would kill strangers.
func checkProc() error {
	self, err := os.Readlink("/proc/self")
	if err == nil && self == strconv.Itoa(os.Getpid()) {
		return nil
	}
	return fmt.Errorf("/proc is missing or that of another PID namespace (this is process %d, and there it is %q): "+
		"by it elect would end processes that are not its own. Give it its own: unshare --mount-proc, or a container's /proc, or mount -t proc proc /proc", os.Getpid(), self)
}

// A process is a line of /proc/PID/stat.
type process struct {
	pid, parent int
	zombie      bool
}

// processes lists all that can be seen.
func processes() (list []process) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		// The name, in parentheses, may hold anything; the state and the parent follow.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		parent, _ := strconv.Atoi(string(fields[1]))
		list = append(list, process{pid, parent, fields[0][0] == 'Z'})
	}
	return list
}

// descendants returns the living and dead below a process, itself not included.
func descendants(of int) (list []process) {
	all := processes()
	below := map[int]bool{of: true}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if below[p.parent] && !below[p.pid] {
				below[p.pid], grown = true, true
				list = append(list, p)
			}
		}
	}
	return list
}

// killBelow kills all that descend from a process, and returns one that this process is
// not allowed to kill, or 0.
func killBelow(of int) (denied int) {
	for _, p := range descendants(of) {
		if !p.zombie && syscall.Kill(p.pid, syscall.SIGKILL) == syscall.EPERM {
			denied = p.pid
		}
	}
	return denied
}

// nameOf is a name as prctl wants it: 15 bytes at most, and a zero.
func nameOf(s string) uintptr {
	b := append([]byte(s), 0)
	return uintptr(unsafe.Pointer(&b[0]))
}
