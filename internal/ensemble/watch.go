package ensemble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
)

// A Kind is a kind of reading, with its kind of watch.
type Kind uint8

const (
	Data     Kind = iota // and whether there is a node
	Children             // names; none if the node is missing
)

// A Node is a node as it was read. Its slices are not changed.
type Node struct {
	Missing  bool // then the rest is empty
	Data     []byte
	Children []string
	Stat     zk.Stat
	Watch    *Watch // under which it was read; nil: under none
}

// ReadNode reads a node without a watch.
func (s *Session) ReadNode(ctx context.Context, kind Kind, path string) (Node, error) {
	return Read(ctx, s, func(c *zk.Conn) (Node, error) { return readNode(c, kind, path, false) })
}

var errBusy = fmt.Errorf("%w: the node appears and disappears too quickly", backend.ErrUnavailable)

// readNode reads a node. If it is missing and watched, its creation must be watched.
func readNode(c *zk.Conn, kind Kind, path string, watched bool) (n Node, err error) {
	for range 5 {
		var stat *zk.Stat
		if kind == Children {
			n.Children, stat, err = c.Children(path)
		} else {
			n.Data, stat, err = c.Get(path)
		}
		switch {
		case err == nil:
			n.Stat = *stat
			return n, nil
		case !errors.Is(err, zk.ErrNoNode):
			return Node{}, err
		case !watched:
			return Node{Missing: true}, nil
		}
		if there, _, err := c.Exists(path); err != nil || !there { // other readings leave no watch where there is no node
			return Node{Missing: true}, err
		}
	}
	return Node{}, errBusy
}

// Watches are those of a session's connection, and are forgotten with it. What was read under a watch is
// remembered, and not read again, until it fires. The library does not know them: it would keep one for each reading,
// and set all of them again on the next connection, by a zxid that it reads while answers change it
// (go-zookeeper/zk#35), so that changes could be missed.
type Watches struct {
	mu      sync.Mutex
	watches map[key]*Watch // also those under which a node is being read; one that is over stays until it has fired
	fired   uint64         // how often some have fired or were lost
	changed chan struct{}  // closed, and replaced, when that changes
}

type key struct {
	kind Kind
	path string
}

// A Watch is what the server keeps for a reading, until it fires.
type Watch struct {
	read chan struct{} // closed when node has been read
	node Node
	over atomic.Bool
}

// Over reports whether the watch has fired, or was lost: the node may have changed. It is as new as the last
// answer in the session.
func (w *Watch) Over() bool { return w.over.Load() }

// Watched returns a node, from memory if a watch says that it has not changed. What a watch says is as
// new as the last answer in the session.
func (s *Session) Watched(ctx context.Context, kind Kind, path string) (Node, error) {
	ws, k := s.Watches, key{kind, path}
	for {
		ws.mu.Lock()
		w := ws.watches[k]
		if w == nil || w.Over() {
			w = &Watch{read: make(chan struct{})}
			ws.watches[k] = w // before it is read, so that the reading leaves a watch, and no event is missed
			ws.mu.Unlock()
			return s.readWatched(ctx, k, w)
		}
		ws.mu.Unlock()
		select {
		case <-w.read:
		case <-ctx.Done():
			return Node{}, s.explain(ctx.Err())
		}
		if !w.Over() {
			return w.node, nil
		}
	}
}

// readWatched reads a node for all who want it under a watch.
func (s *Session) readWatched(ctx context.Context, k key, w *Watch) (Node, error) {
	n, err := Read(ctx, s, func(c *zk.Conn) (Node, error) { return readNode(c, k.kind, k.path, true) })
	n.Watch = w
	ws := s.Watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.node = n; err != nil {
		w.over.Store(true)
		if ws.watches[k] == w {
			delete(ws.watches, k)
		}
	}
	close(w.read)
	return n, err
}

// Kinds of requests, as in the library. A reading consists of length, xid, kind, length of the path, path, and a byte
// that says whether to leave a watch.
const (
	opExists      = 3
	opGetData     = 4
	opGetChildren = 12
)

// flag returns a request, which leaves a watch if it reads a node that is watched.
func (ws *Watches) flag(frame []byte) []byte {
	if len(frame) < 18 {
		return frame
	}
	switch binary.BigEndian.Uint32(frame[8:]) {
	case opExists, opGetData, opGetChildren:
	default:
		return frame
	}
	path := string(frame[16 : len(frame)-1])
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.watches[key{Data, path}] == nil && ws.watches[key{Children, path}] == nil {
		return frame
	}
	frame = bytes.Clone(frame) // the library's own
	frame[len(frame)-1] = 1
	return frame
}

// Node returns a node if a watch says that it is as it was read.
func (ws *Watches) Node(kind Kind, path string) (n Node, known bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.watches[key{kind, path}]
	if w == nil || w.Over() {
		return n, false
	}
	select {
	case <-w.read:
		return w.node, true
	default:
		return n, false
	}
}

// Len returns how many nodes are watched.
func (ws *Watches) Len() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.watches)
}

// Fired returns how often watches have fired or were lost, and what is closed when some do.
func (ws *Watches) Fired() (times uint64, next <-chan struct{}) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.fired, ws.changed
}

// fire notes that a watch has fired. It is called before any later answer is delivered.
func (ws *Watches) fire(e zk.Event) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for kind := Data; kind <= Children; kind++ {
		names := kind == Children
		if names && e.Type == zk.EventNodeDataChanged || !names && e.Type == zk.EventNodeChildrenChanged {
			continue
		}
		ws.forget(key{kind, e.Path})
	}
	ws.tell()
}

// Forget makes the next reading ask the server, because the node has changed, or is about to be changed by this
// process: the watch may fire later than that change is answered.
func (ws *Watches) Forget(kind Kind, path string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.watches[key{kind, path}]; w != nil {
		w.over.Store(true)
	}
}

// ForgetAll forgets what is remembered, as when the connection is over.
func (ws *Watches) ForgetAll() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for k := range ws.watches {
		ws.forget(k)
	}
	ws.tell()
}

func (ws *Watches) forget(k key) {
	if w := ws.watches[k]; w != nil {
		w.over.Store(true)
		delete(ws.watches, k)
	}
}

// tell wakes listeners. The caller holds ws.mu.
func (ws *Watches) tell() {
	ws.fired++
	close(ws.changed)
	ws.changed = make(chan struct{})
}
