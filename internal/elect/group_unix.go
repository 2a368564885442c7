//go:build !windows

package elect

import "syscall"

// newProcessGroup makes a process start in its own process group, so that signals from the
// terminal do not reach it.
func newProcessGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
