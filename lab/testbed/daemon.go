package testbed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// daemonOptions say what process to run.
type daemonOptions struct {
	kind    Kind
	version string
	addr    string // for clients
	command []string
	env     []string // added to the environment
	host    *Host    // where it runs; nil: this machine
	dir     string   // see newDir

	// ready returns nil once the server answers. It is called many times.
	ready func(ctx context.Context) error
}

// A Daemon is one process of a server that is not a SQL database. A cluster has one
// for each node. Its methods are for one goroutine at a time, except Addr, Dir, Kind
// and Version.
type Daemon struct {
	options daemonOptions
	shared  bool // all tests of the binary use it, so it refuses faults

	clock  string        // the file with the clock's offset, or empty
	offset time.Duration // of the clock

	mu      sync.Mutex
	process *process // nil: the testbed did not start it
}

// newDir makes a directory for the data, the configuration and the log of one
// daemon. Daemon.remove, or the end of the test binary, removes it.
func newDir() (string, error) {
	root, err := scratch()
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(root, "")
}

// launch starts a daemon without waiting until it answers. The nodes of a cluster
// answer only after all of them have been started.
func launch(o daemonOptions) (*Daemon, error) {
	d := &Daemon{options: o}
	return d, d.spawn()
}

func (d *Daemon) spawn() error {
	command := d.options.command
	if d.options.host != nil {
		command = d.options.host.command(command)
	}
	p, err := spawn(command, d.options.env, d.log())
	if err != nil {
		return fmt.Errorf("start %s: %w", d.options.kind, err)
	}
	d.mu.Lock()
	d.process = p
	d.mu.Unlock()
	return nil
}

// await waits until the daemon answers.
func (d *Daemon) await() error {
	return poll(startLimit, func() error {
		if d.running() == nil {
			return fmt.Errorf("%s has ended, %w; it wrote:\n%s", d.options.kind, errGiveUp, d.LogTail())
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := d.options.ready(ctx); err != nil {
			return fmt.Errorf("%s does not answer: %w; it wrote:\n%s", d.options.kind, err, d.LogTail())
		}
		return nil
	})
}

// endWithTest stops the daemons at the end of the test, and logs their output if it failed.
func endWithTest(t testing.TB, daemons ...*Daemon) {
	t.Cleanup(func() {
		for _, d := range daemons {
			if t.Failed() {
				t.Logf("the last lines that %s %s wrote:\n%s", d.options.kind, d.options.addr, d.LogTail())
			}
			d.remove()
		}
	})
}

// remove kills the daemon and removes its data.
func (d *Daemon) remove() {
	if p := d.running(); p != nil {
		p.kill()
	}
	if d.options.dir != "" {
		os.RemoveAll(d.options.dir)
	}
}

// Kind returns the kind of server.
func (d *Daemon) Kind() Kind { return d.options.kind }

// Version returns the server's version as it prints it, such as "3.7.3".
func (d *Daemon) Version() string { return d.options.version }

// Addr returns the host and port for clients. A restart does not change it.
func (d *Daemon) Addr() string { return d.options.addr }

// Dir returns the directory of this daemon.
func (d *Daemon) Dir() string { return d.options.dir }

func (d *Daemon) log() string { return filepath.Join(d.options.dir, "log") }

// LogTail returns the last lines that the daemon wrote.
func (d *Daemon) LogTail() string {
	text, err := os.ReadFile(d.log())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

// Proxy returns a new proxy to the daemon's address for clients.
func (d *Daemon) Proxy(t testing.TB) *Proxy {
	t.Helper()
	return NewProxy(t, d.options.addr)
}

// running returns the process, or nil if it has ended or the testbed did not start it.
func (d *Daemon) running() *process {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process == nil || d.process.ended() {
		return nil
	}
	return d.process
}

// requireRunning returns the process, and fails the test if the daemon is shared or not
// running.
func (d *Daemon) requireRunning(t testing.TB, what string) *process {
	t.Helper()
	if d.shared {
		t.Fatalf("testbed: %s on a shared server, which other tests use: start one", what)
	}
	p := d.running()
	if p == nil {
		t.Fatalf("testbed: %s: %s %s is not running", what, d.options.kind, d.options.addr)
	}
	return p
}

// Running reports whether the process exists, stopped or not.
func (d *Daemon) Running() bool { return d.running() != nil }

// Pid returns the id of the daemon's process.
func (d *Daemon) Pid(t testing.TB) int {
	t.Helper()
	return d.requireRunning(t, "Pid").pid()
}

// Kill kills the daemon at once, as kill -9 does.
func (d *Daemon) Kill(t testing.TB) {
	t.Helper()
	d.requireRunning(t, "Kill").kill()
}

// Terminate sends SIGTERM and waits until the daemon has ended.
func (d *Daemon) Terminate(t testing.TB) {
	t.Helper()
	if err := d.requireRunning(t, "Terminate").terminate(endLimit); err != nil {
		t.Fatal(err)
	}
}

// Start starts the daemon again after Kill or Terminate, on the same port and
// with the same data, and waits until it answers.
func (d *Daemon) Start(t testing.TB) {
	t.Helper()
	if d.running() != nil {
		t.Fatalf("testbed: Start: %s %s is running", d.options.kind, d.options.addr)
	}
	err := d.spawn()
	if err == nil {
		err = d.await()
	}
	if err != nil {
		t.Fatalf("testbed: start again: %v", err)
	}
}

// Stop freezes the daemon with SIGSTOP. Connections stay open, the kernel accepts
// new ones, and no request is answered.
func (d *Daemon) Stop(t testing.TB) {
	t.Helper()
	if err := d.requireRunning(t, "Stop").pause(true); err != nil {
		t.Fatal(err)
	}
}

// Continue resumes a frozen daemon.
func (d *Daemon) Continue(t testing.TB) {
	t.Helper()
	if err := d.requireRunning(t, "Continue").pause(false); err != nil {
		t.Fatal(err)
	}
}
