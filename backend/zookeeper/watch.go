package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend/lease"
)

// A watch is what the library and the server keep for the node of a record. Until it fires, the node is
// as it was read last, so it is not read again.
type watch struct {
	item    lease.Item
	valid   bool   // item is what the server has, as of its last answer
	epoch   uint64 // of the connection by which it was read
	set     bool   // it has not fired; the library sets it again after a reconnect
	fired   int
	readers int
	own     bool // the next change is this process's
}

// fire notes that a watch has fired. The library calls it before any later answer is delivered.
func (s *session) fire(path string) {
	s.mu.Lock()
	w := s.watches[path]
	if w == nil {
		s.mu.Unlock()
		return
	}
	w.fired++
	w.valid, w.set = false, false
	if w.readers == 0 {
		delete(s.watches, path)
	}
	own := w.own
	s.mu.Unlock()
	if !own {
		s.change(func() { s.fired++ })
	}
}

// record returns the record at a path, from memory if a watch says that it has not changed.
func (d *driver) record(ctx context.Context, k lease.Key, o origin) (lease.Item, error) {
	s, path := d.session, d.root.path(k)
	s.mu.Lock()
	w := s.watches[path]
	if w == nil {
		w = &watch{}
		s.watches[path] = w
	}
	if w.own = false; w.valid && w.epoch == s.epoch {
		it := w.item
		s.mu.Unlock()
		it.Old = o.old(&it) // that the store went back may have been found out since
		return it, nil
	}
	w.readers++
	epoch, fired, set := s.epoch, w.fired, w.set
	s.mu.Unlock()

	n, err := read(ctx, s, func(c *zk.Conn) (node, error) { return readNode(c, path, !set) })
	it := o.item(k, n)

	s.mu.Lock()
	defer s.mu.Unlock()
	if w.readers--; err == nil && w.fired == fired && s.epoch == epoch {
		w.item, w.valid, w.epoch, w.set = it, true, epoch, true
	} else if w.valid = false; w.readers == 0 && !w.set && s.watches[path] == w {
		delete(s.watches, path)
	}
	return it, err
}

// changing says that this process is about to change a record: a listener need not be told.
func (s *session) changing(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watches[path]; w != nil {
		w.own, w.valid = true, false
	}
}

// unchanged returns the record at a path if a watch says that it is as it was read.
func (s *session) unchanged(path string) (lease.Item, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watches[path]
	if w == nil || !w.valid || w.epoch != s.epoch {
		return lease.Item{}, false
	}
	return w.item, true
}

// A node is a node as it was read; stat nil: it is not there.
type node struct {
	data []byte
	stat *zk.Stat
}

// readNode reads a node and may leave a watch.
func readNode(c *zk.Conn, path string, watch bool) (n node, err error) {
	for range 3 {
		if watch {
			n.data, n.stat, _, err = c.GetW(path)
		} else {
			n.data, n.stat, err = c.Get(path)
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return n, err
		}
		n = node{}
		if !watch {
			return n, nil
		}
		exists, _, _, err := c.ExistsW(path) // GetW leaves no watch where there is no node
		if err != nil || !exists {
			return n, err
		}
	}
	return n, errors.New("the node appears and disappears too quickly")
}

// Listen implements [lease.Listener] by the watches that readings have left. It only says that
// something has changed. Positions count the watches that have fired.
func (d *driver) Listen(ctx context.Context, position uint64, _ []lease.Item, on func([]lease.Item, uint64) bool) error {
	for {
		d.session.mu.Lock()
		now, changed := d.session.fired+1, d.session.changed
		d.session.mu.Unlock()
		switch {
		case position == 0 || position > now:
			return nil
		case position < now:
			on(nil, now)
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
