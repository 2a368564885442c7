package testbed

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Systemd is a manager of services, as a user has one, with a /run of its own.
type Systemd struct{ pid int }

const systemd = "/lib/systemd/systemd"

// StartSystemd starts a manager, and ends it and its services after the test. It needs root.
func StartSystemd(t testing.TB) *Systemd {
	t.Helper()
	Full(t, "starts a systemd")
	if _, err := os.Stat(systemd); err != nil {
		unavailable(t, &missing{"systemd", "systemd", "Debian: systemd"})
	}
	if os.Getuid() != 0 {
		unavailable(t, &missing{"systemd", "the privilege to mount a /run", "as root"})
	}
	cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system /run/user &&
		XDG_RUNTIME_DIR=/run/user exec `+systemd+` --user --log-target=console --log-level=warning --show-status=no`)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("testbed: start systemd: %v", err)
	}
	s := &Systemd{cmd.Process.Pid}
	t.Cleanup(func() {
		s.Control("exit")
		cmd.Wait()
	})
	Eventually(t, 30*time.Second, "systemd is ready", func() error {
		_, err := s.Control("show-environment")
		return err
	})
	return s
}

// Control runs systemctl.
func (s *Systemd) Control(args ...string) (string, error) { return s.run("systemctl", args...) }

// Start starts a program as a service.
func (s *Systemd) Start(service string, args ...string) error {
	_, err := s.run("systemd-run", append([]string{"--unit=" + service}, args...)...)
	return err
}

// MainPID returns the main process of a service; 0: it has none.
func (s *Systemd) MainPID(service string) (int, error) {
	text, err := s.Control("show", "--property=MainPID", "--value", service)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

func (s *Systemd) run(program string, args ...string) (string, error) {
	within := []string{"--mount=/proc/" + strconv.Itoa(s.pid) + "/ns/mnt", "--", "env", "XDG_RUNTIME_DIR=/run/user", program, "--user"}
	out, err := exec.Command("nsenter", append(within, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %q: %w: %s", program, args, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
