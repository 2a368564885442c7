package elect

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

func TestExitCodesArePassedOn(t *testing.T) {
	t.Parallel()
	env := onFiles(t)
	start(t, env, "run", "led", "--", "sleep", "300").says("elect: leads") // a follower says at the start what is wrong
	const usage = "usage: elect run NAME [flags] -- COMMAND"
	for _, x := range []struct {
		what string
		args []string
		code int
		says string
	}{
		{"success", []string{"job", "--", "true"}, 0, ""},
		{"a code", []string{"job", "--", "sh", "-c", "exit 7"}, 7, ""},
		{"a signal", []string{"job", "--", "sh", "-c", "kill -TERM $$"}, 128 + 15, ""},
		{"no leftovers", []string{"job", "--", "sh", "-c", "setsid sleep 300 & exit 3"}, 3, "must stay in the foreground"},
		{"no such command", []string{"led", "--", "/nosuch/cmd"}, exitNotFound, "/nosuch/cmd"},
		{"not a program", []string{"led", "--", "/etc"}, exitNotRunnable, "/etc"},
		{"a bad name", []string{"", "--", "true"}, exitElect, ""},
		{"a flag after the name", []string{"job", "--slots", "-1", "--", "true"}, exitElect, "--slots"},
		{"impossible timings", []string{"job", "--grace", "20s", "--", "true"}, exitElect, "--grace"},
		{"no command", []string{"job"}, exitElect, usage},
		{"no dashes", []string{"job", "echo", "led"}, exitElect, usage},
		{"the command's flags without dashes", []string{"job", "sh", "-c", "echo led"}, exitElect, usage},
		{"dashes before the name", []string{"--", "job", "echo", "led"}, exitElect, usage},
		{"two names", []string{"job", "x", "--", "echo", "led"}, exitElect, usage},
	} {
		if out, code := call(t, env, append([]string{"run"}, x.args...)...); code != x.code || !strings.Contains(out, x.says) {
			t.Errorf("%s: code %d, expected %d and %q:\n%s", x.what, code, x.code, x.says, out)
		}
	}
}

// With the absolute path of the configuration a nested elect status finds the store from any directory.
func TestTheCommandGetsItsTermAndConfiguration(t *testing.T) {
	t.Parallel()
	env, file := onFiles(t), filepath.Join(testbed.TempDir(t), "election.yaml")
	here, err := os.Getwd()
	relative, err2 := filepath.Rel(here, file)
	testbed.NoError(t, errors.Join(err, err2, os.WriteFile(file, nil, 0o600)))
	var last uint64
	for range 2 {
		out, code := call(t, env, "run", "a job", "-c", relative, "--id", "me", "-q", "--",
			"sh", "-c", `echo "$ELECTION_NAME/$ELECTION_ID/$ELECTION_TERM $ELECTION_CONFIG"`)
		var term uint64
		if _, err := fmt.Sscanf(out, "a job/me/%d "+file, &term); err != nil || code != 0 {
			t.Fatalf("code %d, %v: %s", code, err, out)
		}
		if term <= last {
			t.Errorf("term %d after %d", term, last)
		}
		last = term
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	t.Parallel()
	for s, then := range map[syscall.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP"} {
		m := start(t, onFiles(t), "run", "job", "--stop-timeout", "2m", "--", "sh", "-c", "trap 'echo has got it; exit 5' "+then+"; echo ready; while :; do sleep 0.05; done")
		m.says("ready")
		m.Process.Signal(s)
		if code := m.code(); code != 5 || !strings.Contains(m.output.String(), "has got it") {
			t.Errorf("%v: code %d, expected that of the command, 5:\n%s", s, code, m.output.String())
		}
	}
}

// Under timeout(1) a signal comes twice. That is one event.
func TestASignalThatComesTwiceKillsNoCommand(t *testing.T) {
	t.Parallel()
	m := start(t, onFiles(t), "run", "job", "--", "sh", "-c", "trap 'sleep 0.2; exit 5' TERM; echo ready; while :; do sleep 0.05; done")
	m.says("ready")
	for began := time.Now(); time.Since(began) < 30*time.Millisecond; {
		m.Process.Signal(syscall.SIGTERM)
	}
	if code := m.code(); code != 5 {
		t.Errorf("code %d, expected that of the command, 5:\n%s", code, m.output.String())
	}
}

// Nobody reads what elect says: the pipe is full, or closed. It leads, and ends when it is asked to.
func TestElectEndsThoughNobodyReadsItsMessages(t *testing.T) {
	t.Parallel()
	read, closed, err := os.Pipe()
	testbed.NoError(t, errors.Join(err, read.Close()))
	for what, stderr := range map[string]*os.File{"full": testbed.FullPipe(t), "closed": closed} {
		m := program(t, onFiles(t), binary, "run", "job", "--", "sh", "-c", "exec 2>&1; trap 'exit 5' TERM; while :; do echo ready; sleep 0.05; done")
		m.stderr = stderr
		m.run()
		m.says("ready")
		m.Process.Signal(syscall.SIGTERM)
		if code := m.code(); code != 5 {
			t.Errorf("%s: code %d, expected that of the command, 5", what, code)
		}
		m = program(t, onFiles(t), binary, "run", "job", "--", "no-such-command")
		m.stderr = stderr
		m.run()
		if code := m.code(); code != exitNotFound {
			t.Errorf("%s: code %d after an error, expected %d", what, code, exitNotFound)
		}
	}
}

// A store that is new, or was restarted, may keep everybody from leading for a while. Elect says why and until when, in one
// line for all slots, and when that is over.
func TestRunSaysWhyNobodyCanLead(t *testing.T) {
	t.Parallel()
	m := start(t, on(t, "redis", "ELECTION_TTL=2s", "ELECTION_REDIS_MAX_TTL=5s"), "run", "job", "--slots", "20", "--", "sleep", "300")
	m.says("elections can be won again")
	m.says("elect: leads")
	if out := m.output.String(); strings.Count(out, "nobody") != 1 || !strings.Contains(out, "the store is new") || !strings.Contains(out, "until=") {
		t.Errorf("it says:\n%s", out)
	}
}

func TestAFollowerEndsWithCodeZero(t *testing.T) {
	t.Parallel()
	env := onFiles(t)
	start(t, env, "run", "job", "--id", "other", "--", "sleep", "300").says("elect: leads")
	m := start(t, env, "run", "job", "--", "sleep", "300")
	m.says(`"other" leads`)
	m.Process.Signal(syscall.SIGTERM)
	if code := m.code(); code != 0 {
		t.Errorf("code %d:\n%s", code, m.output.String())
	}
}

// The store is unreachable for longer than the lease lasts. The command, sleep, ends at SIGTERM, as most commands do.
func TestACommandStartsAgainAfterALostLease(t *testing.T) {
	t.Parallel()
	s := testbed.Shared(t, testbed.MariaDB)
	d, proxy := s.Database(t), s.Proxy(t)
	testbed.NoError(t, mysql.CreateTables(t.Context(), testbed.OpenDB(t, d.Admin), "", ""))
	m := start(t, environ("ELECTION_BACKEND=mysql", "ELECTION_TTL=3s", "ELECTION_MYSQL_DSN="+proxy.Config(d.User).FormatDSN()),
		"run", "job", "--", "sleep", "300")
	m.says("elect: leads")
	proxy.Cut(true)
	m.says("the lease is about to expire: ending the command")
	m.says("it starts again when this process leads again")
	m.says(`no longer leads "job": store unreachable`) // and not that it stepped down
	proxy.Cut(false)
	testbed.Eventually(t, patience, "the command to be started again", func() error {
		if strings.Count(m.output.String(), "elect: leads") < 2 || m.hasEnded() {
			return errors.New(m.output.String())
		}
		return nil
	})
	if out, code := call(t, m.Env, "history", "job"); code != 0 || !strings.Contains(out, "failed") || strings.Contains(out, "released") {
		t.Errorf("the history has an orderly end and no failure, code %d:\n%s", code, out)
	}
}

// While the store is unreachable, elect ends at the latest when the lease has expired. A second signal ends it at once.
func TestElectEndsWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	s := testbed.Shared(t, testbed.MariaDB)
	for _, signals := range []int{1, 2} {
		t.Run(fmt.Sprint("signals=", signals), func(t *testing.T) {
			t.Parallel()
			d, proxy := s.Database(t), s.Proxy(t)
			testbed.NoError(t, mysql.CreateTables(t.Context(), testbed.OpenDB(t, d.Admin), "", ""))
			env := environ("ELECTION_BACKEND=mysql", "ELECTION_TTL=15s", "ELECTION_MYSQL_DSN="+proxy.Config(d.User).FormatDSN())
			m := start(t, env, "run", "job", "--", "sleep", "300")
			m.says("elect: leads")
			proxy.Cut(true)
			m.Process.Signal(syscall.SIGTERM)
			m.says("ending the command, then the leadership")
			want := "before its release was confirmed"
			if signals == 2 {
				m.says("the command has ended, code 143") // elect knows it, not only the kernel
				m.Process.Signal(syscall.SIGINT)
				want = "interrupt again: not waiting for the release; the lease will expire"
			}
			if code := m.code(); code != 128+int(syscall.SIGTERM) || !strings.Contains(m.output.String(), want) {
				t.Errorf("code %d, want that of sleep, and %q:\n%s", code, want, m.output.String())
			}
			if strings.Contains(m.output.String(), "context deadline exceeded") && signals == 2 {
				t.Errorf("the last error says nothing useful:\n%s", m.output.String())
			}
		})
	}
}

// A process that may not lead must say so at the start, and not when it is needed.
func TestElectEndsIfTheStoreDeniesAccess(t *testing.T) {
	t.Parallel()
	d := testbed.Shared(t, testbed.MariaDB).Database(t)
	testbed.NoError(t, mysql.CreateTables(t.Context(), testbed.OpenDB(t, d.Admin), "", ""))
	wrong := d.User.Clone()
	wrong.Passwd = "hunter2"
	for what, env := range map[string][]string{
		"a wrong password": environ("ELECTION_BACKEND=mysql", "ELECTION_MYSQL_DSN="+wrong.FormatDSN()),
		"no right to lead": withRights(t, d, "SELECT"),
	} {
		if out, code := call(t, env, "run", "job", "--", "sleep", "300"); code != exitElect || !strings.Contains(out, "denied") || strings.Contains(out, "hunter2") {
			t.Errorf("%s: code %d, want %d and what is denied:\n%s", what, code, exitElect, out)
		}
	}
}

// No waiting helps a candidate whom the store will never accept: here the name is too long for the column.
func TestElectEndsIfTheStoreNeverAcceptsIt(t *testing.T) {
	t.Parallel()
	d := testbed.Shared(t, testbed.MariaDB).Database(t)
	d.Exec(t, `CREATE TABLE leader_election (service_id varchar(50) NOT NULL PRIMARY KEY, leader_id varchar(50) NOT NULL DEFAULT '',
 update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)`)
	if out, code := call(t, onDSN(t, "mysqltable", d.Admin), "schema", "--apply"); code != 0 {
		t.Fatalf("code %d: %s", code, out)
	}
	env := append(onDSN(t, "mysqltable", d.User), "ELECTION_TTL=1s")
	if out, code := call(t, env, "run", strings.Repeat("x", 51), "--", "true"); code != exitElect || !strings.Contains(out, "choose another name") {
		t.Errorf("code %d, want %d and what to do:\n%s", code, exitElect, out)
	}
}

// unshared runs elect as process 1 of a PID namespace.
func unshared(t *testing.T, flags []string, args ...string) (out string, code int) {
	t.Helper()
	flags = append(flags, "-f", "-p", "--kill-child")
	if os.Geteuid() != 0 {
		flags = append(flags, "-r")
	}
	m := program(t, onFiles(t), "unshare", append(append(flags, binary), args...)...)
	m.run()
	code = m.code()
	return m.output.String(), code
}

// In a container elect is process 1. The first command kills its guard and leaves an orphan. The
// second command checks that the orphan has ended and was reaped.
func TestElectCanBeProcessOne(t *testing.T) {
	t.Parallel()
	flag := filepath.Join(t.TempDir(), "flag")
	script := `if [ -e ` + flag + ` ]; then
  for s in /proc/[0-9]*/stat; do read -r line < $s; case "$line" in *"(sleep)"*) exit 8;; esac; done
  exit 7
fi
touch ` + flag + `; setsid sleep 300 & kill -9 $PPID; wait`
	if out, code := unshared(t, []string{"--mount-proc"}, "run", "job", "--", "sh", "-c", script); code != 7 {
		t.Errorf("code %d, expected 7 of the second command (8: an orphan was left):\n%s", code, out)
	}
}

// In the /proc of another PID namespace, process ids are those of other processes.
func TestElectRefusesAForeignProc(t *testing.T) {
	t.Parallel()
	if out, code := unshared(t, nil, "run", "job", "--", "true"); code != exitElect || !strings.Contains(out, "--mount-proc") {
		t.Errorf("code %d, expected %d and what to do:\n%s", code, exitElect, out)
	}
}

func TestGraceAndReserveFitIntoTheLease(t *testing.T) {
	t.Parallel()
	o := election.Options{TTL: 10 * time.Second, RenewEvery: 3 * time.Second, CallTimeout: 2 * time.Second, ClockMargin: 2 * time.Second}
	l, err := limits{stop: time.Second}.complete(o)
	if slack := o.TTL - o.RenewEvery - o.CallTimeout - o.ClockMargin; err != nil || l.grace+l.reserve >= slack {
		t.Errorf("by default %v + %v, %v: a renewal that hangs for CallTimeout would end the command before the next renewal", l.grace, l.reserve, err)
	}
	for _, bad := range []limits{{grace: 5 * time.Second}, {grace: 4900 * time.Millisecond, reserve: 100 * time.Millisecond}, {grace: -1}, {reserve: -1}, {stop: -1}, {reserve: 1}} {
		if l, err := bad.complete(o); err == nil {
			t.Errorf("%+v was accepted as %+v", bad, l)
		}
	}
}

// When its terminal hangs up, a leader ends through its command, and a follower ends at once. Under
// nohup neither ends. A service has no terminal: "systemctl reload" sends SIGHUP for the command.
func TestAHangUpEndsElectExceptUnderNohup(t *testing.T) {
	t.Parallel()
	env := onFiles(t)
	leader := start(t, env, "run", "job", "--id", "one", "--", "sleep", "3000")
	leader.says("elect: leads")
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	testbed.NoError(t, err)
	defer master.Close()
	testbed.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	testbed.NoError(t, err)
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	testbed.NoError(t, err)
	defer terminal.Close()
	follower := program(t, env, binary, "run", "job", "--id", "two", "--", "sleep", "3000")
	follower.Stdin, follower.SysProcAttr = terminal, &syscall.SysProcAttr{Setsid: true, Setctty: true}
	service := program(t, env, binary, "run", "job", "--id", "four", "--", "sleep", "3000")
	service.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	for _, m := range []*member{follower, service} {
		m.run()
		m.says(`"one" leads`)
	}
	for _, m := range []*member{service, follower, leader} {
		testbed.NoError(t, m.Process.Signal(syscall.SIGHUP))
	}
	if code := follower.code(); code != 0 {
		t.Errorf("the follower: code %d", code)
	}
	if code := leader.code(); code != 128+int(syscall.SIGHUP) {
		t.Errorf("the leader: code %d", code)
	}
	service.says("elect: leads")
	testbed.NoError(t, service.Process.Signal(syscall.SIGTERM))
	service.code()

	quiet := program(t, env, "nohup", binary, "run", "job", "--id", "three", "--", "sh", "-c", "kill -HUP $$ $PPID; echo still here; exec sleep 3000")
	quiet.run()
	quiet.says("still here")
	testbed.NoError(t, quiet.Process.Signal(syscall.SIGHUP))
	testbed.NoError(t, quiet.Process.Signal(syscall.SIGTERM))
	if code := quiet.code(); code != 128+int(syscall.SIGTERM) {
		t.Errorf("under nohup: code %d:\n%s", code, quiet.output.String())
	}
}

// On a machine that is short of processors, or reads its programs from a slow disk, the guard may need longer to start than
// the first deadline lasts. The lease is renewed meanwhile.
func TestAGuardThatStartsSlowlyRunsTheCommand(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	m := start(t, onFiles(t, "ELECTION_TTL="+ttl.String()), "run", "job", "--", "sleep", "300")
	guard := 0
	for ; guard == 0 && !m.hasEnded(); guard = m.descendants()["elect-guard"] {
	}
	syscall.Kill(guard, syscall.SIGSTOP)
	stopped := boottime()
	testbed.Eventually(t, patience, "the first deadline is over", func() error {
		if boottime() < stopped+ttl {
			return errors.New("not yet")
		}
		return nil
	})
	syscall.Kill(guard, syscall.SIGCONT)
	m.says("runs")
	if text := m.output.String(); strings.Contains(text, "has ended") {
		t.Errorf("the guard has not waited for a later deadline:\n%s", text)
	}
}

func TestACommandThatIsStoppedIsSaid(t *testing.T) {
	t.Parallel()
	m := start(t, onFiles(t), "run", "job", "--", "sh", "-c", "kill -TTIN $$; exit 4") // as who asks a terminal for a password
	m.says("leads on: stopped (tty input)")
	pid := m.descendants()["sh"]
	testbed.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	if code := m.code(); code != 4 {
		t.Errorf("code %d, want 4:\n%s", code, m.output.String())
	}
}
