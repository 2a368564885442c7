package zookeeper

import (
	"cmp"
	"context"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/ensemble"
)

// maxBytes is about the most that one request may have. Servers accept 1 MiB by default (jute.maxbuffer).
const maxBytes = 900 << 10

// Write implements [lease.Driver]. A change is one transaction, which also checks verify, if that fits.
func (d *driver) Write(
	ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item,
) (w lease.Written, err error) {
	o, err := d.writeOrigin(ctx)
	if err != nil {
		return w, d.fail(err)
	}
	if o.epoch != epoch || o.wentBack != wentBack {
		return w, lease.ErrEpoch
	}
	w.Results = make([]lease.Result, len(changes))
	errs, unverified := make([]error, len(changes)), make([][]lease.Item, len(changes))
	ensemble.InParallel(len(changes), func(i int) { // only one of them if there is something to verify
		w.Results[i], unverified[i], errs[i] = d.change(ctx, o, &changes[i], verify)
	})
	if err = cmp.Or(errs...); err == nil {
		w.Stale, err = d.stale(ctx, o, slices.Concat(unverified...))
	}
	return w, d.fail(err)
}

// change makes a change, and returns what is left to verify. An error leaves its outcome unknown.
func (d *driver) change(
	ctx context.Context, o origin, c *lease.Change, verify []lease.Item,
) (r lease.Result, left []lease.Item, err error) {
	same, err := d.asRemembered(ctx, c, o)
	if err != nil {
		return r, nil, err
	}
	if !same {
		return lease.Result{Outcome: backend.Refused}, nil, nil
	}
	ops, bytes := d.ops(c, o), 0
	for _, op := range ops {
		if set, is := op.(*zk.SetDataRequest); is {
			bytes += len(set.Data)
		}
	}
	checks := d.checks(verify, bytes)
	if len(checks) < len(verify) {
		checks, left = nil, verify
	}
	for {
		results, failed, err := d.session.Multi(ctx, o.session, slices.Concat(ops, checks)...)
		switch {
		case err == nil:
			return lease.Result{Outcome: backend.Granted, Items: d.written(o, c, results)}, left, nil
		case failed < 0:
			return r, nil, err
		case !ensemble.IsUnmet(err):
			return lease.Result{Err: d.fail(err)}, nil, nil
		case failed == 0:
			d.mu.Lock()
			d.origin.session = 0
			d.mu.Unlock()
			return r, nil, lease.ErrEpoch
		case failed < len(ops):
			return lease.Result{Outcome: backend.Refused}, nil, nil
		}
		checks, left = nil, verify // one has changed; the change is made all the same
	}
}

// asRemembered reports whether the items of a change that were remembered are still there in their versions.
// ZooKeeper compares only the number of a write, which a restored store counts anew.
func (d *driver) asRemembered(ctx context.Context, c *lease.Change, o origin) (bool, error) {
	items := slices.Clone(c.Check)
	for _, p := range c.Put {
		items = append(items, p.Over)
	}
	for _, it := range items {
		if !it.Remembered || it.Value == nil {
			continue
		}
		if now, err := d.readItem(ctx, it.Key, o); err != nil || now.Version != it.Version {
			return false, err
		}
	}
	return true, nil
}

// ops returns the operations of a change: first a check of the root.
func (d *driver) ops(c *lease.Change, o origin) []any {
	ops := []any{&zk.CheckVersionRequest{Path: string(d.root), Version: o.version}}
	for i := range c.Check {
		it := &c.Check[i]
		if it.Version == "" { // there is no check that a node does not exist
			path := d.root.path(it.Key)
			ops = append(ops, &zk.CreateRequest{Path: path, Acl: d.ACL}, &zk.DeleteRequest{Path: path})
			continue
		}
		ops = append(ops, d.check(it))
	}
	for i := range c.Put {
		ops = append(ops, d.put(&c.Put[i])...)
	}
	return ops
}

// put returns the operations of one put. A node that was just created has version 0. Its data comes by a
// second operation, whose result has the zxid; that of a creation does not.
func (d *driver) put(p *lease.Put) (ops []any) {
	path, number := d.root.path(p.Over.Key), int32(p.Over.Numbers().Writes)
	if p.Value == nil {
		return []any{&zk.DeleteRequest{Path: path, Version: number}}
	}
	if p.Over.Version == "" {
		flags := int32(zk.FlagPersistent)
		if p.Over.Kind == lease.Sessions {
			flags = zk.FlagEphemeral
		}
		ops = append(ops, &zk.CreateRequest{Path: path, Acl: d.ACL, Flags: flags})
	}
	lease.SetWrite(p.Value, int64(number)+1)
	return append(ops, &zk.SetDataRequest{Path: path, Data: []byte(lease.Encode(p.Value)), Version: number})
}

// written returns the items of a change that was made. Only results of those that have data have a stat.
func (d *driver) written(o origin, c *lease.Change, results []zk.MultiResponse) (items []lease.Item) {
	results = slices.DeleteFunc(results, func(r zk.MultiResponse) bool { return r.Stat == nil })
	for _, p := range c.Put {
		var n lease.Numbers
		if p.Value != nil {
			n = numbers(results[0].Stat)
			results = results[1:]
			d.noteZxid(n.At)
		}
		if p.Over.Kind == lease.Sessions && p.Value != nil && p.Over.Version == "" {
			d.owner.Store(o.session)
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

// stale returns which items have another version, by transactions that only check.
func (d *driver) stale(ctx context.Context, o origin, verify []lease.Item) (stale []int, err error) {
	for from := 0; from < len(verify); {
		ops := d.checks(verify[from:], 0)
		_, failed, err := d.session.Multi(ctx, o.session, ops...)
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
