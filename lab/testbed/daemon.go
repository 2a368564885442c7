package testbed

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A Daemon is one process of a server. A cluster has one for each node. Its methods are for one
// goroutine at a time, except Addr, Dir, Kind, Version, URL and those about certificates.
type Daemon struct {
	kind    Kind
	version string
	dir     string // see newDir
	addr    string // for clients
	command []string
	env     []string            // added to the environment
	user    *syscall.Credential // as whom it runs; nil: as this process
	host    *Host               // where it runs; nil: this machine
	ca      *authority          // of its certificate; nil: it does not speak TLS

	certs  []tls.Certificate // of the tests; nil: clients need none
	header http.Header       // of the tests' requests

	metrics string // URL of the health and the metrics of an etcd, without TLS

	clock  string        // the file with its clock's offset; "": it has the machine's clock
	offset time.Duration // of the clock

	ready func(ctx context.Context) error // returns nil once the server answers; is called many times
	leads func(ctx context.Context) bool  // as the server says, of its cluster; nil: it has none
	end   os.Signal                       // asks the server to end
	close func()                          // closes what belongs to it; nil: nothing does

	shared  bool // all tests of the binary use it, so it refuses faults
	mu      sync.Mutex
	process *process
}

// newDir makes a directory for the data, the configuration and the log of one
// daemon. Daemon.remove, or the end of the test binary, removes it.
func newDir() string { return must(os.MkdirTemp(must(scratch()), "")) }

// newDaemon makes the directory of a daemon, and in it its certificate and its clock. It is ready when it
// takes connections, and ends by SIGTERM.
func newDaemon(kind Kind, version string, o Options) *Daemon {
	d := &Daemon{kind: kind, version: version, dir: newDir(), end: syscall.SIGTERM}
	d.ready = func(ctx context.Context) error {
		c, err := d.dial(ctx)
		if err == nil {
			c.Close()
		}
		return err
	}
	if o.TLS {
		d.ca = newAuthority(d.dir)
	}
	if o.Clock {
		d.setClock()
	}
	return d
}

// onPort starts the daemon on a free port and waits until it answers.
func (d *Daemon) onPort(command func(port int) []string) *Daemon {
	port := freePort()
	d.addr = loopback(port)
	d.command = command(port)
	check(d.spawn())
	check(d.await())
	return d
}

// spawn starts the process, and does not wait until it answers, which may need the cluster's other nodes.
func (d *Daemon) spawn() error {
	command := d.command
	if d.host != nil {
		command = d.host.command(command)
	}
	p, err := spawn(syscall.SysProcAttr{Credential: d.user}, command, d.env, d.log())
	if err != nil {
		return fmt.Errorf("start %s: %w", d.kind, err)
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
			return fmt.Errorf("%s has ended, %w; it wrote:\n%s", d.kind, errGiveUp, d.logTail())
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := d.ready(ctx); err != nil {
			return fmt.Errorf("%s does not answer: %w; it wrote:\n%s", d.kind, err, d.logTail())
		}
		return nil
	})
}

// endWithTest stops the daemon at the end of the test, and logs its output if it failed.
func (d *Daemon) endWithTest(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last lines that %s %s wrote:\n%s", d.kind, d.addr, d.logTail())
		}
		d.remove()
	})
}

// remove kills the daemon and removes its data.
func (d *Daemon) remove() {
	if p := d.running(); p != nil {
		p.kill()
	}
	if d.close != nil {
		d.close()
	}
	os.RemoveAll(d.dir)
}

// Kind returns the kind of server.
func (d *Daemon) Kind() Kind { return d.kind }

// Version returns the server's version as it prints it, such as "3.7.3".
func (d *Daemon) Version() string { return d.version }

// Addr returns the host and port for clients. A restart does not change it.
func (d *Daemon) Addr() string { return d.addr }

// Dir returns the directory of this daemon.
func (d *Daemon) Dir() string { return d.dir }

// Host is where a node of a cluster runs.
func (d *Daemon) Host() *Host { return d.host }

func (d *Daemon) log() string { return filepath.Join(d.dir, "log") }

func (d *Daemon) data() string { return filepath.Join(d.dir, "data") }

// SaveData copies the data that a server has on disk, for ReplaceData, and removes the copy after the test.
func (d *Daemon) SaveData(t testing.TB) (saved string) {
	t.Helper()
	saved = filepath.Join(TempDir(t), "data")
	copyData(t, d.data(), saved)
	return saved
}

// ReplaceData replaces the data of a server that does not run by a copy, or with "" by none.
func (d *Daemon) ReplaceData(t testing.TB, saved string) {
	t.Helper()
	NoError(t, os.RemoveAll(d.data()))
	if saved != "" {
		copyData(t, saved, d.data())
	}
}

// copyData copies a directory with its owners.
func copyData(t testing.TB, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("testbed: cp: %v: %s", err, out)
	}
}

// logTail returns the last lines that the daemon wrote.
func (d *Daemon) logTail() string {
	text, err := os.ReadFile(d.log())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

// daemon implements server.
func (d *Daemon) daemon() *Daemon { return d }

// URL is where clients reach a server that speaks HTTP: http://… or https://….
func (d *Daemon) URL() string {
	if d.ca != nil {
		return "https://" + d.addr
	}
	return "http://" + d.addr
}

// CAFile is the file with the authority of the server's certificate; "" without TLS.
func (d *Daemon) CAFile() string {
	if d.ca == nil {
		return ""
	}
	return d.ca.file
}

// TLSConfig makes a client trust the server, and has a client certificate if clients need one. Its RootCAs
// has only the server's authority. It is nil without TLS.
func (d *Daemon) TLSConfig() *tls.Config {
	if d.ca == nil {
		return nil
	}
	pool := x509.NewCertPool()
	pool.AddCert(d.ca.cert)
	return &tls.Config{RootCAs: pool, Certificates: d.certs, ServerName: "127.0.0.1"}
}

// ClientFiles makes a certificate of the server's authority for a client of that name, and returns the files
// of the certificate and its key.
func (d *Daemon) ClientFiles(t testing.TB, name string) (cert, key string) {
	t.Helper()
	return d.ClientFilesUntil(t, name, time.Time{})
}

// ClientFilesUntil makes one that expires then.
func (d *Daemon) ClientFilesUntil(t testing.TB, name string, expires time.Time) (cert, key string) {
	t.Helper()
	return d.ca.client(t.TempDir(), name, expires)
}

// dial connects to the server.
func (d *Daemon) dial(ctx context.Context) (net.Conn, error) {
	if d.ca != nil {
		return (&tls.Dialer{Config: d.TLSConfig()}).DialContext(ctx, "tcp", d.addr)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", d.addr)
}

// Request sends a server that speaks HTTP a request of the administrator, and decodes the answer into into,
// unless it is nil. Body is marshaled as JSON unless it is nil. Any status from 400 on fails the test.
func (d *Daemon) Request(t testing.TB, method, path string, body, into any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), sqlLimit)
	defer cancel()
	NoError(t, d.Try(ctx, method, path, body, into))
}

// Try is Request that returns the error, for goroutines and for what may fail. A status from 400 on is in the
// error's text, as in "404: ". In Kubernetes, a PATCH creates or updates an object; while etcd is dead, an
// answer takes half a minute or more.
func (d *Daemon) Try(ctx context.Context, method, path string, body, into any) error {
	text, err := d.ask(ctx, method, d.URL()+path, body)
	if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("testbed: %s %s: %w", method, path, err)
	}
	return nil
}

// ask sends a request and returns the answer. A status from 400 on is an error.
func (d *Daemon) ask(ctx context.Context, method, url string, body any) (answer []byte, err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	maps.Copy(request.Header, d.header)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/apply-patch+yaml")
	}

	client := http.Client{Transport: &http.Transport{TLSClientConfig: d.TLSConfig(), DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, 32<<20))
	if err == nil && response.StatusCode >= 400 {
		err = fmt.Errorf("%d: %s", response.StatusCode, answer)
	}
	return answer, err
}

// running returns the process, or nil if it has ended.
func (d *Daemon) running() *process {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process.ended() {
		return nil
	}
	return d.process
}

// requireOwn fails a test that harms a server that does not belong to it.
func (d *Daemon) requireOwn(t testing.TB, what string) {
	t.Helper()
	if d.shared {
		t.Fatalf("testbed: %s on a shared server, which other tests use: start one", what)
	}
}

// requireRunning is requireOwn for harm that needs a running process, which it returns.
func (d *Daemon) requireRunning(t testing.TB, what string) *process {
	t.Helper()
	d.requireOwn(t, what)
	p := d.running()
	if p == nil {
		t.Fatalf("testbed: %s: %s %s is not running", what, d.kind, d.addr)
	}
	return p
}

// Running reports whether the process exists, stopped or not.
func (d *Daemon) Running() bool { return d.running() != nil }

// Leads reports whether the server says that it leads its cluster, or is on its own.
func (d *Daemon) Leads(t testing.TB) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return d.leads(ctx)
}

// Kill kills all processes of the daemon at once, as kill -9 does. What it acknowledged is on disk.
func (d *Daemon) Kill(t testing.TB) {
	t.Helper()
	d.requireRunning(t, "Kill").kill()
}

// Terminate asks the daemon to end, without waiting for its clients, and waits until it has ended.
func (d *Daemon) Terminate(t testing.TB) {
	t.Helper()
	p := d.requireRunning(t, "Terminate")
	p.cmd.Process.Signal(d.end)
	select {
	case <-p.done:
	case <-time.After(endLimit):
		t.Fatalf("testbed: %s %s did not end within %v", d.kind, d.addr, endLimit)
	}
}

// Start starts the daemon again after Kill or Terminate, on the same port and
// with the same data, and waits until it answers.
func (d *Daemon) Start(t testing.TB) {
	t.Helper()
	d.requireOwn(t, "Start")
	if d.running() != nil {
		t.Fatalf("testbed: Start: %s %s is running", d.kind, d.addr)
	}
	err := d.spawn()
	if err == nil {
		err = d.await()
	}
	if err != nil {
		t.Fatalf("testbed: start again: %v", err)
	}
}

// Stop freezes all processes of the daemon with SIGSTOP. Connections stay open, the kernel accepts
// new ones, and no request is answered.
func (d *Daemon) Stop(t testing.TB) {
	t.Helper()
	NoError(t, d.requireRunning(t, "Stop").pause(true))
}

// Continue resumes a frozen daemon.
func (d *Daemon) Continue(t testing.TB) {
	t.Helper()
	NoError(t, d.requireRunning(t, "Continue").pause(false))
}
