package zookeeper

import (
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/ensemble"
)

// watches are those of records. What a watch is for is remembered, and not read again, until it fires.
type watches struct {
	mu      sync.Mutex
	byPath  map[string]*watch
	fired   uint64        // how many have fired that a listener waits for
	changed chan struct{} // closed, and replaced, when that changes
}

// A watch is what the library and the server keep for the node of a record.
type watch struct {
	item    lease.Item
	valid   bool     // item is what the server has, as of its last answer in this epoch
	epoch   uint64   // of the session
	by      *zk.Conn // has it, and sets it again after a reconnect; nil: it has fired
	fired   int
	readers int
	own     bool // the next change is this process's
}

// fire notes that a watch has fired. It is called before any later answer is delivered.
func (ws *watches) fire(path string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.byPath[path]
	if w == nil {
		return
	}
	w.fired++
	if w.valid, w.by = false, nil; w.readers == 0 {
		delete(ws.byPath, path)
	}
	if !w.own {
		ws.fired++
		close(ws.changed)
		ws.changed = make(chan struct{})
	}
}

// changing says that this process is about to change a record: a listener need not be told.
func (ws *watches) changing(path string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byPath[path]; w != nil {
		w.own, w.valid = true, false
	}
}

// item returns the record at a path if a watch says that it is as it was read.
func (ws *watches) item(path string, epoch uint64) (lease.Item, bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byPath[path]; w != nil && w.valid && w.epoch == epoch {
		return w.item, true
	}
	return lease.Item{}, false
}

// record returns the record at a path, from memory if a watch says that it has not changed.
func (d *driver) record(ctx context.Context, k lease.Key, o origin) (lease.Item, error) {
	ws, path, epoch := &d.watches, d.root.path(k), d.session.Epoch()
	if it, ok := ws.item(path, epoch); ok {
		it.Old = o.old(&it) // that the store went back may have been found out since
		return it, nil
	}
	ws.mu.Lock()
	w := ws.byPath[path]
	if w == nil {
		w = &watch{}
		ws.byPath[path] = w
	}
	w.readers++
	w.own = false
	fired, by := w.fired, w.by
	ws.mu.Unlock()

	n, err := ensemble.Read(ctx, d.session, func(c *zk.Conn) (node, error) {
		n, err := readNode(c, path, c != by)
		n.by = c
		return n, err
	})
	it := o.item(k, n)

	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.readers--; err == nil && w.fired == fired && d.session.Epoch() == epoch {
		w.item, w.valid, w.epoch, w.by = it, true, epoch, n.by
	} else if w.readers == 0 && w.by == nil && ws.byPath[path] == w {
		delete(ws.byPath, path)
	}
	return it, err
}

// A node is a node as it was read; stat nil: it is not there.
type node struct {
	data []byte
	stat *zk.Stat
	by   *zk.Conn
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
		d.watches.mu.Lock()
		now, changed := d.watches.fired+1, d.watches.changed
		d.watches.mu.Unlock()
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
