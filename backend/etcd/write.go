package etcd

import (
	"context"
	"strconv"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/internal/kv"
	"github.com/go-election/go-election/backend/lease"
)

// Write implements [lease.Driver]. A change is a transaction. Several are nested in one that has no
// conditions, so that each has its own outcome. If there is one change, the first readings for
// verify are part of it.
func (d *driver) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	w := writing{driver: d, epoch: epoch, wentBack: wentBack, changes: changes, results: make([]lease.Result, len(changes)), found: found{}}
	if o := d.origins.Now(); o.Epoch != "" && !w.in(&o) {
		return lease.Written{}, lease.ErrEpoch
	}
	checks := make([]lease.Key, len(verify))
	for i := range verify {
		checks[i] = verify[i].Key
	}
	reads := d.reads(checks, clientv3.WithKeysOnly())
	if len(changes) == 1 && len(changes[0].Put)+len(reads[0]) <= 2*maxItems {
		w.beside, reads = reads[0], reads[1:]
	}
	for _, part := range kv.Parts(changes, maxItems) {
		if err := w.send(ctx, part); err != nil {
			return lease.Written{Results: w.results}, err
		}
	}
	for _, ops := range reads {
		if !w.applied || len(ops) == 0 {
			continue
		}
		resp, o, err := d.txn(ctx, nil, ops)
		if err == nil && !w.in(&o) {
			err = lease.ErrEpoch
		}
		if err != nil {
			return lease.Written{Results: w.results}, err
		}
		w.found.add(d.keys, resp)
	}
	var stale []int
	for i, it := range verify {
		if w.applied && w.found[it.Key].GetModRevision() != parseVersion(it.Version).revision {
			stale = append(stale, i)
		}
	}
	return lease.Written{Results: w.results, Stale: stale}, nil
}

// writing is one call of Write.
type writing struct {
	*driver
	epoch    string
	wentBack int
	changes  []lease.Change
	beside   []clientv3.Op // readings that are made together with the only change

	results []lease.Result
	applied bool // at least one change
	found   found
}

// in reports whether an answer comes from the store that was read.
func (w *writing) in(o *kv.Origin) bool { return o.Epoch == w.epoch && o.WentBack == w.wentBack }

// send makes some of the changes in one request. If rights are missing for some of them only, it
// tries each half.
func (w *writing) send(ctx context.Context, part []int) error {
	resp, o, err := w.try(ctx, part)
	if is(err, rpctypes.ErrLeaseNotFound) {
		resp, o, err = w.try(ctx, part)
	}
	denied := is(err, rpctypes.ErrPermissionDenied, rpctypes.ErrRequestTooLarge)
	switch {
	case denied && len(part) > 1:
		if err := w.send(ctx, part[:len(part)/2]); err != nil {
			return err
		}
		return w.send(ctx, part[len(part)/2:])
	case denied:
		w.results[part[0]].Err = err
		return nil
	case err != nil:
		return err
	case !w.in(&o):
		return lease.ErrEpoch
	}
	for n, i := range part {
		succeeded := resp.Succeeded
		if len(part) > 1 {
			succeeded = resp.Responses[n].GetResponseTxn().GetSucceeded()
		}
		if !succeeded {
			w.results[i].Outcome = backend.Refused
			continue
		}
		w.applied = true
		w.results[i] = lease.Result{Outcome: backend.Granted, Items: written(&w.changes[i], resp.Header.GetRevision())}
		w.revokeAfter(ctx, &w.changes[i])
	}
	w.found.add(w.keys, resp)
	return nil
}

// try sends some of the changes in one request.
func (w *writing) try(ctx context.Context, part []int) (*clientv3.TxnResponse, kv.Origin, error) {
	id, err := w.leaseFor(ctx, w.changes)
	if err != nil {
		return nil, kv.Origin{}, err
	}
	var when []clientv3.Cmp
	var then []clientv3.Op
	for _, i := range part {
		conditions, puts := w.ops(&w.changes[i], id)
		if len(part) == 1 {
			when, then = conditions, append(puts, w.beside...)
		} else {
			then = append(then, clientv3.OpTxn(conditions, puts, nil))
		}
	}
	resp, o, err := w.txn(ctx, when, then)
	if is(err, rpctypes.ErrLeaseNotFound) {
		w.lease.forget(id)
	}
	return resp, o, err
}

// ops returns the conditions and the operations of a change. Sessions are attached to the etcd
// lease id.
func (d *driver) ops(c *lease.Change, id clientv3.LeaseID) (when []clientv3.Cmp, then []clientv3.Op) {
	for i := range c.Check {
		when = append(when, d.unchanged(&c.Check[i])...)
	}
	for i := range c.Put {
		p := &c.Put[i]
		when = append(when, d.unchanged(&p.Over)...)
		if p.Value == nil {
			then = append(then, clientv3.OpDelete(d.keys.Key(p.Over.Key)))
			continue
		}
		if r, ok := p.Value.(*lease.Record); ok {
			r.Write = parseVersion(p.Over.Version).writes + 1
		}
		var opts []clientv3.OpOption
		if p.Over.Kind == lease.Sessions {
			opts = append(opts, clientv3.WithLease(id))
		}
		then = append(then, clientv3.OpPut(d.keys.Key(p.Over.Key), lease.Encode(p.Value), opts...))
	}
	return when, then
}

// unchanged returns the conditions that an item is as it was read.
func (d *driver) unchanged(it *lease.Item) []clientv3.Cmp {
	key := d.keys.Key(it.Key)
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
