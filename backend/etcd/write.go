package etcd

import (
	"cmp"
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// Write implements [lease.Driver]. A change is a transaction, which also reads what verify needs. Several
// are nested in one that has no conditions, so that each has its own outcome.
func (d *driver) Write(
	ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item,
) (lease.Written, error) {
	w := writing{driver: d, epoch: epoch, wentBack: wentBack, changes: changes}
	if o := d.origins.Now(); o.Epoch != "" && !w.in(&o) {
		return w.Written, lease.ErrEpoch
	}
	w.Results = make([]lease.Result, len(changes))
	var checks []lease.Key
	for i := range verify {
		checks = append(checks, verify[i].Key)
	}
	w.beside = d.reads(checks, clientv3.WithKeysOnly())
	for from, to := 0, 0; from < len(changes); from = to {
		for items := 0; to < len(changes); to++ {
			if items += len(changes[to].Put) + len(changes[to].Check); to > from && items > maxItems {
				break
			}
		}
		if err := w.send(ctx, from, to); err != nil {
			return w.Written, err
		}
	}
	for i, it := range verify {
		if w.found[it.Key].GetModRevision() != it.Numbers().At {
			w.Stale = append(w.Stale, i)
		}
	}
	return w.Written, nil
}

// writing is one call of Write.
type writing struct {
	*driver
	lease.Written
	epoch    string
	wentBack int
	changes  []lease.Change
	beside   []clientv3.Op // the reading for verify
	found    map[lease.Key]*mvccpb.KeyValue
}

// in reports whether an answer comes from the store that was read.
func (w *writing) in(o *origin) bool { return o.Epoch == w.epoch && o.WentBack == w.wentBack }

// send makes some of the changes in one request. If rights are missing for some only, it tries each half.
func (w *writing) send(ctx context.Context, from, to int) error {
	var when []clientv3.Cmp
	var then []clientv3.Op
	several := to-from > 1
	for i := from; i < to; i++ {
		conditions, puts := w.ops(&w.changes[i])
		if several {
			conditions, puts = nil, append(then, clientv3.OpTxn(conditions, puts, nil))
		}
		when, then = conditions, puts
	}
	then = append(then, w.beside...)
	if w.origins.Now().Text == "" {
		missing := clientv3.Compare(clientv3.CreateRevision(w.keys.origin()), "=", 0)
		put := clientv3.OpPut(w.keys.origin(), string(backend.NewNonce()))
		then = append(then, clientv3.OpTxn([]clientv3.Cmp{missing}, []clientv3.Op{put}, nil))
	}
	resp, o, err := w.txn(ctx, when, then)
	if err == nil && !w.in(&o) {
		err = lease.ErrEpoch
	}
	switch denied := is(err, rpctypes.ErrPermissionDenied, rpctypes.ErrRequestTooLarge); {
	case denied && several:
		half := (from + to) / 2
		if err := w.send(ctx, from, half); err != nil {
			return err
		}
		return w.send(ctx, half, to)
	case denied:
		w.Results[from].Err = err
		return nil
	case err != nil:
		return err
	}
	w.found = w.keys.found(resp)
	for i := from; i < to; i++ {
		w.Results[i].Outcome = backend.Refused
		if resp.Succeeded && (!several || resp.Responses[i-from].GetResponseTxn().GetSucceeded()) {
			items := written(&w.changes[i], resp.Header.GetRevision())
			w.Results[i] = lease.Result{Outcome: backend.Granted, Items: items}
		}
	}
	return nil
}

// ops returns the conditions and the operations of a change.
func (d *driver) ops(c *lease.Change) (when []clientv3.Cmp, then []clientv3.Op) {
	for i := range c.Check {
		when = append(when, d.unchanged(&c.Check[i])...)
	}
	for _, p := range c.Put {
		when = append(when, d.unchanged(&p.Over)...)
		key := d.keys.key(p.Over.Key)
		if p.Value == nil {
			then = append(then, clientv3.OpDelete(key))
			continue
		}
		lease.SetWrite(p.Value, p.Over.Numbers().Writes+1)
		then = append(then, clientv3.OpPut(key, lease.Encode(p.Value)))
	}
	return when, then
}

// unchanged returns the conditions that an item is as it was read.
func (d *driver) unchanged(it *lease.Item) []clientv3.Cmp {
	key := d.keys.key(it.Key)
	when := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", it.Numbers().At)}
	if it.Remembered && it.Value != nil { // a restored store counts revisions anew
		when = append(when, clientv3.Compare(clientv3.Value(key), "=", lease.Encode(it.Value)))
	}
	return when
}

// written returns the items of a change that was applied at a revision.
func written(c *lease.Change, revision int64) (items []lease.Item) {
	for _, p := range c.Put {
		var now lease.Numbers
		if before := p.Over.Numbers(); p.Value != nil {
			now = lease.Numbers{At: revision, Writes: before.Writes + 1, Made: cmp.Or(before.Made, revision)}
		}
		items = append(items, now.Item(p.Over.Key))
	}
	return items
}
