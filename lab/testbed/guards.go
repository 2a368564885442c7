package testbed

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Children returns the children of a process whose first argument begins with a text.
func Children(of int, argument string) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		stat, _ := os.ReadFile(name)
		args, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(of) && strings.HasPrefix(string(args), argument) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// GuardOf returns the only guard of a process, by package electionguard.
func GuardOf(pid int) (int, error) {
	pids := Children(pid, "electionguard\x00")
	if len(pids) != 1 {
		return 0, fmt.Errorf("process %d has the guards %v, want one", pid, pids)
	}
	return pids[0], nil
}
