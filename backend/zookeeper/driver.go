package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/ensemble"
)

// A driver is access to the nodes below one root. It implements [lease.Driver] and [lease.Listener].
// An item is a node whose data is JSON. Its Order is the zxid of its last write.
type driver struct {
	ensemble.Access
	root    root
	writer  *ensemble.Session // has the ephemeral node, and makes all changes
	reader  *ensemble.Session // makes readings, and has their watches
	watches *watches
	present atomic.Bool // the node of this process may be there

	entering chan struct{} // held while the origin is being found out

	mu     sync.Mutex
	origin origin
	reads  int64 // the reader's session in which the root was read
	newest int64 // the greatest zxid that was seen
}

var _ lease.Listener = (*driver)(nil)

// An origin is what is known of the store.
type origin struct {
	epoch    string // the data of the root: random text that was written when it was made
	version  int32  // of the root
	writes   int64  // the writer's session in which a write has shown whether the store went back; 0: none
	wentBack int
	backTo   int64 // the zxid to which the store went back; 0: it did not
}

// Limits implements [lease.Driver].
func (d *driver) Limits() lease.Limits {
	return lease.Limits{Name: Name, MinTTL: time.Second, MaxTTL: 5 * time.Minute, Batch: 25, MaxValue: 1 << 19}
}

// Now implements [lease.Driver].
func (d *driver) Now() time.Time { return time.Now() }

// Close implements [lease.Driver]. If the node of this process may be there, it lives on until the
// servers end the session.
func (d *driver) Close() error {
	d.reader.Close(true)
	d.writer.Close(!d.present.Load())
	return nil
}

// enter returns the origin as it is known in the session of a reading or a write, and whether it was
// just found out.
func (d *driver) enter(ctx context.Context, s *ensemble.Session) (o origin, fresh bool, err error) {
	client, err := s.Ready(ctx)
	if err != nil {
		return o, false, err
	}
	id := client.SessionID()
	if id == 0 { // it has just ended
		return o, false, errSessionEnded
	}
	known := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		o = d.origin
		return s == d.reader && d.reads == id || s == d.writer && o.writes == id
	}
	if known() {
		return o, false, nil
	}
	select {
	case d.entering <- struct{}{}:
		defer func() { <-d.entering }()
	case <-ctx.Done():
		return o, false, ctx.Err()
	}
	if known() {
		return o, false, nil
	}
	before, wentBack, seen := o.epoch, o.wentBack, d.noteZxid(0)
	if err := d.identify(ctx, s, &o); err != nil {
		return o, true, err
	}
	if o.epoch != before {
		seen, o.backTo, o.writes = 0, 0, 0
	}
	newest := seen
	if s == d.writer {
		if newest, err = d.prove(ctx); err != nil {
			return o, true, err
		}
		if o.writes = id; newest < seen {
			o.wentBack, o.backTo = o.wentBack+1, newest
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if o.epoch != before || o.wentBack != wentBack {
		d.newest = newest
		if s == d.writer { // what was read so far may be of the other store
			d.reads = 0
			d.watches.lost()
		}
	} else {
		d.newest = max(d.newest, newest) // there may have been readings meanwhile
	}
	if d.origin = o; s == d.reader {
		d.reads = id
	}
	return o, true, nil
}

// identify reads the root, which it makes if there is none.
func (d *driver) identify(ctx context.Context, s *ensemble.Session, o *origin) error {
	for range 5 {
		if err := d.sync(ctx, s); err != nil {
			return err
		}
		n, err := d.readNode(ctx, s, string(d.root))
		switch {
		case err != nil:
			return err
		case n.stat == nil:
			err = d.makeNode(ctx, string(d.root), []byte(backend.NewNonce()))
		case len(n.data) == 0: // an administrator has made it
			_, err = ensemble.Call(ctx, d.writer, func(c *zk.Conn) (*zk.Stat, error) {
				return c.Set(string(d.root), []byte(backend.NewNonce()), n.stat.Version)
			})
		default:
			o.epoch, o.version = clean.Text(string(n.data), 64, false), n.stat.Version
			return nil
		}
		if err != nil && !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return errBusy
}

// sync brings the server that answers up to date with the ensemble's leader.
func (d *driver) sync(ctx context.Context, s *ensemble.Session) error {
	_, err := ensemble.Read(ctx, s, func(c *zk.Conn) (string, error) { return c.Sync(string(d.root)) })
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// prove returns the zxid of a write.
func (d *driver) prove(ctx context.Context) (int64, error) {
	path := d.root.directory(lease.Sessions)
	for try := 0; ; try++ {
		stat, err := ensemble.Call(ctx, d.writer, func(c *zk.Conn) (*zk.Stat, error) { return c.Set(path, nil, -1) })
		switch {
		case err == nil:
			return stat.Mzxid, nil
		case !errors.Is(err, zk.ErrNoNode) || try > 0:
			return 0, err
		}
		if err := d.makeDirectories(ctx); err != nil {
			return 0, err
		}
	}
}

// forgetOrigin notes that the root is not as it was read.
func (d *driver) forgetOrigin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.origin.writes, d.reads = 0, 0
}

// Read implements [lease.Driver]. Servers answer with what they have, which may be old. What is newer
// than all that this process has seen need only be newer; if nothing is, the server is brought up to
// date, and all is read again. docs/design/zookeeper.md, "Readings", says why that is safe.
func (d *driver) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	o, fresh, err := d.enter(ctx, d.reader)
	if err != nil {
		return lease.View{}, d.fail(err)
	}
	before := d.noteZxid(0)
	v, newest, err := d.readAll(ctx, keys, o)
	if err == nil && newest <= before && !fresh {
		if err = d.sync(ctx, d.reader); err == nil {
			v, newest, err = d.readAll(ctx, keys, o)
		}
	}
	d.noteZxid(newest)
	return v, d.fail(err)
}

// noteZxid notes a zxid, and returns the greatest.
func (d *driver) noteZxid(zxid int64) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.newest = max(d.newest, zxid)
	return d.newest
}

// readAll reads items and returns the newest zxid: sessions first, because what a watch says of records
// is as new as the last answer, and the meta item last, so that it is not older than any record. The
// records are counted after that.
func (d *driver) readAll(ctx context.Context, keys []lease.Key, o origin) (v lease.View, newest int64, err error) {
	d.watches.mu.Lock()
	v = lease.View{Epoch: o.epoch, WentBack: o.wentBack, Position: d.watches.fired + 1, Items: make([]lease.Item, len(keys))}
	d.watches.mu.Unlock()
	of, errs := map[lease.Kind][]int{}, make([]error, len(keys))
	for i, k := range keys {
		of[k.Kind] = append(of[k.Kind], i)
	}
	for _, kind := range []lease.Kind{lease.Sessions, lease.Records, lease.Metas} {
		ensemble.InParallel(len(of[kind]), func(n int) {
			i := of[kind][n]
			switch kind {
			case lease.Records:
				v.Items[i], errs[i] = d.record(ctx, keys[i], o)
			default:
				v.Items[i], errs[i] = d.readItem(ctx, d.reader, keys[i], o)
			}
		})
	}
	if of[lease.Metas] != nil && cmp.Or(errs...) == nil {
		n, err := d.readNode(ctx, d.reader, d.root.directory(lease.Records))
		if errs[0] = err; n.stat != nil {
			v.Records = int64(n.stat.NumChildren)
		}
	}
	for i := range v.Items {
		newest = max(newest, int64(v.Items[i].Order))
	}
	return v, newest, cmp.Or(errs...)
}

// readItem reads an item from the server.
func (d *driver) readItem(ctx context.Context, s *ensemble.Session, k lease.Key, o origin) (lease.Item, error) {
	n, err := d.readNode(ctx, s, d.root.path(k))
	return o.item(k, n), err
}

// readNode reads a node and leaves no watch.
func (d *driver) readNode(ctx context.Context, s *ensemble.Session, path string) (node, error) {
	return ensemble.Read(ctx, s, func(c *zk.Conn) (node, error) { return readNode(c, path, false) })
}

// item returns a node as an item.
func (o *origin) item(k lease.Key, n node) lease.Item {
	if n.stat == nil {
		return lease.Stamp{}.Item(k)
	}
	it := stamp(n.stat).Item(k)
	it.Value, it.Old = lease.Decode(k.Kind, n.data), o.old(&it)
	it.Edited = n.stat.Version == 0 || lease.Edited(it.Value, int64(n.stat.Version)) // this package writes each node that it makes
	return it
}

// old reports whether an item was written before the store went back.
func (o *origin) old(it *lease.Item) bool { return it.Version != "" && int64(it.Order) <= o.backTo }

// List implements [lease.Driver].
func (d *driver) List(ctx context.Context, kind lease.Kind, from string, limit int) (v lease.View, err error) {
	o, fresh, err := d.enter(ctx, d.reader)
	if err == nil && !fresh {
		err = d.sync(ctx, d.reader)
	}
	if err != nil {
		return v, d.fail(err)
	}
	children, err := ensemble.Read(ctx, d.reader, func(c *zk.Conn) ([]string, error) {
		list, _, err := c.Children(d.root.directory(kind))
		return list, err
	})
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return v, d.fail(err)
	}
	var names []string
	for _, part := range children {
		if name, ok := ensemble.Unescape(part); ok && name >= from {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	v = lease.View{Epoch: o.epoch, WentBack: o.wentBack}
	for len(names) > 0 && len(v.Items) < limit { // some may be deleted meanwhile
		part := names[:min(len(names), limit-len(v.Items))]
		names = names[len(part):]
		items, errs := make([]lease.Item, len(part)), make([]error, len(part))
		ensemble.InParallel(len(part), func(i int) {
			items[i], errs[i] = d.readItem(ctx, d.reader, lease.Key{Kind: kind, Name: part[i]}, o)
		})
		if err := cmp.Or(errs...); err != nil {
			return v, d.fail(err)
		}
		for _, it := range items {
			if it.Version != "" {
				v.Items = append(v.Items, it)
			}
		}
	}
	return v, nil
}
