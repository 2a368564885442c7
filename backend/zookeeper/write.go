package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/ensemble"
)

// maxChecks is how many bytes the checks of one request may have.
const maxChecks = 900 << 10

// Write implements [lease.Driver]. A change is one transaction, which also checks the root. If there is
// one change, verify is checked in its transaction, and after it only if that fails.
func (d *driver) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (w lease.Written, err error) {
	o, _, err := d.enter(ctx, d.writer)
	if err != nil {
		return w, d.fail(err)
	}
	if o.epoch != epoch || o.wentBack != wentBack {
		return w, lease.ErrEpoch
	}
	w.Results = make([]lease.Result, len(changes))
	if len(changes) == 1 && len(verify) > 0 {
		t := transaction{d: d, o: o, c: &changes[0]}
		if done, err := t.withChecks(ctx, verify); done || err != nil {
			w.Results[0] = t.result
			return w, d.fail(err)
		}
	}
	errs := make([]error, len(changes))
	ensemble.InParallel(len(changes), func(i int) {
		t := transaction{d: d, o: o, c: &changes[i]}
		errs[i] = t.run(ctx)
		w.Results[i] = t.result
	})
	if err := cmp.Or(errs...); err != nil {
		return w, d.fail(err)
	}
	w.Stale, err = d.stale(ctx, o, verify)
	return w, d.fail(err)
}

// A transaction makes one change.
type transaction struct {
	d      *driver
	o      origin
	c      *lease.Change
	result lease.Result

	ops   []any
	stats []int // of each put: the operation whose result has its stat; -1: a deletion
}

// run makes the change. An error leaves its outcome unknown.
func (t *transaction) run(ctx context.Context) error {
	for try := 0; try < 3; try++ {
		refused, err := t.prepare(ctx)
		if err != nil {
			return err
		}
		if refused {
			t.result = lease.Result{Outcome: backend.Refused}
			return nil
		}
		results, failed, err := t.d.multi(ctx, t.o, t.ops)
		if done, err := t.finish(ctx, results, failed, err); done || err != nil {
			return err
		}
	}
	t.result = lease.Result{Err: errBusy}
	return nil
}

// withChecks makes the change and checks verify in the same transaction. done is false if nothing was
// made.
func (t *transaction) withChecks(ctx context.Context, verify []lease.Item) (done bool, err error) {
	if refused, err := t.prepare(ctx); refused || err != nil {
		return false, err
	}
	size := 0
	for _, p := range t.c.Put {
		if p.Value != nil {
			size += len(lease.Encode(p.Value))
		}
	}
	own := len(t.ops)
	for _, it := range verify {
		check := t.d.check(&it)
		if size += opSize(check); check.Version == impossible || size > maxChecks {
			return false, nil
		}
		t.ops = append(t.ops, check)
	}
	results, failed, err := t.d.multi(ctx, t.o, t.ops)
	if err != nil && (failed >= own || failed >= 0 && isNo(err)) {
		return false, nil // run finds out more
	}
	return t.finish(ctx, results[:min(own, len(results))], failed, err)
}

// finish notes the outcome. done is false if the transaction must be made again.
func (t *transaction) finish(ctx context.Context, results []zk.MultiResponse, failed int, err error) (done bool, _ error) {
	switch {
	case err == nil:
		t.result = lease.Result{Outcome: backend.Granted, Items: t.written(results)}
		return true, nil
	case failed < 0:
		return false, err
	case failed == 0 && isNo(err):
		t.d.forgetOrigin()
		return false, lease.ErrEpoch
	case isNo(err):
		if create, is := t.ops[failed].(*zk.CreateRequest); is && errors.Is(err, zk.ErrNoNode) {
			return false, t.d.makeNode(ctx, parent(create.Path), nil)
		}
		t.result = lease.Result{Outcome: backend.Refused}
		return true, nil
	}
	t.result = lease.Result{Err: t.d.fail(err)}
	return true, nil
}

// isNo reports whether err says that a condition does not hold.
func isNo(err error) bool {
	return errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists)
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
		if refused, err := t.put(ctx, &t.c.Put[i]); refused || err != nil {
			return refused, err
		}
	}
	return false, nil
}

// put adds the operations of one put.
func (t *transaction) put(ctx context.Context, p *lease.Put) (refused bool, err error) {
	d, path := t.d, t.d.root.path(p.Over.Key)
	if same, err := d.asRemembered(ctx, &p.Over, t.o); !same || err != nil {
		return true, err
	}
	d.watches.changing(path)
	number := parseVersion(p.Over.Version).number
	switch meta := p.Over.Kind == lease.Metas; {
	case p.Over.Version == "" && meta: // the node is there, without data
		n, err := ensemble.Read(ctx, d.writer, func(c *zk.Conn) (node, error) { return readNode(c, path, false) })
		switch {
		case err != nil:
			return false, err
		case len(n.data) > 0:
			return true, nil
		case n.stat == nil:
			t.ops = append(t.ops, &zk.CreateRequest{Path: path, Acl: d.ACL})
		default:
			number = n.stat.Version
		}
	case p.Over.Version == "":
		flags := int32(zk.FlagPersistent)
		if p.Over.Kind == lease.Sessions {
			flags = zk.FlagEphemeral
			d.present.Store(true)
		}
		t.ops = append(t.ops, &zk.CreateRequest{Path: path, Acl: d.ACL, Flags: flags})
	case p.Value == nil && !meta:
		t.ops, t.stats = append(t.ops, &zk.DeleteRequest{Path: path, Version: number}), append(t.stats, -1)
		return false, nil
	}
	// A node that was just created has version 0. Its data comes by a second operation, whose result
	// has the zxid; that of a creation does not.
	text := ""
	if p.Value != nil {
		lease.SetWrite(p.Value, int64(number)+1)
		text = lease.Encode(p.Value)
	}
	t.stats = append(t.stats, len(t.ops))
	t.ops = append(t.ops, &zk.SetDataRequest{Path: path, Data: []byte(text), Version: number})
	return false, nil
}

// written returns the items of a change that was made.
func (t *transaction) written(results []zk.MultiResponse) (items []lease.Item) {
	for i, p := range t.c.Put {
		it := lease.Item{Key: p.Over.Key, Age: -1}
		if at := t.stats[i]; at >= 0 && p.Value != nil {
			stat := results[at].Stat
			it.Version, it.Created, it.Order = versionOf(stat).String(), strconv.FormatInt(stat.Czxid, 16), uint64(stat.Mzxid)
			t.d.noteZxid(stat.Mzxid)
		}
		if p.Over.Kind == lease.Sessions && p.Value == nil {
			t.d.present.Store(false)
		}
		items = append(items, it)
	}
	return items
}

// check returns the operation that checks that an item has its version.
func (d *driver) check(it *lease.Item) *zk.CheckVersionRequest {
	number := int32(impossible)
	if it.Version != "" {
		number = parseVersion(it.Version).number
	}
	return &zk.CheckVersionRequest{Path: d.root.path(it.Key), Version: number}
}

func opSize(c *zk.CheckVersionRequest) int { return len(c.Path) + 17 }

// asRemembered reports whether an item that was remembered is still there in its version. ZooKeeper
// compares only the number of a write, which a restored store counts anew.
func (d *driver) asRemembered(ctx context.Context, it *lease.Item, o origin) (bool, error) {
	if !it.Remembered || it.Value == nil {
		return true, nil
	}
	now, known := d.watches.item(d.root.path(it.Key))
	if !known {
		var err error
		if now, _, err = d.readItem(ctx, d.writer, it.Key, o); err != nil {
			return false, err
		}
	}
	return now.Version == it.Version, nil
}

// stale returns which items have another version, by transactions that only check.
func (d *driver) stale(ctx context.Context, o origin, verify []lease.Item) (stale []int, err error) {
	for from := 0; from < len(verify); {
		ops, size, to := []any(nil), 0, from
		for ; to < len(verify); to++ {
			check := d.check(&verify[to])
			if size += opSize(check); ops != nil && size > maxChecks {
				break
			}
			ops = append(ops, check)
		}
		_, failed, err := d.multi(ctx, o, ops)
		switch {
		case err == nil:
			from = to
		case failed < 0 || !isNo(err):
			return nil, err
		default: // all before it are as they were at that moment, which is after the write
			at := from + failed
			if verify[at].Version != "" {
				stale = append(stale, at)
			} else if now, _, err := d.readItem(ctx, d.writer, verify[at].Key, o); err != nil {
				return nil, err
			} else if now.Version != "" {
				stale = append(stale, at)
			}
			from = at + 1
		}
	}
	return stale, nil
}

// multi makes all operations or none, in the session of o. failed is the first that could not be made,
// or -1 if the outcome is unknown.
func (d *driver) multi(ctx context.Context, o origin, ops []any) (results []zk.MultiResponse, failed int, err error) {
	type outcome struct {
		results []zk.MultiResponse
		err     error
	}
	got, err := ensemble.Call(ctx, d.writer, func(c *zk.Conn) (outcome, error) {
		if c.SessionID() != o.writes { // it may be another ensemble
			return outcome{}, errSessionEnded
		}
		r, err := c.Multi(ops...)
		return outcome{r, err}, nil
	})
	if err == nil {
		err = got.err
	}
	if err == nil && len(got.results) != len(ops) {
		err = fmt.Errorf("%d answers to %d operations", len(got.results), len(ops))
	}
	if err == nil {
		return got.results, -1, nil
	}
	if failed, why := ensemble.FailedOp(got.results); failed >= 0 {
		return nil, failed, why
	}
	return nil, -1, err
}
