package zookeeper

import (
	"context"
	"errors"
	"math"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/ensemble"
)

// An origin is what is known of the store.
type origin struct {
	epoch    string // the data of the root: random text that was written when it was made
	made     int64  // the zxid by which the root was made: a copy of it in another ensemble has another one
	version  int32  // of the root
	session  int64  // in which a write has shown whether the store went back; 0: none
	wentBack int
	backTo   int64 // the zxid to which the store went back; 0: it did not
}

// unproven is origin.backTo in a copy until a write has shown a zxid: nothing there may be the latest.
const unproven = math.MaxInt64

// readOrigin returns the origin of what is read.
func (d *driver) readOrigin(ctx context.Context) (o origin, err error) {
	n, err := d.session.Watched(ctx, ensemble.Data, string(d.root))
	switch {
	case err != nil:
		return o, err
	case len(n.Data) == 0:
		return d.writeOrigin(ctx)
	}
	return d.noteRoot(n), nil
}

// noteRoot returns the origin after the root was read.
func (d *driver) noteRoot(n ensemble.Node) origin {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch epoch, before := clean.Text(string(n.Data), 64, false), &d.origin; {
	case epoch != before.epoch:
		d.origin, d.newest = origin{epoch: epoch, wentBack: before.wentBack}, 0
	case n.Stat.Czxid != before.made:
		d.origin, d.newest = origin{epoch: epoch, wentBack: before.wentBack + 1, backTo: unproven}, 0
	}
	d.origin.version, d.origin.made = n.Stat.Version, n.Stat.Czxid
	return d.origin
}

// writeOrigin returns the origin of what is written. It makes the root if there is none.
func (d *driver) writeOrigin(ctx context.Context) (o origin, err error) {
	client, err := d.session.Ready(ctx)
	if err != nil {
		return o, err
	}
	id := client.SessionID()
	d.mu.Lock()
	o = d.origin
	d.mu.Unlock()
	switch id {
	case 0: // it has just ended
		return o, ensemble.ErrEnded
	case o.session:
		return o, nil
	}
	for range 5 {
		if err := d.session.Sync(ctx); err != nil {
			return o, err
		}
		n, err := d.session.ReadNode(ctx, ensemble.Data, string(d.root))
		switch {
		case err != nil:
			return o, err
		case n.Missing:
			err = d.session.Make(ctx, string(d.root), []byte(backend.NewNonce()))
		case len(n.Data) == 0: // an administrator has made it
			random := []byte(backend.NewNonce())
			set := &zk.SetDataRequest{Path: string(d.root), Data: random, Version: n.Stat.Version}
			_, _, err = d.session.Multi(ctx, id, set)
		default:
			return d.prove(ctx, d.noteRoot(n), id)
		}
		if err != nil && !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) {
			return o, err
		}
	}
	return o, errBusy
}

// prove makes a write in the session: of a node that nobody sees. If its zxid is less than one that was seen,
// the store went back, and what was read so far may be of the store as it was.
func (d *driver) prove(ctx context.Context, o origin, id int64) (origin, error) {
	seen, path := d.noteZxid(0), d.root.directory(lease.Sessions)+"/proof"
	results, _, err := d.session.Multi(ctx, id,
		&zk.CreateRequest{Path: path, Acl: d.ACL},
		&zk.SetDataRequest{Path: path, Version: 0},
		&zk.DeleteRequest{Path: path, Version: 1})
	if err != nil {
		return o, err
	}
	zxid := results[1].Stat.Mzxid

	d.mu.Lock()
	defer d.mu.Unlock()
	if d.origin.epoch != o.epoch || d.origin.made != o.made { // a reading has found another store
		return o, lease.ErrEpoch
	}
	switch {
	case zxid < seen:
		d.origin.wentBack, d.origin.backTo, d.newest = o.wentBack+1, zxid, zxid
		d.session.Drop() // with what is remembered
	case d.origin.backTo == unproven:
		d.origin.backTo = zxid
	}
	d.origin.session = id
	return d.origin, nil
}

// noteZxid notes a zxid, and returns the greatest.
func (d *driver) noteZxid(zxid int64) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.newest = max(d.newest, zxid)
	return d.newest
}
