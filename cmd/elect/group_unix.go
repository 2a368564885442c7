//go:build !windows

package main

import "syscall"

// ownGroup starts a process in a group of its own, out of a terminal's reach.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
