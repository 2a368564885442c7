//go:build linux || darwin

package file

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/register"
)

var dead sync.Map

// Die does to a Backend what the death of its process would: the kernel closes its files.
func Die(b *Backend) {
	if _, again := dead.LoadOrStore(b, true); again {
		return
	}
	b.life.mu.Lock()
	b.life.path = "" // the pipe keeps its name
	b.life.mu.Unlock()
	b.life.end()
	b.store.unshare()
}

// OpenPolled opens a Backend that is told of no changes.
func OpenPolled(o Options) (*Backend, error) {
	b, err := Open(o)
	if err != nil {
		return nil, err
	}
	limits := limits
	limits.MaxTTL = b.store.maxTTL
	b.driver = register.NewDriver(struct{ register.Register }{b.store}, limits)
	b.Backend = lease.New(b.driver)
	return b, nil
}

// RegisterOf returns the register of a Backend.
func RegisterOf(b *Backend) register.Register { return b.store }

// Value returns the value in a directory; nil: there is none.
func Value(t testing.TB, dir string) []byte {
	t.Helper()
	c, err := newStore(dir, 0).read()
	if err != nil {
		t.Fatal(err)
	}
	return c.value
}

// SetValue replaces the value as a process does that has lost its way: it is no copy. Nil removes it.
func SetValue(t testing.TB, dir string, value []byte) {
	t.Helper()
	s := newStore(dir, time.Minute)
	s.dirID, _ = identityOf(dir)
	c, err := s.read()
	if err != nil {
		t.Fatal(err)
	}
	if c.maxTTL != 0 {
		s.maxTTL = c.maxTTL
	}
	if value == nil {
		os.Remove(s.path(c.number))
		return
	}
	if _, err := s.add(s.dirID, c.number+1, value, time.Now()); err != nil {
		t.Fatal(err)
	}
}
