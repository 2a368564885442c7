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
// injected. For each election it has a fence, which refuses a term below the greatest that
// it has accepted.
type Resource struct {
	listener net.Listener

	mu     sync.Mutex
	fences map[string]uint64 // the greatest term, by election
	log    []Write
}

// A Write is one write as it arrived at the resource.
type Write struct {
	At       time.Duration `json:"at"`
	Process  string        `json:"process"`
	Election string        `json:"election"`
	Term     uint64        `json:"term"`
	Number   int           `json:"number"`
	Accepted bool          `json:"accepted"` // by the fence; otherwise it was late
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

// Write is called by leaders. Accepted is whether the fence accepts what they write.
func (r *Resource) Write(w Write, accepted *bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.At = Now()
	w.Accepted = w.Term >= r.fences[w.Election]
	r.fences[w.Election] = max(r.fences[w.Election], w.Term)
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
