//go:build linux || darwin

package file

import (
	"cmp"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/register"
	"github.com/go-election/go-election/lab/testbed"
)

var dead sync.Map

// Die does to a Backend what the death of its process would: the kernel closes its files.
func Die(b *Backend) {
	if _, again := dead.LoadOrStore(b, true); again {
		return
	}
	b.store.mu.Lock()
	b.store.life.path = "" // the pipe keeps its name
	b.store.mu.Unlock()
	b.store.end()
}

// OpenPolled opens a Backend that is told of no changes.
func OpenPolled(o Options) (*Backend, error) {
	b, err := Open(o)
	if err != nil {
		return nil, err
	}
	b.Backend = lease.New(struct{ lease.Driver }{b.driver})
	return b, nil
}

// RegisterOf returns the register of a Backend.
func RegisterOf(b *Backend) register.Register { return b.store }

// latest reads the value in a directory.
func latest(t testing.TB, dir string) (*os.Root, content) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	testbed.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	c, err := read(root)
	testbed.NoError(t, err)
	return root, c
}

// Value returns the value in a directory; nil: there is none.
func Value(t testing.TB, dir string) []byte {
	t.Helper()
	_, c := latest(t, dir)
	return c.value
}

// SetValue replaces the value as a process does that has lost its way: it is no copy. Nil removes it.
func SetValue(t testing.TB, dir string, value []byte) {
	t.Helper()
	root, c := latest(t, dir)
	if value == nil {
		root.Remove(nameOf(c.number))
		return
	}
	_, err := add(root, &content{number: c.number + 1, value: value, maxTTL: cmp.Or(c.maxTTL, defaultMaxTTL)}, time.Now())
	testbed.NoError(t, err)
}
