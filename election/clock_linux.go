package election

import (
	"syscall"
	"time"
	"unsafe"
)

// boottime reads CLOCK_BOOTTIME, which also counts while the machine is suspended (clock_gettime(2)).
func boottime() (time.Duration, bool) {
	const bootClock = 7
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, bootClock, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
