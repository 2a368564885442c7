//go:build linux

package chaos

import (
	"net"
	"net/rpc"
	"sync"
)

// A Resource is what leaders write to. It lives in the harness, into which no faults are
// injected. For each election it has a fence, which refuses a term below the greatest that
// it has accepted.
type Resource struct {
	listener net.Listener

	mu           sync.Mutex
	fences       map[string]uint64 // the greatest term, by election
	writes, late int               // what arrived, and what the fences have refused of that
}

// A Write is what a leader writes.
type Write struct {
	Election string
	Term     uint64
}

// newResource serves on a Unix socket.
func newResource(socket string) (*Resource, error) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	r := &Resource{listener: l, fences: map[string]uint64{}}
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

// Write is called by leaders. A leader that is refused has been succeeded, and will learn that from the store.
func (r *Resource) Write(w Write, late *bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	if *late = w.Term < r.fences[w.Election]; *late {
		r.late++
	}
	r.fences[w.Election] = max(r.fences[w.Election], w.Term)
	return nil
}

// counts returns how many writes have arrived so far, and how many of them were late.
func (r *Resource) counts() (writes, late int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writes, r.late
}
