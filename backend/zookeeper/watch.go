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
	byPath  map[string]*watch // of the present connection
	fired   uint64            // how often some have fired or were lost
	changed chan struct{}     // closed, and replaced, when that changes
}

// A watch is what the library and the server keep for the node of a record.
type watch struct {
	item    lease.Item
	valid   bool // item is what the server has, as of its last answer
	set     bool // it has not fired, so another one is not needed
	fired   int
	readers int
}

func newWatches() *watches {
	return &watches{byPath: make(map[string]*watch), changed: make(chan struct{})}
}

// tell wakes listeners. The caller holds ws.mu.
func (ws *watches) tell() {
	ws.fired++
	close(ws.changed)
	ws.changed = make(chan struct{})
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
	if w.valid, w.set = false, false; w.readers == 0 {
		delete(ws.byPath, path)
	}
	ws.tell()
}

// lost notes that the connection is over, and all watches with it.
func (ws *watches) lost() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	clear(ws.byPath)
	ws.tell()
}

// any reports whether there are watches.
func (ws *watches) any() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.byPath) > 0
}

// changing says that this process is about to change a record. The watch may fire later than the change
// is answered.
func (ws *watches) changing(path string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byPath[path]; w != nil {
		w.valid = false
	}
}

// item returns the record at a path if a watch says that it is as it was read.
func (ws *watches) item(path string) (lease.Item, bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byPath[path]; w != nil && w.valid {
		return w.item, true
	}
	return lease.Item{}, false
}

// record returns the record at a path, from memory if a watch says that it has not changed.
func (d *driver) record(ctx context.Context, k lease.Key, o origin) (lease.Item, error) {
	ws, path := d.watches, d.root.path(k)
	if it, ok := ws.item(path); ok {
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
	fired, set := w.fired, w.set
	ws.mu.Unlock()

	n, err := ensemble.Call(ctx, d.reader, func(c *zk.Conn) (node, error) { return readNode(c, path, !set) })
	it := o.item(k, n)

	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.readers--; ws.byPath[path] != w { // the connection is over, and so is the watch
		return it, err
	}
	if err == nil && w.fired == fired {
		w.item, w.valid, w.set = it, true, true
	} else if w.readers == 0 && !w.set {
		delete(ws.byPath, path)
	}
	return it, err
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
