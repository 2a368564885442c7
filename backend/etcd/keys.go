package etcd

import (
	"cmp"
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

// origin returns the key that is made once: see [driver.identify].
func (p keyPrefix) origin() string { return string(p) + "origin" }

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
	Text       string        // of the key origin; "": unknown, or the key is not there
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

// Note notes an answer, and returns the present origin. text is that of the key origin. before is the origin when the
// call began: unless the store was restored or rebuilt, or is another one, the answer is of the same epoch and text, and
// no older. A call that began earlier may bring the text of the store before once more.
func (o *origins) Note(epoch, text string, position uint64, before *origin) origin {
	o.mu.Lock()
	defer o.mu.Unlock()
	older := before.Epoch != "" && (epoch != before.Epoch || position < before.Newest)
	other := before.Text != "" && text != before.Text || text != "" && o.now.Text != "" && text != o.now.Text
	if older || other {
		close(o.now.Replaced)
		o.now = origin{RestoredAt: position, WentBack: o.now.WentBack + 1, Replaced: make(chan struct{})}
	}
	o.now.Epoch, o.now.Text, o.now.Newest = epoch, cmp.Or(text, o.now.Text), max(o.now.Newest, position)
	return o.now
}

// Told notes the position up to which a watch has told.
func (o *origins) Told(position uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now.Newest = max(o.now.Newest, position)
}
