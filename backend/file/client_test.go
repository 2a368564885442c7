//go:build linux || darwin

package file_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/file"
)

const ttl = 10 * time.Second

// A client is the backend of one candidate, without a manager.
type client struct {
	*file.Backend
	t  *testing.T
	me backend.Candidate
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Die(b) })
	return &client{b, t, backend.Candidate{ID: id, Nonce: backend.NewNonce()}}
}

func (c *client) observe(name string) backend.Lease {
	c.t.Helper()
	l, err := c.Observe(c.t.Context(), []backend.Lease{{Election: name}})
	if err != nil {
		c.t.Fatal(err)
	}
	return l[0]
}

func (c *client) try(expected backend.Lease) (backend.Answer, error) {
	got, err := c.Acquire(c.t.Context(), []backend.Bid{{Election: expected.Election, Candidate: c.me, TTL: ttl, Renew: ttl / 3, Expected: expected}})
	if err != nil {
		return backend.Answer{}, err
	}
	return got[0], nil
}

func (c *client) bid(expected backend.Lease) backend.Answer {
	c.t.Helper()
	got, err := c.try(expected)
	if err != nil {
		c.t.Fatal(err)
	}
	if got.Outcome == backend.Unknown {
		c.t.Fatal(got.Err)
	}
	return got
}

// win bids for a lease that is free.
func (c *client) win(name string) backend.Lease {
	c.t.Helper()
	a := c.bid(c.observe(name))
	if a.Outcome != backend.Granted {
		c.t.Fatalf("expected a bid of %s to be granted, got %v with %+v", c.me.ID, a.Outcome, a.Lease)
	}
	return a.Lease
}

func (c *client) renew(l backend.Lease) backend.Answer {
	c.t.Helper()
	got, err := c.Renew(c.t.Context(), []backend.Held{l.Held()})
	if err != nil {
		c.t.Fatal(err)
	}
	return got[0]
}

func (c *client) release(l backend.Lease) {
	c.t.Helper()
	l.End = backend.Released
	if err := c.Release(c.t.Context(), []backend.Held{l.Held()}); err != nil {
		c.t.Fatal(err)
	}
}

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o600) }

// newDir makes a directory that Open accepts.
func newDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "election")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}
