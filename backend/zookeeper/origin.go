package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/ensemble"
)

// An origin is what is known of the store.
type origin struct {
	epoch    string // the data of the root: random text that was written when it was made
	version  int32  // of the root
	session  int64  // in which a write has shown whether the store went back; 0: none
	wentBack int
	backTo   int64 // the zxid to which the store went back; 0: it did not
}

// readOrigin returns the origin of what is read.
func (d *driver) readOrigin(ctx context.Context) (o origin, err error) {
	for range 2 {
		n, err := d.session.Watched(ctx, ensemble.Data, string(d.root))
		if err != nil {
			return o, err
		}
		if len(n.Data) > 0 {
			return d.noteRoot(n), nil
		}
		if _, err = d.writeOrigin(ctx); err != nil {
			return o, err
		}
	}
	return o, errBusy
}

// noteRoot returns the origin after the root was read.
func (d *driver) noteRoot(n ensemble.Node) origin {
	d.mu.Lock()
	defer d.mu.Unlock()
	if epoch := clean.Text(string(n.Data), 64, false); epoch != d.origin.epoch {
		d.origin, d.newest = origin{epoch: epoch, wentBack: d.origin.wentBack}, 0
	}
	d.origin.version = n.Stat.Version
	return d.origin
}

// writeOrigin returns the origin of what is written. It makes the root if there is none.
func (d *driver) writeOrigin(ctx context.Context) (o origin, err error) {
	client, err := d.session.Ready(ctx)
	if err != nil {
		return o, err
	}
	select {
	case d.entering <- struct{}{}:
		defer func() { <-d.entering }()
	case <-ctx.Done():
		return o, ctx.Err()
	}
	id := client.SessionID()
	d.mu.Lock()
	o = d.origin
	d.mu.Unlock()
	switch id {
	case 0: // it has just ended
		return o, errSessionEnded
	case o.session:
		return o, nil
	}
	for range 5 {
		if err := d.sync(ctx); err != nil {
			return o, err
		}
		n, err := d.session.ReadNode(ctx, ensemble.Data, string(d.root))
		switch {
		case err != nil:
			return o, err
		case n.Missing:
			err = d.session.Make(ctx, string(d.root), []byte(backend.NewNonce()))
		case len(n.Data) == 0: // an administrator has made it
			_, err = d.set(ctx, string(d.root), []byte(backend.NewNonce()), n.Stat.Version)
		default:
			return d.prove(ctx, d.noteRoot(n), id)
		}
		if err != nil && !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) {
			return o, err
		}
	}
	return o, errBusy
}

// prove makes a write in the session. If its zxid is less than one that was seen, the store went
// back, and what was read so far may be of the store as it was.
func (d *driver) prove(ctx context.Context, o origin, id int64) (origin, error) {
	seen, path := d.noteZxid(0), d.root.directory(lease.Sessions)
	stat, err := d.set(ctx, path, nil, -1)
	if errors.Is(err, zk.ErrNoNode) {
		if err = d.session.Make(ctx, path, nil); err == nil {
			stat, err = d.set(ctx, path, nil, -1)
		}
	}
	if err != nil {
		return o, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.origin.epoch != o.epoch { // a reading has found another store
		return o, lease.ErrEpoch
	}
	if stat.Mzxid < seen {
		d.origin.wentBack, d.origin.backTo, d.newest = o.wentBack+1, stat.Mzxid, stat.Mzxid
		d.session.Watches.ForgetAll()
	}
	d.origin.session = id
	return d.origin, nil
}

func (d *driver) set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	return ensemble.Call(ctx, d.session, func(c *zk.Conn) (*zk.Stat, error) { return c.Set(path, data, version) })
}

// sync brings the server that answers up to date with the ensemble's leader.
func (d *driver) sync(ctx context.Context) error {
	_, err := ensemble.Read(ctx, d.session, func(c *zk.Conn) (string, error) { return c.Sync("/") })
	return err
}

// noteZxid notes a zxid, and returns the greatest.
func (d *driver) noteZxid(zxid int64) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.newest = max(d.newest, zxid)
	return d.newest
}
