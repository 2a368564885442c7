package etcd

import (
	"strings"
	"sync"

	"github.com/go-election/go-election/backend/lease"
)

// A keyPrefix makes the keys of a store: <prefix>record/NAME, <prefix>session/NONCE and <prefix>meta.
// A name is the rest of a key, byte by byte.
type keyPrefix string

// key returns the key of an item.
func (p keyPrefix) key(k lease.Key) string {
	if k.Kind == lease.Metas {
		return string(p) + string(k.Kind)
	}
	return p.directory(k.Kind) + k.Name
}

// directory begins the keys of all records or sessions.
func (p keyPrefix) directory(kind lease.Kind) string { return string(p) + string(kind) + "/" }

// end follows the keys of all records or sessions.
func (p keyPrefix) end(kind lease.Kind) string { return string(p) + string(kind) + "0" } // '/' + 1

// parse returns the item of a key; ok is false for a foreign key.
func (p keyPrefix) parse(key string) (k lease.Key, ok bool) {
	rest, ok := strings.CutPrefix(key, string(p))
	kind, name, directory := strings.Cut(rest, "/")
	k = lease.Key{Kind: lease.Kind(kind), Name: name}
	if !directory {
		return k, ok && k.Kind == lease.Metas
	}
	return k, ok && (k.Kind == lease.Records || k.Kind == lease.Sessions)
}

// An origin is what a driver knows of the store that answers.
type origin struct {
	Epoch      string        // "": unknown
	Newest     uint64        // the newest position seen
	RestoredAt uint64        // what was written up to this position may not be the latest; 0: it is
	WentBack   int           // how often an older copy, or another store, has answered
	Replaced   chan struct{} // closed when WentBack grows
}

// origins notes from where answers come.
type origins struct {
	mu  sync.Mutex
	now origin // Replaced is set
}

// Now returns the present origin. A driver gets it before each call.
func (o *origins) Now() origin {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now
}

// Note notes an answer, and returns the present origin. before is the origin when the call began:
// unless the store was restored or rebuilt, the answer is of the same epoch and no older.
func (o *origins) Note(epoch string, position uint64, before *origin) origin {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before.Epoch != "" && (epoch != before.Epoch || position < before.Newest) {
		close(o.now.Replaced)
		o.now = origin{RestoredAt: position, WentBack: o.now.WentBack + 1, Replaced: make(chan struct{})}
	}
	o.now.Epoch, o.now.Newest = epoch, max(o.now.Newest, position)
	return o.now
}
