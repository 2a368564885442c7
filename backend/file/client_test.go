//go:build linux || darwin

package file_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/file"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

const ttl = 10 * time.Second

// A client is the backend of one candidate, without a manager.
type client struct {
	*file.Backend
	*drivertest.Candidate
}

// open opens a Backend that polls, because a synctest bubble does not know that a read from the kernel blocks.
func open(t *testing.T, dir, id string) *client {
	t.Helper()
	return newClient(t, id, file.Options{Dir: dir}, file.OpenPolled)
}

func openWith(t *testing.T, id string, o file.Options) *client {
	t.Helper()
	return newClient(t, id, o, file.Open)
}

func newClient(t *testing.T, id string, o file.Options, open func(file.Options) (*file.Backend, error)) *client {
	t.Helper()
	b, err := open(o)
	testbed.NoError(t, err)
	t.Cleanup(func() { file.Die(b) })
	return &client{b, drivertest.NewCandidate(t, b, id, ttl)}
}

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o600) }

// newDir makes a directory that Open accepts.
func newDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "election")
	testbed.NoError(t, os.Mkdir(dir, 0o700))
	return dir
}
