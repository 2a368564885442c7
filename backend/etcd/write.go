package etcd

import (
	"context"
	"strconv"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// Write implements [lease.Driver]. A change is a transaction. Several are nested in one that has no
// conditions, so that each has its own outcome. If there is one change, the reading for verify is
// part of it.
func (d *driver) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	w := writing{driver: d, epoch: epoch, wentBack: wentBack, changes: changes, found: found{}}
	if o := d.origins.Now(); o.Epoch != "" && !w.in(&o) {
		return w.Written, lease.ErrEpoch
	}
	w.Results = make([]lease.Result, len(changes))
	checks := make([]lease.Key, len(verify))
	for i := range verify {
		checks[i] = verify[i].Key
	}
	reads := d.reads(checks, clientv3.WithKeysOnly())
	if len(changes) == 1 && len(changes[0].Put)+len(reads) <= 2*maxItems {
		w.beside, reads = reads, nil
	}
	for _, part := range splitChanges(changes, maxItems) {
		if err := w.send(ctx, part); err != nil {
			return w.Written, err
		}
	}
	if reads != nil {
		if err := w.txn(ctx, nil, reads); err != nil {
			return w.Written, err
		}
	}
	for i, it := range verify {
		if w.found[it.Key].GetModRevision() != parseVersion(it.Version).revision {
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
	beside   []clientv3.Op // a reading that is made together with the only change
	resp     *clientv3.TxnResponse
	found    found
}

// in reports whether an answer comes from the store that was read.
func (w *writing) in(o *origin) bool { return o.Epoch == w.epoch && o.WentBack == w.wentBack }

// txn sends one transaction to the store that was read.
func (w *writing) txn(ctx context.Context, when []clientv3.Cmp, then []clientv3.Op) error {
	resp, o, err := w.driver.txn(ctx, when, then)
	if err == nil && !w.in(&o) {
		err = lease.ErrEpoch
	}
	if err == nil {
		w.resp = resp
		w.found.add(w.keys, resp)
	}
	return err
}

// send makes some of the changes in one request. If rights are missing for some of them only, it
// tries each half.
func (w *writing) send(ctx context.Context, part []int) error {
	var when []clientv3.Cmp
	var then []clientv3.Op
	for _, i := range part {
		conditions, puts := w.ops(&w.changes[i])
		if len(part) == 1 {
			when, then = conditions, append(puts, w.beside...)
		} else {
			then = append(then, clientv3.OpTxn(conditions, puts, nil))
		}
	}
	err := w.txn(ctx, when, then)
	switch denied := is(err, rpctypes.ErrPermissionDenied, rpctypes.ErrRequestTooLarge); {
	case denied && len(part) > 1:
		if err := w.send(ctx, part[:len(part)/2]); err != nil {
			return err
		}
		return w.send(ctx, part[len(part)/2:])
	case denied:
		w.Results[part[0]].Err = err
		return nil
	case err != nil:
		return err
	}
	for n, i := range part {
		succeeded := w.resp.Succeeded
		if len(part) > 1 {
			succeeded = w.resp.Responses[n].GetResponseTxn().GetSucceeded()
		}
		w.Results[i].Outcome = backend.Refused
		if succeeded {
			w.Results[i] = lease.Result{Outcome: backend.Granted, Items: written(&w.changes[i], w.resp.Header.GetRevision())}
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
		lease.SetWrite(p.Value, parseVersion(p.Over.Version).writes+1)
		then = append(then, clientv3.OpPut(key, lease.Encode(p.Value)))
	}
	return when, then
}

// unchanged returns the conditions that an item is as it was read.
func (d *driver) unchanged(it *lease.Item) []clientv3.Cmp {
	key := d.keys.key(it.Key)
	when := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", parseVersion(it.Version).revision)}
	if it.Remembered && it.Value != nil { // a restored store counts revisions anew
		when = append(when, clientv3.Compare(clientv3.Value(key), "=", lease.Encode(it.Value)))
	}
	return when
}

// written returns the items of a change that was applied at a revision.
func written(c *lease.Change, revision int64) (items []lease.Item) {
	for _, p := range c.Put {
		it := lease.Item{Key: p.Over.Key, Age: -1}
		if p.Value != nil {
			before := parseVersion(p.Over.Version)
			it.Version, it.Created, it.Order = version{revision, before.writes + 1}.String(), p.Over.Created, uint64(revision)
			if before.revision == 0 {
				it.Created = strconv.FormatInt(revision, 10)
			}
		}
		items = append(items, it)
	}
	return items
}
