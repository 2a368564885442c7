package zookeeper

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/ensemble"
)

// maxBytes is about the most that one request may have. Servers accept 1 MiB by default
// (jute.maxbuffer).
const maxBytes = 900 << 10

// Write implements [lease.Driver]. A change is one transaction, which also checks the root, and the items
// in verify if they fit.
func (d *driver) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (w lease.Written, err error) {
	o, err := d.writeOrigin(ctx)
	if err != nil {
		return w, d.fail(err)
	}
	if o.epoch != epoch || o.wentBack != wentBack {
		return w, lease.ErrEpoch
	}
	w.Results = make([]lease.Result, len(changes))
	errs := make([]error, len(changes))
	ensemble.InParallel(len(changes), func(i int) {
		t := transaction{d: d, o: o, c: &changes[i]}
		if len(changes) == 1 {
			t.verify = verify
		}
		w.Results[i], errs[i] = t.run(ctx)
		if t.verify != nil {
			verify = nil
		}
	})
	if err = cmp.Or(errs...); err == nil {
		w.Stale, err = d.stale(ctx, o, verify)
	}
	return w, d.fail(err)
}

// A transaction makes one change.
type transaction struct {
	d      *driver
	o      origin
	c      *lease.Change
	verify []lease.Item // what is checked in it

	ops   []any
	stats []int // of each put: the operation whose result has its stat; -1: a deletion
}

// run makes the change. An error leaves its outcome unknown.
func (t *transaction) run(ctx context.Context) (lease.Result, error) {
	for {
		refused, err := t.prepare(ctx)
		if err != nil {
			return lease.Result{}, err
		}
		if refused {
			return lease.Result{Outcome: backend.Refused}, nil
		}
		own := len(t.ops)
		if checks := t.d.checks(t.verify, t.bytes()); len(checks) == len(t.verify) {
			t.ops = append(t.ops, checks...)
		} else {
			t.verify = nil
		}
		results, failed, err := t.d.multi(ctx, t.o, t.ops)
		switch {
		case err == nil:
			return lease.Result{Outcome: backend.Granted, Items: t.written(results)}, nil
		case failed < 0:
			return lease.Result{}, err
		case !ensemble.IsUnmet(err):
			return lease.Result{Err: t.d.fail(err)}, nil
		case failed == 0:
			t.d.mu.Lock()
			t.d.origin.session = 0
			t.d.mu.Unlock()
			return lease.Result{}, lease.ErrEpoch
		case failed < own:
			return lease.Result{Outcome: backend.Refused}, nil
		}
		t.verify = nil // one has changed; the change is made all the same
	}
}

// prepare sets the operations: first a check of the root. refused is true if an item is not as it was
// remembered.
func (t *transaction) prepare(ctx context.Context) (refused bool, err error) {
	d := t.d
	t.ops, t.stats = []any{&zk.CheckVersionRequest{Path: string(d.root), Version: t.o.version}}, nil
	for i := range t.c.Check {
		it := &t.c.Check[i]
		if same, err := d.asRemembered(ctx, it, t.o); !same || err != nil {
			return true, err
		}
		if it.Version == "" { // there is no check that a node does not exist
			path := d.root.path(it.Key)
			t.ops = append(t.ops, &zk.CreateRequest{Path: path, Acl: d.ACL}, &zk.DeleteRequest{Path: path, Version: 0})
			continue
		}
		t.ops = append(t.ops, d.check(it))
	}
	for i := range t.c.Put {
		p := &t.c.Put[i]
		if same, err := d.asRemembered(ctx, &p.Over, t.o); !same || err != nil {
			return true, err
		}
		t.put(p)
	}
	return false, nil
}

// put adds the operations of one put. A node that was just created has version 0. Its data comes by a
// second operation, whose result has the zxid; that of a creation does not.
func (t *transaction) put(p *lease.Put) {
	path, number := t.d.root.path(p.Over.Key), int32(p.Over.Numbers().Writes)
	t.d.session.Watches.Forget(ensemble.Data, path)
	if p.Value == nil {
		t.ops, t.stats = append(t.ops, &zk.DeleteRequest{Path: path, Version: number}), append(t.stats, -1)
		return
	}
	if p.Over.Version == "" {
		flags := int32(zk.FlagPersistent)
		if p.Over.Kind == lease.Sessions {
			flags = zk.FlagEphemeral
			t.d.present.Store(true)
		}
		t.ops = append(t.ops, &zk.CreateRequest{Path: path, Acl: t.d.ACL, Flags: flags})
	}
	lease.SetWrite(p.Value, int64(number)+1)
	t.stats = append(t.stats, len(t.ops))
	t.ops = append(t.ops, &zk.SetDataRequest{Path: path, Data: []byte(lease.Encode(p.Value)), Version: number})
}

// bytes returns about how large the request is.
func (t *transaction) bytes() (n int) {
	for _, op := range t.ops {
		if set, is := op.(*zk.SetDataRequest); is {
			n += len(set.Data)
		}
	}
	return n
}

// written returns the items of a change that was made.
func (t *transaction) written(results []zk.MultiResponse) (items []lease.Item) {
	for i, p := range t.c.Put {
		var n lease.Numbers
		if at := t.stats[i]; at >= 0 {
			n = numbers(results[at].Stat)
			t.d.noteZxid(n.At)
			if p.Over.Kind == lease.Sessions && p.Over.Version == "" {
				t.d.owner.Store(t.o.session)
			}
		} else if p.Over.Kind == lease.Sessions {
			t.d.present.Store(false)
		}
		items = append(items, n.Item(p.Over.Key))
	}
	return items
}

// check returns the operation that checks that an item has its version.
func (d *driver) check(it *lease.Item) *zk.CheckVersionRequest {
	return &zk.CheckVersionRequest{Path: d.root.path(it.Key), Version: int32(it.Numbers().Writes)}
}

// checks returns the checks of as many items as fit into a request beside so many bytes.
func (d *driver) checks(items []lease.Item, bytes int) (ops []any) {
	for i := range items {
		op := d.check(&items[i])
		if bytes += len(op.Path) + 17; bytes > maxBytes {
			break
		}
		ops = append(ops, op)
	}
	return ops
}

// asRemembered reports whether an item that was remembered is still there in its version. ZooKeeper
// compares only the number of a write, which a restored store counts anew.
func (d *driver) asRemembered(ctx context.Context, it *lease.Item, o origin) (bool, error) {
	if !it.Remembered || it.Value == nil {
		return true, nil
	}
	now, err := d.readItem(ctx, it.Key, o)
	return now.Version == it.Version, err
}

// stale returns which items have another version, by transactions that only check.
func (d *driver) stale(ctx context.Context, o origin, verify []lease.Item) (stale []int, err error) {
	for from := 0; from < len(verify); {
		ops := d.checks(verify[from:], 0)
		_, failed, err := d.multi(ctx, o, ops)
		switch {
		case err == nil:
			from += len(ops)
		case failed < 0 || !ensemble.IsUnmet(err):
			return nil, err
		default: // all before it are as they were at that moment, which is after the write
			stale = append(stale, from+failed)
			from += failed + 1
		}
	}
	return stale, nil
}

// multi makes all operations or none, in the session of o. It makes the parent of a node if there is
// none. failed is the first operation that could not be made, or -1 if the outcome is unknown.
func (d *driver) multi(ctx context.Context, o origin, ops []any) (results []zk.MultiResponse, failed int, err error) {
	for range 3 {
		results, err = ensemble.Call(ctx, d.session, func(c *zk.Conn) ([]zk.MultiResponse, error) {
			if c.SessionID() != o.session { // it may be another ensemble
				return nil, errSessionEnded
			}
			return c.Multi(ops...)
		})
		failed, err = ensemble.FailedOp(len(ops), results, err)
		if failed < 0 || !errors.Is(err, zk.ErrNoNode) {
			break
		}
		create, is := ops[failed].(*zk.CreateRequest)
		if !is {
			break
		}
		if err := d.session.Make(ctx, ensemble.Parent(create.Path), nil); err != nil {
			return nil, -1, err
		}
	}
	return results, failed, err
}
