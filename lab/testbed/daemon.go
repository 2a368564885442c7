package testbed

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// daemonOptions say what process to run.
type daemonOptions struct {
	kind    Kind
	version string
	addr    string // for clients
	command []string
	env     []string   // added to the environment
	host    *Host      // where it runs; nil: this machine
	dir     string     // see newDir
	ca      *authority // of its certificate; nil: it does not speak TLS

	clock  string        // the file with its clock's offset; "": it has the machine's clock
	offset time.Duration // of the clock when it starts

	// ready returns nil once the server answers. It is called many times. Nil: when it takes connections.
	ready func(ctx context.Context) error
}

// A Daemon is one process of a server. A cluster has one for each node. Its methods are for one
// goroutine at a time, except Addr, Dir, Kind, Version, URL and those about certificates.
type Daemon struct {
	options daemonOptions
	shared  bool          // all tests of the binary use it, so it refuses faults
	offset  time.Duration // of the clock

	mu      sync.Mutex
	process *process // nil: the testbed did not start it
}

// newDir makes a directory for the data, the configuration and the log of one
// daemon. Daemon.remove, or the end of the test binary, removes it.
func newDir() string { return must(os.MkdirTemp(must(scratch()), "")) }

// prepare makes the directory of a daemon, and in it the certificate of one that speaks TLS.
func prepare(kind Kind, version string, tls bool) daemonOptions {
	o := daemonOptions{kind: kind, version: version, dir: newDir()}
	if tls {
		o.ca = newAuthority(o.dir)
	}
	return o
}

// launch starts a daemon without waiting until it answers. The nodes of a cluster
// answer only after all of them have been started.
func launch(o daemonOptions) *Daemon {
	d := &Daemon{options: o, offset: o.offset}
	if o.ready == nil {
		d.options.ready = d.listens
	}
	check(d.spawn())
	return d
}

// launchOnPort launches a daemon on a free port and waits until it answers. If another process was quicker to take
// the port, it tries another one.
func launchOnPort(options func(port int) daemonOptions) *Daemon {
	for try := 1; ; try++ {
		d := launch(options(freePort()))
		err := d.await()
		if err == nil {
			return d
		}
		if try == 5 || !strings.Contains(d.LogTail(), "ddress already in use") {
			d.remove()
			check(err)
		}
		os.Truncate(d.log(), 0)
	}
}

// alreadyRunning is a server that the testbed did not start.
func alreadyRunning(kind Kind, addr string) *Daemon {
	return &Daemon{options: daemonOptions{kind: kind, addr: addr}}
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

// endWithTest stops the daemon at the end of the test, and logs its output if it failed.
func (d *Daemon) endWithTest(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last lines that %s %s wrote:\n%s", d.options.kind, d.options.addr, d.LogTail())
		}
		d.remove()
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

// share implements server.
func (d *Daemon) share() { d.shared = true }

// title names the server in the table at the end of a run.
func (d *Daemon) title() string {
	version := d.options.version
	if d.options.command == nil {
		version += " (already running)"
	}
	return fmt.Sprint(d.options.kind, " ", strings.TrimSpace(version))
}

// URL is where clients reach a server that speaks HTTP: http://… or https://….
func (d *Daemon) URL() string {
	switch {
	case d.options.ca != nil:
		return "https://" + d.options.addr
	case strings.Contains(d.options.addr, "://"):
		return d.options.addr // the environment variable has a URL
	}
	return "http://" + d.options.addr
}

// CAFile is the file with the authority of the server's certificate; "" without TLS.
func (d *Daemon) CAFile() string {
	if d.options.ca == nil {
		return ""
	}
	return d.options.ca.file("ca.pem")
}

// TLSConfig makes a client trust the server. Its RootCAs has only the server's authority. It is nil without TLS.
func (d *Daemon) TLSConfig() *tls.Config {
	if d.options.ca == nil {
		return nil
	}
	return d.options.ca.clientConfig()
}

// ClientFiles makes a certificate of the server's authority for a client of that name, and returns the files of the
// certificate and its key.
func (d *Daemon) ClientFiles(t testing.TB, name string) (cert, key string) {
	t.Helper()
	return d.options.ca.client(t.TempDir(), name)
}

// listens returns nil if the server takes connections.
func (d *Daemon) listens(ctx context.Context) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", d.options.addr)
	if err != nil {
		return err
	}
	return c.Close()
}

// get asks a server by HTTP, and returns the status and the body.
func get(ctx context.Context, url string, config *tls.Config, header http.Header) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	request.Header = header
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 8<<20))
	return answer.StatusCode, string(text), err
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

// requireOwn fails or skips a test that harms a server that does not belong to it.
func (d *Daemon) requireOwn(t testing.TB, what string) {
	t.Helper()
	switch {
	case d.shared:
		t.Fatalf("testbed: %s on a shared server, which other tests use: start one", what)
	case d.options.command == nil:
		t.Skipf("%s needs a %s that the test started, but %s names a running one", what, d.options.kind, d.options.kind.variable())
	}
}

// requireRunning is requireOwn for harm that needs a running process, which it returns.
func (d *Daemon) requireRunning(t testing.TB, what string) *process {
	t.Helper()
	d.requireOwn(t, what)
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
	noError(t, d.requireRunning(t, "Terminate").end(syscall.SIGTERM, endLimit))
}

// Start starts the daemon again after Kill or Terminate, on the same port and
// with the same data, and waits until it answers.
func (d *Daemon) Start(t testing.TB) {
	t.Helper()
	d.requireOwn(t, "Start")
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
	noError(t, d.requireRunning(t, "Stop").pause(true))
}

// Continue resumes a frozen daemon.
func (d *Daemon) Continue(t testing.TB) {
	t.Helper()
	noError(t, d.requireRunning(t, "Continue").pause(false))
}
