//go:build linux

package electionguard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/electionguard"
	"github.com/go-election/go-election/lab/testbed"
)

func TestMain(m *testing.M) {
	electionguard.Main(func(_ context.Context, store []byte) (backend.Backend, error) {
		return ledger{path: string(store)}, nil
	})
	if os.Getenv("GUARDED") != "" {
		program()
		return
	}
	os.Exit(m.Run())
}

// A ledger is the store of these tests: a file in which a guard notes what it releases.
type ledger struct {
	backend.Backend
	path string
}

func (l ledger) Adopt(nonce backend.Nonce, _ []backend.Held) error {
	return l.write("for %s:", string(nonce))
}

func (l ledger) Release(_ context.Context, held []backend.Held) error {
	for _, h := range held {
		if err := l.write(" %s/%d %s;", h.Election, h.Term, h.End); err != nil {
			return err
		}
	}
	return l.write("\n")
}

func (ledger) Observe(context.Context, []backend.Lease) ([]backend.Lease, error) { return nil, nil }

func (ledger) Close() error { return nil }

func (l ledger) write(format string, args ...any) error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, format, args...)
	return err
}

var memory []byte // to be dumped

// program is the process that is guarded. It holds "jobs" in term 7, has bid on "mail", and held "old"
// until it was released. Then it does what it reads.
func program() {
	o := electionguard.Options{Store: []byte(os.Getenv("GUARDED")), Logger: slog.New(slog.NewTextHandler(os.Stdout, nil))}
	o.Grace, _ = time.ParseDuration(os.Getenv("GRACE"))
	say := func(text string) { fmt.Println(text) }
	if os.Getenv("CHILD_FIRST") != "" {
		say(fmt.Sprint("child ", spawn("/usr/bin/sleep", 0)))
	}
	guards := []*electionguard.Guard{start(o)}
	say("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		word, arg, _ := strings.Cut(in.Text(), " ")
		switch word {
		case "exit":
			os.Exit(3)
		case "panic":
			panic("of the test")
		case "another-guard":
			guards = append(guards, start(o))
		case "close":
			for _, g := range guards {
				g.Close()
			}
		case "exec":
			syscall.Exec(arg, strings.Fields(arg+" 1000"), os.Environ())
		case "spawn":
			path, files, _ := strings.Cut(arg, " ")
			n, _ := strconv.Atoi(files)
			say(fmt.Sprint("child ", spawn(path, n)))
			continue
		case "lose-files":
			files, _ := os.ReadDir("/proc/self/fd")
			for _, f := range files {
				target, _ := os.Readlink("/proc/self/fd/" + f.Name())
				if fd, _ := strconv.Atoi(f.Name()); fd > 2 && strings.HasPrefix(target, "pipe:") {
					syscall.Close(fd)
				}
			}
		case "dump":
			syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{Cur: math.MaxUint64, Max: math.MaxUint64})
			memory = make([]byte, 256<<20)
			for i := range memory {
				memory[i] = byte(i)
			}
		case "release":
			guards[0].Released([]backend.Held{{Election: "jobs"}, {Election: "mail"}})
		case "many":
			n, _ := strconv.Atoi(arg)
			hold(guards[0], n)
		}
		say("done")
	}
}

// spawn starts a child that lives on, with files of its own.
func spawn(path string, files int) (pid int) {
	cmd := exec.Command(path, "1000")
	for range files {
		f, err := os.Open(os.DevNull)
		if err != nil {
			panic(err)
		}
		defer f.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd.Process.Pid
}

func start(o electionguard.Options) *electionguard.Guard {
	g, err := electionguard.Start(o)
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	me := backend.Candidate{ID: "a", Nonce: "0123456789abcdef"}
	ttl, err := time.ParseDuration(os.Getenv("TTL"))
	if err != nil {
		ttl = time.Minute // no test waits for it
	}
	bids := []backend.Bid{{Election: "jobs", Candidate: me, TTL: ttl}, {Election: "mail", Candidate: me, TTL: ttl}, {Election: "old", Candidate: me, TTL: ttl}}
	g.Bidding(bids)
	g.Answered(bids, []backend.Answer{{Outcome: backend.Granted, Lease: backend.Lease{Term: 7}}, {Err: errors.New("no answer")}, {Outcome: backend.Granted, Lease: backend.Lease{Term: 3}}})
	g.Released([]backend.Held{{Election: "old", Term: 3}})
	return g
}

// hold holds n more elections.
func hold(g *electionguard.Guard, n int) {
	bids, answers := make([]backend.Bid, n), make([]backend.Answer, n)
	for i := range bids {
		bids[i] = backend.Bid{Election: fmt.Sprintf("many/%05d", i), Candidate: backend.Candidate{ID: "a", Nonce: "0123456789abcdef"}, TTL: 10 * time.Second}
		answers[i] = backend.Answer{Outcome: backend.Granted, Lease: backend.Lease{Term: 1}}
	}
	g.Bidding(bids)
	g.Answered(bids, answers)
}

// released is what a guard writes when the program has ended.
const released = "for 0123456789abcdef: jobs/7 failed; mail/0 failed;\n"

// A guarded is a program with a guard.
type guarded struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.Writer
	out    *bufio.Scanner
	ledger string

	lastChild int
}

func startGuarded(t *testing.T, environ ...string) *guarded {
	t.Helper()
	p := &guarded{t: t, ledger: filepath.Join(t.TempDir(), "ledger")}
	p.cmd = exec.Command(os.Args[0])
	if slices.Contains(environ, "UNSHARED=1") { // as process 1
		p.cmd = exec.Command("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", os.Args[0])
	}
	p.cmd.Dir = t.TempDir()
	p.cmd.Env = append(os.Environ(), append(environ, "GUARDED="+p.ledger)...)
	if p.cmd.Stderr = os.Stderr; slices.Contains(environ, "STDERR=full") {
		p.cmd.Stderr = testbed.FullPipe(t)
	}
	in, err := p.cmd.StdinPipe()
	testbed.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	testbed.NoError(t, err)
	testbed.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		p.cmd.Process.Signal(syscall.SIGCONT)
		p.cmd.Process.Kill()
		p.cmd.Wait()
	})
	p.in, p.out = in, bufio.NewScanner(out)
	if slices.Contains(environ, "CHILD_FIRST=1") {
		p.child()
	}
	p.hear("ready")
	return p
}

// hear reads lines until one begins with a word, and returns that.
func (p *guarded) hear(word string) string {
	p.t.Helper()
	for p.out.Scan() {
		if strings.HasPrefix(p.out.Text(), word) {
			return p.out.Text()
		}
		p.t.Log(p.out.Text())
	}
	p.t.Fatalf("the program ended before it said %q", word)
	return ""
}

// child is the child that the program has started. It ends with the test.
func (p *guarded) child() (pid int) {
	p.t.Helper()
	pid, err := strconv.Atoi(strings.TrimPrefix(p.hear("child "), "child "))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
	p.lastChild = pid
	return pid
}

// do has the program do something, and waits until it has.
func (p *guarded) do(what string) { p.t.Helper(); p.order(what); p.hear("done") }

func (p *guarded) order(what string) { fmt.Fprintln(p.in, what) }

func (p *guarded) kill() { p.cmd.Process.Kill() }

func (p *guarded) written() string {
	text, _ := os.ReadFile(p.ledger)
	return string(text)
}

// wantReleased waits until the guard has released.
func (p *guarded) wantReleased(want string) {
	p.t.Helper()
	testbed.Eventually(p.t, 30*time.Second, "the guard releases", func() error {
		if got := p.written(); got != want {
			return fmt.Errorf("%q, want %q", got, want)
		}
		return nil
	})
}

// wantNothing watches for a moment that the guard releases nothing.
func (p *guarded) wantNothing(while string) {
	p.t.Helper()
	for begin := time.Now(); time.Since(begin) < time.Second; <-time.After(20 * time.Millisecond) {
		if got := p.written(); got != "" {
			p.t.Fatalf("%s: the guard has released %q", while, got)
		}
	}
}

// wantGuardEnds waits until the guard has ended after the program was ended.
func (p *guarded) wantGuardEnds(end func()) {
	p.t.Helper()
	guards := p.guards()
	if len(guards) != 1 {
		p.t.Fatalf("the guards are %v, want one", guards)
	}
	end()
	testbed.Eventually(p.t, 30*time.Second, "the guard ends", func() error {
		if stat := readAll(fmt.Sprintf("/proc/%d/stat", guards[0])); stat != "" && !strings.Contains(stat, ") Z ") {
			return fmt.Errorf("guard %d is there", guards[0])
		}
		return nil
	})
}

func readAll(name string) string {
	text, _ := os.ReadFile(name)
	return string(text)
}

// parent returns the parent of a process.
func parent(pid int) int {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(rest + " 0 0")
	n, _ := strconv.Atoi(f[1])
	return n
}

// ignoresSignals returns an error while a guard that has just been started may be ended by a signal.
func ignoresSignals(guard int) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", guard))
	_, mask, _ := strings.Cut(string(status), "\nSigIgn:\t")
	mask, _, _ = strings.Cut(mask, "\n")
	if ignored, _ := strconv.ParseUint(mask, 16, 64); err != nil || ignored&(1<<(syscall.SIGUSR2-1)) == 0 {
		return fmt.Errorf("the guard ignores the signals %q: %v", mask, err)
	}
	return nil
}

// descendants returns the children of a process, theirs, and so on.
func descendants(of int) (pids []int) {
	for _, pid := range testbed.Children(of, "") {
		pids = append(append(pids, pid), descendants(pid)...)
	}
	return pids
}

// guards returns the processes that guard the program.
func (p *guarded) guards() (pids []int) {
	return testbed.Children(p.cmd.Process.Pid, "electionguard")
}
