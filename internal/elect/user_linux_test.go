package elect

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

// nobody is the id of a user without rights.
const nobody = 65534

// asNobody returns a directory where that user finds elect, and the environment to elect on files in it.
func asNobody(t *testing.T) (dir string, env []string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	dir, err := os.MkdirTemp("", "elect-nobody")
	testbed.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, err := range []error{os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "own"), 0o700), os.Chown(filepath.Join(dir, "own"), nobody, nobody)} {
		testbed.NoError(t, err)
	}
	install(t, binary, filepath.Join(dir, "elect"), 0o755)
	return dir, environ("ELECTION_BACKEND=file", longTTL, "ELECTION_FILE_DIR="+filepath.Join(dir, "own", "leases"))
}

func install(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o755)
	}
	if err == nil {
		err = os.Chmod(to, mode)
	}
	testbed.NoError(t, err)
}

// Elect could not kill a command that had become another user. The command would run on beside that of the next leader.
func TestACommandCannotBecomeAnotherUser(t *testing.T) {
	t.Parallel()
	dir, env := asNobody(t)
	id, err := exec.LookPath("id")
	testbed.NoError(t, err)
	install(t, id, filepath.Join(dir, "id"), 0o755|os.ModeSetuid)
	m := program(t, env, filepath.Join(dir, "elect"), "run", "job", "-q", "--", filepath.Join(dir, "id"), "-u")
	m.Dir = dir
	m.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	m.run()
	if code := m.code(); code != 0 || strings.TrimSpace(m.output.String()) != strconv.Itoa(nobody) {
		t.Errorf("a set-user-ID program of root runs as %q, code %d; want it to gain nothing", m.output.String(), code)
	}
}

// Without CAP_KILL root may not kill the processes of other users. Elect reports that.
func TestElectReportsAProcessItMayNotKill(t *testing.T) {
	t.Parallel()
	dir, env := asNobody(t)
	env = environ(append(env, "ELECTION_FILE_DIR="+filepath.Join(testbed.TempDir(t), "leases"))...)
	m := program(t, env, "setpriv", "--bounding-set=-kill", "--inh-caps=-kill", filepath.Join(dir, "elect"), "run", "job", "--stop-timeout", "100ms", "--",
		"setpriv", "--reuid", strconv.Itoa(nobody), "--clear-groups", "sleep", "300")
	m.run()
	var stranger int
	testbed.Eventually(t, patience, "the command runs as another user", func() error {
		stranger = m.descendants()["sleep"]
		if st, err := os.Stat("/proc/" + strconv.Itoa(stranger)); err != nil || stranger == 0 || st.Sys().(*syscall.Stat_t).Uid != nobody {
			return os.ErrNotExist
		}
		return nil
	})
	m.Process.Signal(syscall.SIGTERM)
	m.says("RUNS ON")
	if err := syscall.Kill(stranger, syscall.SIGKILL); err != nil {
		t.Errorf("the command that elect could not kill: %v", err)
	}
	m.code()
}

// A /proc that is mounted with hidepid, as by systemd's ProtectProc=, hides programs that nobody may read, and other
// users' from a root that may not trace.
func TestAHiddenDescendantIsKilled(t *testing.T) {
	asUser := []string{"--reuid=65534", "--regid=65534", "--clear-groups"}
	byTerm := func(m *member) { m.Process.Signal(syscall.SIGTERM) }
	for name, x := range map[string]struct {
		hidepid, job string
		user         []string // setpriv's arguments
		end          func(m *member)
	}{
		"a program that nobody may read": {"2", "./sleep 300", asUser, byTerm},
		"after kill -9 of the guard":     {"2", "./sleep 300", asUser, func(m *member) { signalTo(m, "elect-guard", syscall.SIGKILL); byTerm(m) }},
		"another user":                   {"4", "setpriv --reuid=65533 sleep 300", []string{"--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"}, byTerm},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, env := asNobody(t)
			sleep, err := exec.LookPath("sleep")
			testbed.NoError(t, err)
			install(t, sleep, filepath.Join(dir, "sleep"), 0o711)
			m := program(t, env, "unshare", append(append([]string{"--mount", "sh", "-c", "mount -t proc -o hidepid=" + x.hidepid + ` proc /proc && exec setpriv "$@"`, "sh"},
				x.user...), "./elect", "run", "job", "--stop-timeout", "100ms", "--", "sh", "-c", "setsid "+x.job+" & wait")...)
			m.Dir = dir
			m.run()
			var hidden int
			testbed.Eventually(t, patience, "the descendant runs", func() error {
				if hidden = m.descendants()["sleep"]; hidden == 0 {
					return os.ErrNotExist
				}
				return nil
			})
			x.end(m)
			m.code()
			if err := syscall.Kill(hidden, syscall.SIGKILL); err != syscall.ESRCH {
				t.Errorf("elect has ended, and what it could not see lived on (%v):\n%s", err, m.output.String())
			}
		})
	}
}

// A command may use up the processes that its user, or its control group, may have. The runtime of a Go program ends it
// when it can start no thread.
func TestTheCommandMayTakeAllProcesses(t *testing.T) {
	for _, job := range []string{"a", "b", "c", "d"} {
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			dir, env := asNobody(t)
			m := program(t, env, filepath.Join(dir, "elect"), "run", job, "--", "sh", "-c", `mkdir own/once || exit 8
				for pid in $PPID $(ps -o ppid= $PPID); do prlimit --pid $pid --nproc=1:1; done; setsid sleep 300 & sleep 2; exit 7`)
			m.Dir = dir
			m.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			m.run()
			if code := m.code(); code != 7 {
				t.Errorf("code %d, want that of the first command:\n%.2000s", code, m.output.String())
			}
		})
	}
}
