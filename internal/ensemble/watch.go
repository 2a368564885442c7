package ensemble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/go-zookeeper/zk"
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

// readNode reads a node. If it is missing and watched, its creation must be watched.
func readNode(c *zk.Conn, kind Kind, path string, watched bool) (n Node, err error) {
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
	case watched: // other readings leave no watch where there is no node
		there, _, err := c.Exists(path)
		if err != nil {
			return Node{}, err
		}
		if there { // it has just been made
			return readNode(c, kind, path, watched)
		}
	}
	return Node{Missing: true}, nil
}

type key struct {
	kind Kind
	path string
}

// A Watch is what a server keeps for a reading, on a connection of a session, until it fires. What was read
// under it is remembered until then, and not read again. The library does not know watches: it would keep one
// for each reading, and set all of them again on the next connection, by a zxid that it reads while answers
// change it (go-zookeeper/zk#35), so that changes could be missed.
type Watch struct {
	node Node // what was read last; the session's mutex guards it
	read bool
	over atomic.Bool
}

// Over reports whether the watch has fired, or was lost: the node may have changed. It is as new as the last
// answer in the session, also to a change of this process: servers tell watches before they answer.
func (w *Watch) Over() bool { return w.over.Load() }

// Watched returns a node, from memory if a watch says that it has not changed. What a watch says is as
// new as the last answer in the session.
func (s *Session) Watched(ctx context.Context, kind Kind, path string) (Node, error) {
	k := key{kind, path}
	s.mu.Lock()
	w := s.watches[k]
	if w == nil || w.Over() {
		w = &Watch{}
		s.watches[k] = w // before it is read, so that the reading leaves a watch, and no event is missed
	}
	node, read := w.node, w.read
	s.mu.Unlock()
	if read {
		return node, nil
	}

	n, err := Read(ctx, s, func(c *zk.Conn) (Node, error) { return readNode(c, kind, path, true) })
	n.Watch = w
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.node, w.read = n, true; err != nil {
		w.over.Store(true)
	}
	return n, err
}

// Kinds of requests, as in the library. A reading consists of length, xid, kind, length of the path, path,
// and a byte that says whether to leave a watch.
const (
	opExists      = 3
	opGetData     = 4
	opGetChildren = 12
)

// flag returns a request, which leaves a watch if it reads a node that is watched.
func (s *Session) flag(frame []byte) []byte {
	if len(frame) < 18 {
		return frame
	}
	switch binary.BigEndian.Uint32(frame[8:]) {
	case opExists, opGetData, opGetChildren:
	default:
		return frame
	}
	path := string(frame[16 : len(frame)-1])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches[key{Data, path}] == nil && s.watches[key{Children, path}] == nil {
		return frame
	}
	frame = bytes.Clone(frame) // the library's own
	frame[len(frame)-1] = 1
	return frame
}

// Fired returns how often watches have fired or were lost, and what is closed when that may have changed.
func (s *Session) Fired() (times uint64, next <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fired, s.changed
}

// fire notes that a watch has fired, before any later answer is delivered. The caller holds s.mu.
func (s *Session) fire(e zk.Event) {
	if e.Type != zk.EventNodeChildrenChanged {
		s.forget(key{Data, e.Path})
	}
	if e.Type != zk.EventNodeDataChanged {
		s.forget(key{Children, e.Path})
	}
	s.fired++
	s.wake()
}

// forget forgets a watch. The caller holds s.mu.
func (s *Session) forget(k key) {
	if w := s.watches[k]; w != nil {
		w.over.Store(true)
		delete(s.watches, k)
	}
}

// forgetAll forgets all watches when their connection is over. The caller holds s.mu.
func (s *Session) forgetAll() {
	for k := range s.watches {
		s.forget(k)
	}
	s.fired++
	s.wake()
}
