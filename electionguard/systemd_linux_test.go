package electionguard_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// A systemd is a manager of services, as a user has one, with a /run of its own.
type systemd struct{ pid int }

const systemdPath = "/lib/systemd/systemd"

// startSystemd starts a manager, and ends it and its services after the test. It needs root.
func startSystemd(t testing.TB) *systemd {
	t.Helper()
	testbed.Full(t, "starts a systemd")
	if _, err := os.Stat(systemdPath); err != nil {
		testbed.Unavailable(t, "systemd", "Debian: systemd")
	}
	if os.Getuid() != 0 {
		testbed.Unavailable(t, "the privilege to mount a /run", "as root")
	}
	cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system /run/user &&
		XDG_RUNTIME_DIR=/run/user exec `+systemdPath+` --user --log-target=console --log-level=warning --show-status=no`)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("testbed: start systemd: %v", err)
	}
	s := &systemd{cmd.Process.Pid}
	t.Cleanup(func() {
		s.control("exit")
		cmd.Wait()
	})
	testbed.Eventually(t, 30*time.Second, "systemd is ready", func() error {
		_, err := s.control("show-environment")
		return err
	})
	return s
}

// control runs systemctl.
func (s *systemd) control(args ...string) (string, error) { return s.run("systemctl", args...) }

// start starts a program as a service.
func (s *systemd) start(service string, args ...string) error {
	_, err := s.run("systemd-run", append([]string{"--unit=" + service}, args...)...)
	return err
}

// mainPID returns the main process of a service; 0: it has none.
func (s *systemd) mainPID(service string) (int, error) {
	text, err := s.control("show", "--property=MainPID", "--value", service)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

func (s *systemd) run(program string, args ...string) (string, error) {
	within := []string{"--mount=/proc/" + strconv.Itoa(s.pid) + "/ns/mnt", "--", "env", "XDG_RUNTIME_DIR=/run/user", program, "--user"}
	out, err := exec.Command("nsenter", append(within, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %q: %w: %s", program, args, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
