package ensemble

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
)

// A Node is a node as it was read.
type Node struct {
	Data []byte
	Stat *zk.Stat // nil: it is not there
}

// ReadNode reads a node.
func ReadNode(ctx context.Context, s *Session, path string) (Node, error) {
	return Read(ctx, s, func(c *zk.Conn) (Node, error) { return readNode(c, path, false) })
}

var errBusy = fmt.Errorf("%w: the node appears and disappears too quickly", backend.ErrUnavailable)

// readNode reads a node and may leave a watch.
func readNode(c *zk.Conn, path string, watch bool) (n Node, err error) {
	for range 3 {
		if watch {
			n.Data, n.Stat, _, err = c.GetW(path)
		} else {
			n.Data, n.Stat, err = c.Get(path)
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return n, err
		}
		if !watch {
			return Node{}, nil
		}
		if there, _, _, err := c.ExistsW(path); err != nil || !there { // GetW leaves no watch where there is no node
			return Node{}, err
		}
	}
	return Node{}, errBusy
}

// Watches are those of a session's connection. What was read under a watch is remembered, and not read
// again, until it fires.
type Watches struct {
	mu      sync.Mutex
	byPath  map[string]*watch
	fired   uint64        // how often some have fired or were lost
	changed chan struct{} // closed, and replaced, when that changes
}

// A watch is what the library and the server keep for a node, until it fires.
type watch struct {
	node  Node
	set   bool // another one is not needed
	valid bool // node is what the server has, as of its last answer
}

// Watched returns a node, from memory if a watch says that it has not changed. What a watch says is as
// new as the last answer in the session.
func (s *Session) Watched(ctx context.Context, path string) (Node, error) {
	ws := s.Watches
	if n, known := ws.Node(path); known {
		return n, nil
	}
	ws.mu.Lock()
	w := ws.byPath[path]
	if w == nil {
		w = &watch{}
		ws.byPath[path] = w
	}
	set := w.set
	ws.mu.Unlock()

	n, err := Call(ctx, s, func(c *zk.Conn) (Node, error) { return readNode(c, path, !set) })

	ws.mu.Lock()
	defer ws.mu.Unlock()
	switch {
	case ws.byPath[path] != w: // it has fired, or the connection is over
	case err == nil:
		w.node, w.valid, w.set = n, true, true
	case !w.set:
		delete(ws.byPath, path)
	}
	return n, err
}

// Node returns a node if a watch says that it is as it was read.
func (ws *Watches) Node(path string) (n Node, known bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.byPath[path]
	if w == nil || !w.valid {
		return n, false
	}
	return w.node, true
}

// Changing says that this process is about to change a node. The watch may fire later than the change
// is answered.
func (ws *Watches) Changing(path string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byPath[path]; w != nil {
		w.valid = false
	}
}

// Len returns how many nodes are watched.
func (ws *Watches) Len() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.byPath)
}

// Fired returns how often watches have fired or were lost, and what is closed when some do.
func (ws *Watches) Fired() (times uint64, next <-chan struct{}) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.fired, ws.changed
}

// fire notes that a watch has fired. It is called before any later answer is delivered.
func (ws *Watches) fire(path string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.byPath, path)
	ws.tell()
}

// Forget forgets what is remembered, as when the connection is over.
func (ws *Watches) Forget() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	clear(ws.byPath)
	ws.tell()
}

// tell wakes listeners. The caller holds ws.mu.
func (ws *Watches) tell() {
	ws.fired++
	close(ws.changed)
	ws.changed = make(chan struct{})
}
