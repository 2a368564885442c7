package zookeeper

import (
	"context"
	"maps"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
)

// A cache has what was read of the store with a watch on it, until the watch
// fires. A look at a thousand elections of which one has changed costs as much as
// a look at that one.
//
// The library's own bookkeeping of watches is not used. It keeps one for each time
// it was asked, cannot take one away, and asks for all of them again after it has
// connected anew, by then perhaps from a later moment than that at which the old
// connection broke: changes between are never told. Here a watch belongs to one
// connection; what was read on another is read again.
type cache struct {
	s *session

	mu           sync.Mutex
	entries      map[key]*entry
	notification chan struct{} // closed and replaced when a watch fires
	fired        bool          // one has, and nobody was told
}

// A kind of reading, each with its kind of watch.
type kind uint8

const (
	nodeData   kind = iota // a node that others may make again: if it is not there, its making is watched
	uniqueData             // a node with a name that is used once: if it is gone, it is gone
	childNames             // the names of a node's children; none if it is not there
	existence              // whether there is a node, and since when
)

type key struct {
	kind kind
	path string
}

// An entry is what was read of one path.
type entry struct {
	key

	// Guarded by the cache's mutex.
	busy     chan struct{} // somebody reads it, and closes this afterwards; nil: nobody does
	read     bool          // it holds something
	fired    bool          // which has changed since
	epoch    int           // the connection on which it was confirmed
	missing  bool          // the node is not there
	data     []byte
	children []string
	stat     zk.Stat
	reported reported // if it is a record
}

// What was shown of a lease: the heartbeat that Observe has returned last, and the
// connection on which it was read.
type reported struct {
	heartbeat uint64
	epoch     int
}

func (c *cache) init(s *session) {
	c.s, c.entries, c.notification = s, map[key]*entry{}, make(chan struct{})
}

// fire is called with each event of a watch, before later answers are handed on.
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

// heard reports whether a watch on one of these has fired, or their connection is
// gone.
func (c *cache) changed(deps []*entry) (fired bool) {
	_, epoch := c.s.idAndEpoch()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range deps {
		fired = fired || e.fired || e.read && e.epoch != epoch
	}
	return fired
}

// notified reports whether it may pay to observe, because some watch has fired, and says so
// only once. news is closed when to ask again, and whether watches are gone: see heard.
func (c *cache) takeNotification() (news <-chan struct{}, notified bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	notified, c.fired = c.fired, false
	return c.notification, notified
}

// stands reports whether nothing has happened to a place up to the last answer of this
// connection: it is watched since it was read, and servers tell of a change before they
// answer what comes after it.
func (c *cache) parentUnchanged(was reading) bool {
	if was.entry == nil {
		return false
	}
	_, epoch := c.s.idAndEpoch()
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[was.entry.key]
	return e.valid(epoch) && !e.missing && e.stat.Czxid == was.stat.Czxid
}

// wake wakes who waits for news.
func (c *cache) wakeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.notification)
	c.notification = make(chan struct{})
}

// forget makes the next look at a path read it again.
func (c *cache) forget(k kind, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key{k, path}]; e != nil {
		e.fired = true
	}
}

// show notes what was shown of the lease whose record is at a path.
func (c *cache) noteReported(path string, what reported) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key{nodeData, path}]; e != nil {
		e.reported = what
	}
}

// shows reports whether this is what was shown last, and the record has not changed
// since.
func (c *cache) wasReported(path string, what reported) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key{nodeData, path}]
	return e != nil && e.read && !e.fired && e.reported == what
}

// unread drops what was read of elections, which are held here now: nobody reads it. Who
// is about to hears that it has changed.
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
	if len(c.entries) < before/2 { // a map keeps the room that it once had
		rest := make(map[key]*entry, len(c.entries))
		maps.Copy(rest, c.entries)
		c.entries = rest
	}
}

// sweep drops what has fired and was not read again, so that what is over does
// not pile up.
func (c *cache) dropStale() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, e := range c.entries {
		if e.busy == nil && (e.fired || !e.read) {
			delete(c.entries, k)
		}
	}
}

// A reading is a copy of what an entry holds. Its slices are not changed.
type reading struct {
	entry    *entry
	missing  bool
	data     []byte
	children []string
	stat     zk.Stat
}

// get returns what is at a path: as it is remembered, if nothing has happened to
// it, or read anew. watch leaves a watch there.
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
	e.fired = false // from now on it is about the watch to come
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
	if k == uniqueData && now.missing { // no watch; nor will it come back
		delete(c.entries, e.key)
	}
	return e.reading(), nil
}

// ahead begins to read what will be asked for next, unless it is remembered.
func (c *cache) prefetch(ctx context.Context, k kind, path string) {
	_, epoch := c.s.idAndEpoch()
	c.mu.Lock()
	known := c.entries[key{k, path}].valid(epoch)
	c.mu.Unlock()
	if !known {
		c.s.b.late.Go(func() { c.get(ctx, k, path, true) }) // who asks will see the error
	}
}

// take returns the entry of a path, for this reader alone, until it leaves it. It is in
// the map from before the request is sent, so that no event of the watch is missed.
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

// leave ends what take began.
func (c *cache) unlock(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(e.busy)
	e.busy = nil
}

// holds reports whether nothing has happened since the entry was read, which was on this
// connection.
func (e *entry) valid(epoch int) bool {
	return e != nil && e.read && !e.fired && e.epoch == epoch
}

func (e *entry) reading() reading {
	return reading{entry: e, missing: e.missing, data: e.data, children: e.children, stat: e.stat}
}

// plain reads without a watch.
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

// fetch reads and leaves a watch.
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
			// It was made just now.
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
