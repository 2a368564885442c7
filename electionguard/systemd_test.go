//go:build linux

package electionguard_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// A service is a program with a guard that systemd has started.
type service struct {
	*guarded
	systemd *systemd
	name    string
	output  string
}

func startService(t *testing.T, s *systemd, name string, properties ...string) *service {
	t.Helper()
	p := &service{&guarded{t: t, ledger: filepath.Join(t.TempDir(), "ledger")}, s, name, filepath.Join(t.TempDir(), "output")}
	input := filepath.Join(t.TempDir(), "input")
	testbed.NoError(t, syscall.Mkfifo(input, 0o600))
	orders, err := os.OpenFile(input, os.O_RDWR, 0)
	testbed.NoError(t, err)
	t.Cleanup(func() { orders.Close() })
	p.in = orders
	args := []string{"--setenv=GUARDED=" + p.ledger, "--property=StandardInput=file:" + input, "--property=StandardOutput=append:" + p.output}
	for _, property := range properties {
		args = append(args, "--property="+property)
	}
	testbed.NoError(t, s.start(name, append(args, os.Args[0])...))
	t.Cleanup(func() { s.control("stop", name) }) // its guard releases while the ledger is there
	return p
}

// program waits until the service was started n times and its guard is ready, and returns its main process.
func (p *service) program(n int) (pid int) {
	p.t.Helper()
	testbed.Eventually(p.t, 30*time.Second, "the service is ready", func() (err error) {
		output, _ := os.ReadFile(p.output)
		if got := strings.Count(string(output), "ready\n"); got < n {
			return fmt.Errorf("it was ready %d times, want %d", got, n)
		}
		if pid, err = p.systemd.mainPID(p.name); err != nil {
			return err
		}
		guard, err := testbed.GuardOf(pid)
		if err != nil {
			return err
		}
		return ignoresSignals(guard)
	})
	return pid
}

// When the main process of a service has ended, systemd sends SIGTERM to the others. The guard stays until it has released.
func TestAGuardReleasesBeforeSystemdEndsIt(t *testing.T) {
	s := startSystemd(t)
	for name, end := range map[string]func(p *service, program int){
		"kill -9": func(_ *service, program int) { syscall.Kill(program, syscall.SIGKILL) },
		"panic":   func(p *service, _ int) { p.order("panic") },
		"stop": func(p *service, _ int) {
			if _, err := s.control("stop", p.name); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := startService(t, s, "guarded-"+name[:4])
			end(p, p.program(1))
			p.wantReleased(released)
		})
	}
	t.Run("it starts the program again", func(t *testing.T) {
		p := startService(t, s, "guarded-again", "Restart=always", "RestartSec=10ms")
		syscall.Kill(p.program(1), syscall.SIGKILL)
		p.program(2)
		p.wantReleased(released)
	})
}
