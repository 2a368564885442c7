package testbed

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Children returns the children of a process whose first argument begins with a text.
func Children(of int, argument string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		f := stat(dir)
		if len(f) > 1 && f[1] == strconv.Itoa(of) && strings.HasPrefix(string(args), argument) {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, pid)
		}
	}
	return pids
}

// stat returns the state of a process or a thread, its parent and so on; none if it has ended.
func stat(dir string) []string {
	text, _ := os.ReadFile(filepath.Join(dir, "stat"))
	// "pid (name) state …", and the name may contain any character.
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

// GuardOf returns the only guard of a process, by package electionguard.
func GuardOf(pid int) (int, error) {
	pids := Children(pid, "electionguard\x00")
	if len(pids) != 1 {
		return 0, fmt.Errorf("process %d has the guards %v, want one", pid, pids)
	}
	return pids[0], nil
}
