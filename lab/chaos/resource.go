//go:build linux

package chaos

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// A Resource is what leaders write to. It lives in the harness, into which no faults are
// injected. For each election it has a fenced cell, which refuses a term below the
// greatest that it has accepted, and a cell without a fence.
type Resource struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu    sync.Mutex
	cells map[string]*cell
	log   []Write
	conns []net.Conn
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

// request and reply are sent as JSON, one value a line.
type request struct {
	Process, Election string
	Term              uint64
	Number            int
}

type reply struct{ Accepted bool }

// newResource serves on a Unix socket.
func newResource(socket string) (*Resource, error) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	r := &Resource{listener: l, cells: map[string]*cell{}}
	r.serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			r.mu.Lock()
			r.conns = append(r.conns, c)
			r.mu.Unlock()
			r.serving.Go(func() { r.serve(c) })
		}
	})
	return r, nil
}

func (r *Resource) serve(c net.Conn) {
	defer c.Close()
	in, out := json.NewDecoder(bufio.NewReader(c)), json.NewEncoder(c)
	for q := (request{}); in.Decode(&q) == nil; q = (request{}) {
		if out.Encode(reply{r.write(q)}) != nil {
			return
		}
	}
}

func (r *Resource) write(q request) (accepted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.cells[q.Election]
	if c == nil {
		c = &cell{}
		r.cells[q.Election] = c
	}
	w := Write{At: Now(), Process: q.Process, Election: q.Election, Term: q.Term, Number: q.Number}
	w.Accepted, w.Stale = q.Term >= c.fence, q.Term < c.newest
	c.newest = max(c.newest, q.Term)
	if w.Accepted {
		c.fence = q.Term
	}
	r.log = append(r.log, w)
	return w.Accepted
}

// Log returns the writes so far, in order.
func (r *Resource) Log() []Write {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.log)
}

// close stops serving. Pending writes are lost.
func (r *Resource) close() {
	r.listener.Close()
	os.Remove(r.listener.Addr().String())
	r.mu.Lock()
	for _, c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.serving.Wait()
}
