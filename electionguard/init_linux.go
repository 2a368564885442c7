package electionguard

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// When process 1 of a container ends, the kernel kills all others at once, the guard among them. So
// [Main] starts a program that is process 1 once more, as a child, and process 1 waits: first for the
// program, and then for its guards.

// runAsChild is the main function of process 1. It returns the exit code.
func runAsChild() (code int, err error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals) // all: those that only concern this process are left out below
	// Other files that it was started with go on to the child as well: they are not closed on exec.
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}}
	attr.Sys = &syscall.SysProcAttr{Foreground: true, Ctty: 0} // its signals are for the program alone
	program, err := syscall.ForkExec("/proc/self/exe", os.Args, attr)
	if err != nil { // there is no terminal, or it is that of another session
		attr.Sys = nil
		program, err = syscall.ForkExec("/proc/self/exe", os.Args, attr)
	}
	if err != nil {
		return 1, fmt.Errorf("start the program: %w", err)
	}
	go func() {
		for s := range signals {
			switch s {
			case syscall.SIGCHLD, syscall.SIGURG, syscall.SIGTTIN, syscall.SIGTTOU: // SIGURG is Go's own
			default:
				syscall.Kill(program, s.(syscall.Signal))
			}
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil) // process 1 reaps all orphans
		switch {
		case errors.Is(err, syscall.EINTR), err == nil && pid != program:
			continue
		case err != nil:
			return 1, fmt.Errorf("wait for the program: %w", err)
		case status.Signaled():
			code = 128 + int(status.Signal())
		default:
			code = status.ExitStatus()
		}
		awaitGuards()
		return code, nil
	}
}

// awaitGuards kills all processes but the guards, as the end of process 1 would, and waits for the guards.
func awaitGuards() {
	for {
		guards := false
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, name := range stats {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			stat, _ := os.ReadFile(name)
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
			_, state, _ := strings.Cut(string(stat), ") ")
			switch {
			case pid == os.Getpid() || state == "" || state[0] == 'Z':
			case strings.HasPrefix(string(command), guardName+"\x00"):
				guards = true
			default:
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
		if !guards {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
