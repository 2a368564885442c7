package elect

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/lab/testbed"
)

// binary is the path of elect, built as for a release.
var binary string

// The test binary is also the command that elect runs. The command, and a process that it starts
// in another session, write to a history file when they are alive.
const (
	historyFile  = "ELECT_TEST_HISTORY"    // the path of the file
	isDescendant = "ELECT_TEST_DESCENDANT" // not empty in the process that the command starts
)

func TestMain(m *testing.M) {
	if file := os.Getenv(historyFile); file != "" {
		runCommand(file)
	}
	if signal.Ignored(syscall.SIGHUP) { // by nohup; the processes that the tests start must handle it
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	dir, err := os.MkdirTemp("", "elect")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "elect")
	build := exec.Command("go", "build", "-o", binary, "../../cmd/elect")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func init() {
	if os.Getenv(isDescendant) != "" {
		runtime.LockOSThread() // the first one of the process
	}
}

// runCommand is a command that ignores signals to end, and starts a child that does too. The first thread of the child
// ends, as by pthread_exit(3): then the process looks like a zombie, and works on.
func runCommand(file string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if os.Getenv(isDescendant) == "" {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), isDescendant+"=yes")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			panic(err)
		}
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	beat := func() {
		for {
			fmt.Fprintf(f, "%s %d %d\n", os.Getenv("ELECTION_TERM"), os.Getpid(), boottime())
			time.Sleep(5 * time.Millisecond)
		}
	}
	if os.Getenv(isDescendant) != "" {
		go beat()
		syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
	}
	beat()
}

// A heartbeat is a line of the history: a process was alive in a term.
type heartbeat struct {
	term uint64
	pid  int
	at   time.Duration
}

func readHistory(t testing.TB, file string) (heartbeats []heartbeat) {
	t.Helper()
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if !strings.HasSuffix(line, "\n") || len(f) != 3 {
			continue // a process is just writing it
		}
		term, err1 := strconv.ParseUint(f[0], 10, 64)
		pid, err2 := strconv.Atoi(f[1])
		at, err3 := strconv.ParseInt(f[2], 10, 64)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatalf("the history has the line %q: %v", line, err)
		}
		heartbeats = append(heartbeats, heartbeat{term, pid, time.Duration(at)})
	}
	return heartbeats
}

// checkHistory fails the test if commands of two terms were alive at the same time. It returns the number of terms.
func checkHistory(t testing.TB, file string) int {
	t.Helper()
	first, last := map[uint64]time.Duration{}, map[uint64]time.Duration{}
	for _, b := range readHistory(t, file) {
		if at, ok := first[b.term]; !ok || b.at < at {
			first[b.term] = b.at
		}
		last[b.term] = max(last[b.term], b.at)
	}
	for x := range first {
		for y := range first {
			if x < y && first[y] <= last[x] {
				t.Errorf("TWO AT ONCE: a command of term %d was alive until %v, one of term %d since %v: %v together",
					x, last[x], y, first[y], last[x]-first[y])
			}
		}
	}
	return len(first)
}

// A member is an "elect run" of a test.
type member struct {
	*exec.Cmd
	t      testing.TB
	output lockedBuffer
	stderr io.Writer // nil: output
	ended  chan struct{}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// environ returns the environment of elect in a test, without variables of the configuration except extra.
func environ(extra ...string) (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ELECTION_") {
			env = append(env, v)
		}
	}
	return append(env, extra...)
}

// patience is how long each step may take on a very busy machine.
const patience = 3 * time.Minute

// longTTL is long enough that no process loses its leadership because the machine is busy. On files
// it slows down only the handovers that an operator requests.
const longTTL = "ELECTION_TTL=30s"

// onFiles returns the environment for the file backend in a new directory.
func onFiles(t testing.TB, extra ...string) []string {
	t.Helper()
	files := []string{"ELECTION_BACKEND=file", longTTL, "ELECTION_FILE_DIR=" + filepath.Join(testbed.TempDir(t), "leases")}
	return environ(append(files, extra...)...)
}

// on returns the environment for a store on a real server.
func on(t *testing.T, store string, extra ...string) []string {
	t.Helper()
	own := "elect-" + string(backend.NewNonce()[:8])
	var vars []string
	switch store {
	case "mysql":
		vars = onServer(t, testbed.Shared(t, testbed.MariaDB))
	case "redis":
		vars = []string{"ELECTION_REDIS_ADDRESSES=" + testbed.SharedRedis(t).Addr(), "ELECTION_REDIS_PREFIX=" + own}
	case "etcd":
		vars = []string{"ELECTION_ETCD_ENDPOINTS=" + strings.Join(testbed.SharedEtcd(t), ","), "ELECTION_ETCD_PREFIX=" + own + "/"}
	case "consul":
		vars = []string{"ELECTION_CONSUL_ADDRESS=" + testbed.SharedConsul(t).URL(), "ELECTION_CONSUL_PREFIX=" + own}
	case "zookeeper":
		vars = []string{"ELECTION_ZOOKEEPER_SERVERS=" + strings.Join(testbed.SharedZooKeeper(t), ","), "ELECTION_ZOOKEEPER_ROOT=/" + own}
	case "curator":
		vars = []string{"ELECTION_CURATOR_SERVERS=" + strings.Join(testbed.SharedZooKeeper(t), ","), "ELECTION_CURATOR_ROOT=/" + own}
	}
	return environ(append(append(vars, "ELECTION_BACKEND="+store), extra...)...)
}

func start(t testing.TB, env []string, args ...string) *member {
	t.Helper()
	m := program(t, env, binary, args...)
	m.run()
	return m
}

// program returns a program that is to be run.
func program(t testing.TB, env []string, name string, args ...string) *member {
	m := &member{Cmd: exec.Command(name, args...), t: t, ended: make(chan struct{})}
	m.Env = env
	return m
}

func (m *member) run() {
	m.t.Helper()
	m.Stdout, m.Stderr = &m.output, cmp.Or[io.Writer](m.stderr, &m.output)
	m.WaitDelay = 10 * time.Second
	if err := m.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() { m.Wait(); close(m.ended) }()
	m.t.Cleanup(func() {
		m.Process.Kill()
		<-m.ended
	})
}

// code waits until m has ended. It returns the exit code, or the negative number of the signal.
func (m *member) code() int {
	m.t.Helper()
	select {
	case <-m.ended:
	case <-time.After(patience):
		m.t.Fatalf("%q has not ended:\n%s", m.Args, m.output.String())
	}
	if ws := m.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		return -int(ws.Signal())
	}
	return m.ProcessState.ExitCode()
}

func (m *member) hasEnded() bool {
	select {
	case <-m.ended:
		return true
	default:
		return false
	}
}

func (m *member) says(text string) {
	m.t.Helper()
	testbed.Eventually(m.t, patience, fmt.Sprintf("%q prints %q", m.Args, text), func() error {
		if !strings.Contains(m.output.String(), text) {
			return fmt.Errorf("it prints:\n%s", m.output.String())
		}
		return nil
	})
}

func call(t testing.TB, env []string, args ...string) (out string, code int) {
	t.Helper()
	m := start(t, env, args...)
	code = m.code()
	return m.output.String(), code
}

// descendants returns the process ids of the living descendants of m by name.
func (m *member) descendants() map[string]int {
	list := map[string]int{}
	all, _ := descendants(m.Process.Pid)
	for _, p := range all {
		args, _ := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/cmdline")
		name, _, _ := strings.Cut(string(args), "\x00")
		if !p.zombie {
			list[filepath.Base(name)] = p.pid
		}
	}
	return list
}
