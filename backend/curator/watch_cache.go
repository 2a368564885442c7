package curator

import (
	"context"
	"maps"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
)

// A cache holds what was read with a watch, until the watch fires. Reading a thousand
// elections of which one has changed costs as much as reading that one.
//
// It does not use the library's bookkeeping of watches, which keeps one for each read,
// cannot remove any, and sets all of them again after a reconnect. By then changes since
// the old connection broke may be lost. Here a watch belongs to one connection, and what
// was read on another connection is read again.
type cache struct {
	s *session

	mu           sync.Mutex
	entries      map[key]*entry
	notification chan struct{} // closed and replaced when a watch fires
	fired        bool          // a watch has fired, and no listener has been notified
}

// A kind is a kind of read, with its kind of watch.
type kind uint8

const (
	nodeData   kind = iota // data of a node that may be created again: if it is missing, its creation is watched
	uniqueData             // data of a node with a unique name: once gone, it stays gone
	childNames             // names of a node's children; none if it is missing
	existence              // whether a node exists, and since when
)

type key struct {
	kind kind
	path string
}

// An entry is what was read at one path.
type entry struct {
	key

	// Guarded by the cache's mutex.
	busy     chan struct{} // closed by the present reader when it is done; nil: no reader
	read     bool          // the entry has content
	fired    bool          // which has changed since
	epoch    int           // the connection on which it was read
	missing  bool          // the node does not exist
	data     []byte
	children []string
	stat     zk.Stat
	reported reported // if it is a record
}

// reported is what Observe last returned of a lease: the Version, and the connection on
// which it was read.
type reported struct {
	version string
	epoch   int
}

func (c *cache) init(s *session) {
	c.s, c.entries, c.notification = s, map[key]*entry{}, make(chan struct{})
}

// fire is called with each watch event, before later answers are delivered.
func (c *cache) fire(e zk.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := nodeData; k <= existence; k++ {
		entry := c.entries[key{k, e.Path}]
		if entry == nil {
			continue
		}
		switch e.Type {
		case zk.EventNodeDataChanged:
			if k == childNames && !entry.missing {
				continue
			}
		case zk.EventNodeChildrenChanged:
			if k != childNames {
				continue
			}
		}
		entry.fired, c.fired = true, true
	}
	close(c.notification)
	c.notification = make(chan struct{})
}

// changed reports whether a watch on one of these has fired, or their connection is gone.
func (c *cache) changed(entries []*entry) (fired bool) {
	_, epoch := c.s.idAndEpoch()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range entries {
		fired = fired || e.fired || e.read && e.epoch != epoch
	}
	return fired
}

// takeNotification reports whether it may pay to observe because a watch has fired, and
// reports that only once. again is closed when the caller should ask again, and
// whether watches are gone (see changed).
func (c *cache) takeNotification() (again <-chan struct{}, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, c.fired = c.fired, false
	return c.notification, changed
}

// existsUnchanged reports whether a node was neither deleted nor created again before the
// last answer on this connection: it is watched since it was read, and servers report a
// change before they answer later requests.
func (c *cache) existsUnchanged(was reading) bool {
	if was.entry == nil {
		return false
	}
	_, epoch := c.s.idAndEpoch()
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[was.entry.key]
	return e.valid(epoch) && !e.missing && e.stat.Czxid == was.stat.Czxid
}

// wakeAll wakes all listeners.
func (c *cache) wakeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.notification)
	c.notification = make(chan struct{})
}

// forget makes the next read of a path ask the server.
func (c *cache) forget(k kind, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key{k, path}]; e != nil {
		e.fired = true
	}
}

// noteReported notes what was returned of the lease whose record is at a path.
func (c *cache) noteReported(path string, what reported) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key{nodeData, path}]; e != nil {
		e.reported = what
	}
}

// wasReported reports whether this was returned last, and the record has not changed since.
func (c *cache) wasReported(path string, what reported) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key{nodeData, path}]
	return e != nil && e.read && !e.fired && e.reported == what
}

// dropHeld drops the entries of elections that are held here, because nobody reads them. A
// reader that has just begun finds that the entry has changed.
func (c *cache) dropHeld(held []backend.Held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) == 0 {
		return
	}
	l, before := &c.s.b.layout, len(c.entries)
	for i := range held {
		name := held[i].Election
		for _, k := range [...]key{{nodeData, l.recordPath(name)}, {l.lockKind(), l.lockPath(name)}, {existence, l.lockPath(name)}} {
			e := c.entries[k]
			if e == nil {
				continue
			}
			if e.fired = true; e.busy == nil {
				delete(c.entries, k)
			}
		}
	}
	if len(c.entries) < before/2 { // a map never shrinks
		rest := make(map[key]*entry, len(c.entries))
		maps.Copy(rest, c.entries)
		c.entries = rest
	}
}

// dropStale drops entries that have changed and were not read again, so that they do not
// pile up.
func (c *cache) dropStale() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, e := range c.entries {
		if e.busy == nil && (e.fired || !e.read) {
			delete(c.entries, k)
		}
	}
}

// A reading is a copy of an entry's content. Its slices are not changed.
type reading struct {
	entry    *entry
	missing  bool
	data     []byte
	children []string
	stat     zk.Stat
}

// get returns what is at a path, from the cache if it is valid. watch leaves a watch there.
func (c *cache) get(ctx context.Context, k kind, path string, watch bool) (reading, error) {
	if !watch {
		return c.readPlain(ctx, k, path)
	}
	e, err := c.lock(ctx, key{k, path})
	if err != nil {
		return reading{}, err
	}
	defer c.unlock(e)
	_, epoch := c.s.idAndEpoch()
	c.mu.Lock()
	known, r := e.valid(epoch), e.reading()
	c.mu.Unlock()
	if known {
		return r, nil
	}
	c.mu.Lock()
	e.fired = false // from now on it is about the new watch
	c.mu.Unlock()
	now, err := c.readWatched(ctx, k, path)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		e.read, e.fired = false, true
		return reading{}, err
	}
	e.read, e.epoch = true, epoch
	e.missing, e.data, e.children, e.stat = now.missing, now.data, now.children, now.stat
	if k == uniqueData && now.missing { // no watch, and it will not come back
		delete(c.entries, e.key)
	}
	return e.reading(), nil
}

// prefetch starts a read that will be needed next, unless the cache has it.
func (c *cache) prefetch(ctx context.Context, k kind, path string) {
	_, epoch := c.s.idAndEpoch()
	c.mu.Lock()
	known := c.entries[key{k, path}].valid(epoch)
	c.mu.Unlock()
	if !known {
		c.s.b.late.Go(func() { c.get(ctx, k, path, true) }) // the caller of get will have the error
	}
}

// lock returns the entry of a path, for this reader alone until unlock. The entry is in the
// map before the request is sent, so that no watch event is missed.
func (c *cache) lock(ctx context.Context, k key) (*entry, error) {
	for {
		c.mu.Lock()
		e := c.entries[k]
		if e == nil {
			e = &entry{key: k}
			c.entries[k] = e
		}
		busy := e.busy
		if busy == nil {
			e.busy = make(chan struct{})
		}
		c.mu.Unlock()
		if busy == nil {
			return e, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// unlock ends what lock began.
func (c *cache) unlock(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(e.busy)
	e.busy = nil
}

// valid reports whether nothing has changed since the entry was read on this connection.
func (e *entry) valid(epoch int) bool {
	return e != nil && e.read && !e.fired && e.epoch == epoch
}

func (e *entry) reading() reading {
	return reading{entry: e, missing: e.missing, data: e.data, children: e.children, stat: e.stat}
}

// readPlain reads without a watch.
func (c *cache) readPlain(ctx context.Context, k kind, path string) (reading, error) {
	return read(ctx, c.s, func(conn *zk.Conn) (r reading, err error) {
		var stat *zk.Stat
		if k == childNames {
			r.children, stat, err = conn.Children(path)
		} else {
			r.data, stat, err = conn.Get(path)
		}
		return r.with(stat, err)
	})
}

// readWatched reads and leaves a watch.
func (c *cache) readWatched(ctx context.Context, k kind, path string) (reading, error) {
	return read(ctx, c.s, func(conn *zk.Conn) (r reading, err error) {
		c.s.setWatched(path, 1)
		defer c.s.setWatched(path, -1)
		if k == existence {
			there, stat, err := conn.Exists(path)
			if err == nil && !there {
				err = zk.ErrNoNode
			}
			return r.with(stat, err)
		}
		for range 5 {
			var stat *zk.Stat
			if k == childNames {
				r.children, stat, err = conn.Children(path)
			} else {
				r.data, stat, err = conn.Get(path)
			}
			if err != zk.ErrNoNode || k == uniqueData {
				return r.with(stat, err)
			}
			exists, _, err := conn.Exists(path)
			if err != nil || !exists {
				return reading{missing: true}, err
			}
			// It was created just now.
		}
		return r, zk.ErrNoNode
	})
}

func (r reading) with(stat *zk.Stat, err error) (reading, error) {
	switch {
	case err == zk.ErrNoNode:
		return reading{missing: true}, nil
	case err != nil:
		return reading{}, err
	}
	r.stat = *stat
	return r, nil
}
