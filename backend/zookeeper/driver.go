package zookeeper

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/ensemble"
)

// A driver is access to the nodes below one root. It implements [lease.Driver] and [lease.Listener].
// An item is a node whose data is JSON. Its Order is the zxid of its last write.
type driver struct {
	*ensemble.Access
	root    root
	session *ensemble.Session
	owner   atomic.Int64 // the session in which the node of this process was made last

	mu     sync.Mutex
	origin origin
	newest int64 // the greatest zxid that was seen
}

var (
	_ lease.Listener = (*driver)(nil)
	_ lease.Keeper   = (*driver)(nil)
)

func (d *driver) Limits() lease.Limits {
	return lease.Limits{
		Name: Name, MinTTL: time.Second, MaxTTL: 5 * time.Minute,
		Batch: 25, Checks: 24, MaxValue: 1 << 19,
	}
}

func (d *driver) Kept() bool {
	return d.session.Connected() && d.owner.Load() == d.session.Connection().ID
}

// Close implements [lease.Driver]. The servers end the session later, with the node of this process.
func (d *driver) Close() error {
	d.session.Close(false)
	return nil
}

// Read implements [lease.Driver]. All answers come on one connection, so that they are of one store, and
// none is older than the one before.
func (d *driver) Read(ctx context.Context, keys []lease.Key) (v lease.View, err error) {
	for range 3 {
		if _, err := d.session.Ready(ctx); err != nil {
			return v, d.fail(err)
		}
		on := d.session.Connection()
		if v, err = d.readSynced(ctx, keys); d.session.Connection() == on {
			return v, d.fail(err)
		}
	}
	return lease.View{}, fmt.Errorf("%w: connections are lost during each reading", backend.ErrUnavailable)
}

// readSynced reads items. Servers answer with what they have, which may be old. What is newer than all
// that this process has seen need only be newer; if nothing is, the server is brought up to date, and all
// is read again. docs/design/zookeeper.md, "Readings", says why that is safe.
func (d *driver) readSynced(ctx context.Context, keys []lease.Key) (lease.View, error) {
	before := d.noteZxid(0)
	v, newest, err := d.readAll(ctx, keys)
	if err == nil && newest <= before {
		if err = d.session.Sync(ctx); err == nil {
			v, newest, err = d.readAll(ctx, keys)
		}
	}
	d.noteZxid(newest)
	return v, err
}

// readAll reads items and returns the newest zxid. What a watch says of a record is as new as the last
// answer, so records are looked up in memory again after all that is asked for. The meta item is last, so
// that it is not older than any record. The records are counted after that.
func (d *driver) readAll(ctx context.Context, keys []lease.Key) (v lease.View, newest int64, err error) {
	o, err := d.readOrigin(ctx)
	if err != nil {
		return v, 0, err
	}
	v = lease.View{Epoch: o.epoch, WentBack: o.wentBack, Items: make([]lease.Item, len(keys))}
	v.Position, _ = d.session.Fired()
	v.Position++ // never 0
	errs := make([]error, len(keys)+1)
	for _, kinds := range [][]lease.Kind{{lease.Sessions, lease.Records}, {lease.Records}, {lease.Metas}} {
		ensemble.InParallel(len(keys), func(i int) {
			if slices.Contains(kinds, keys[i].Kind) {
				v.Items[i], errs[i] = d.readItem(ctx, keys[i], o)
			}
		})
	}
	if slices.Contains(keys, lease.Key{Kind: lease.Metas}) {
		var n ensemble.Node
		n, errs[len(keys)] = d.session.ReadNode(ctx, ensemble.Data, d.root.directory(lease.Records))
		v.Records = int64(n.Stat.NumChildren)
	}
	for i := range v.Items {
		newest = max(newest, int64(v.Items[i].Order))
	}
	return v, newest, cmp.Or(errs...)
}

// readItem reads an item. A record leaves a watch, and comes from memory if one says that it has not changed.
func (d *driver) readItem(ctx context.Context, k lease.Key, o origin) (lease.Item, error) {
	read := d.session.ReadNode
	if k.Kind == lease.Records {
		read = d.session.Watched
	}
	n, err := read(ctx, ensemble.Data, d.root.path(k))
	return o.item(k, n), err
}

// item returns a node as an item.
func (o *origin) item(k lease.Key, n ensemble.Node) lease.Item {
	if n.Missing {
		return lease.Numbers{}.Item(k)
	}
	it := numbers(&n.Stat).Item(k)
	it.Value, it.Old = lease.Decode(k.Kind, n.Data), n.Stat.Mzxid <= o.backTo
	// This package writes each node that it makes.
	it.Edited = n.Stat.Version == 0 || lease.Edited(it.Value, int64(n.Stat.Version))
	return it
}

// Listen implements [lease.Listener] by the watches that readings have left. It only says that
// something has changed. Positions count the watches that have fired.
func (d *driver) Listen(ctx context.Context, position uint64, _ []lease.Item, on lease.Heard) error {
	for {
		fired, next := d.session.Fired()
		switch now := fired + 1; {
		case position == 0 || position > now:
			return nil
		case position < now:
			on(nil, now)
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d *driver) List(ctx context.Context, kind lease.Kind, from string, most int) (v lease.View, err error) {
	if err := d.session.Sync(ctx); err != nil {
		return v, d.fail(err)
	}
	o, err := d.readOrigin(ctx)
	if err != nil {
		return v, d.fail(err)
	}
	parent, err := d.session.ReadNode(ctx, ensemble.Children, d.root.directory(kind))
	if err != nil {
		return v, d.fail(err)
	}
	var names []string
	for _, part := range parent.Children {
		if name, ok := ensemble.Unescape(part); ok && name >= from {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	v = lease.View{Epoch: o.epoch, WentBack: o.wentBack}
	for len(names) > 0 && len(v.Items) < most { // some may be deleted meanwhile
		part := names[:min(len(names), most-len(v.Items))]
		names = names[len(part):]
		items, errs := make([]lease.Item, len(part)), make([]error, len(part))
		ensemble.InParallel(len(part), func(i int) {
			k := lease.Key{Kind: kind, Name: part[i]}
			n, err := d.session.ReadNode(ctx, ensemble.Data, d.root.path(k))
			items[i], errs[i] = o.item(k, n), err
		})
		if err := cmp.Or(errs...); err != nil {
			return v, d.fail(err)
		}
		there := slices.DeleteFunc(items, func(it lease.Item) bool { return it.Version == "" })
		v.Items = append(v.Items, there...)
	}
	return v, nil
}

var errBusy = fmt.Errorf("%w: other processes kept changing the same nodes", backend.ErrUnavailable)

// fail adds to err its class and what an operator must do.
func (d *driver) fail(err error) error {
	const rights = "read, write, create and delete at %s and below (zkCli.sh: getAcl -R %[1]s)"
	return d.Fail(err, fmt.Sprintf(rights, d.root))
}

// A root is the path of all nodes: ROOT/record/NAME, ROOT/session/NONCE and ROOT/meta.
type root string

// path returns the path of an item.
func (r root) path(k lease.Key) string {
	if k.Kind == lease.Metas {
		return r.directory(lease.Metas)
	}
	return r.directory(k.Kind) + "/" + ensemble.Escape(k.Name)
}

// directory is the parent of all records or sessions, or the meta item.
func (r root) directory(kind lease.Kind) string { return string(r) + "/" + string(kind) }

// numbers returns what ZooKeeper says of a node: the zxid of its last write, which never comes again, and
// the number that it compares, which begins anew when the node is made again.
func numbers(s *zk.Stat) lease.Numbers {
	return lease.Numbers{At: s.Mzxid, Writes: int64(s.Version), Made: s.Czxid}
}
