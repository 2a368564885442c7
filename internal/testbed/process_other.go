//go:build !linux

package testbed

import (
	"errors"
	"os"
	"testing"
	"time"
)

// Elsewhere than on Linux nothing makes a server end with the test binary, so
// none is started. The environment variables can name one.

var errNotHere = errors.New("servers are started on Linux only; elsewhere let ELECTION_TEST_MYSQL_DSN or ELECTION_TEST_MARIADB_DSN name one (compose.yaml has both)")

type process struct{ done chan struct{} }

func spawn(command, env []string, log string) (*process, error) { return nil, errNotHere }

func (p *process) pid() int                            { return 0 }
func (p *process) ended() bool                         { return true }
func (p *process) kill()                               {}
func (p *process) terminate(limit time.Duration) error { return errNotHere }
func (p *process) pause(on bool) error                 { return errNotHere }
func freeze(p *os.Process, on bool) error              { return errNotHere }
func scratch() (string, error)                         { return "", errNotHere }
func lock(path string, exclusive bool) (func(), error) { return nil, errNotHere }

// TempDir makes a directory of a test's own.
func TempDir(t testing.TB) string { return t.TempDir() }
