//go:build linux

package chaos

import (
	"net"
	"net/rpc"
	"slices"
	"sync"
	"time"
)

// A Resource is what leaders write to. It lives in the harness, into which no faults are
// injected. For each election it has a fenced cell, which refuses a term below the
// greatest that it has accepted, and a cell without a fence.
type Resource struct {
	listener net.Listener

	mu    sync.Mutex
	cells map[string]*cell
	log   []Write
}

type cell struct {
	fence  uint64 // greatest term that the fenced cell has accepted
	newest uint64 // greatest term in which the other cell was written
}

// A Write is one write as it arrived at the resource.
type Write struct {
	At       time.Duration `json:"at"`
	Process  string        `json:"process"`
	Election string        `json:"election"`
	Term     uint64        `json:"term"`
	Number   int           `json:"number"`
	Accepted bool          `json:"accepted"` // by the fenced cell
	Stale    bool          `json:"stale"`    // the other cell accepted it after a write in a greater term
}

// newResource serves on a Unix socket.
func newResource(socket string) (*Resource, error) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	r := &Resource{listener: l, cells: map[string]*cell{}}
	server := rpc.NewServer()
	if err := server.Register(r); err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			go server.ServeConn(c)
		}
	}()
	return r, nil
}

// Write is called by leaders. Accepted is whether the fenced cell accepts what they write.
func (r *Resource) Write(w Write, accepted *bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.cells[w.Election]
	if c == nil {
		c = &cell{}
		r.cells[w.Election] = c
	}
	w.At, w.Accepted, w.Stale = Now(), w.Term >= c.fence, w.Term < c.newest
	c.newest = max(c.newest, w.Term)
	if w.Accepted {
		c.fence = w.Term
	}
	r.log = append(r.log, w)
	*accepted = w.Accepted
	return nil
}

// Log returns the writes so far, in order.
func (r *Resource) Log() []Write {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.log)
}
