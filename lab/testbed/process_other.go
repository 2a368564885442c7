//go:build !linux

package testbed

import (
	"errors"
	"os"
	"testing"
	"time"
)

// Only on Linux can a server be made to end with the test binary, so the testbed starts
// none elsewhere. The environment variables can name running servers.

var errNotHere = errors.New("the testbed starts servers on Linux only; elsewhere set ELECTION_TEST_MYSQL_DSN or ELECTION_TEST_MARIADB_DSN to a running one (compose.yaml has both)")

type process struct{ done chan struct{} }

func spawn(command, env []string, log string) (*process, error) { return nil, errNotHere }

func (p *process) pid() int                           { return 0 }
func (p *process) ended() bool                        { return true }
func (p *process) kill()                              {}
func (p *process) end(os.Signal, time.Duration) error { return errNotHere }
func (p *process) pause(on bool) error                { return errNotHere }
func freeze(p *os.Process, on bool) error             { return errNotHere }
func scratch() (string, error)                        { return "", errNotHere }

// TempDir makes a directory for one test.
func TempDir(t testing.TB) string { return t.TempDir() }

// Threads returns how many threads of a process are stopped by a signal, and how many are not.
func Threads(pid int) (stopped, others int) { return 0, 0 }
