package consul

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// maxBytes is about the most that one transaction has. Consul allows 512 KiB by default
// (txn_max_req_len), in which values are longer by a third.
const maxBytes = 320 << 10

// Write implements [lease.Driver]. Changes share transactions. Consul applies all of one or nothing; then
// each half is sent again. The items in verify are compared after that.
func (d *driver) Write(
	ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item,
) (lease.Written, error) {
	if epoch != Name {
		return lease.Written{}, lease.ErrEpoch
	}
	w := writing{driver: d, began: time.Now(), wentBack: wentBack, changes: changes, compare: len(verify) > 0}
	w.Results = make([]lease.Result, len(changes))
	for i := range changes {
		w.ops = append(w.ops, d.ops(&changes[i]))
	}
	for from, to := 0, 0; from < len(changes); from = to {
		ops := 2 // for the keys changes and origin
		for ; to < len(changes); to++ {
			if ops += len(w.ops[to]); to > from && ops > maxOps {
				break
			}
		}
		if err := w.send(ctx, from, to); err != nil {
			return w.Written, d.fail(err)
		}
	}
	return w.Written, d.fail(w.verify(ctx, verify))
}

// ops returns the operations of a change.
func (d *driver) ops(c *lease.Change) (ops api.KVTxnOps) {
	for i := range c.Check {
		ops = append(ops, d.pin(&c.Check[i]))
	}
	for i := range c.Put {
		put := &c.Put[i]
		key := d.key(put.Over.Key)
		set := &api.KVTxnOp{Verb: api.KVCAS, Key: key, Index: version(&put.Over)}
		if put.Value == nil || put.Over.Kind == lease.Records { // records are made again
			set.Index = 0
			ops = append(ops, d.pin(&put.Over), &api.KVTxnOp{Verb: api.KVDelete, Key: key})
		}
		if put.Value != nil {
			lease.SetWrite(put.Value, int64(version(&put.Over)))
			set.Value = []byte(lease.Encode(put.Value))
			set.Flags = checksum(key, set.Value)
			ops = append(ops, set)
		}
	}
	return ops
}

// version returns the index of an item; 0 if it is not there.
func version(it *lease.Item) uint64 {
	if it.Version == "" {
		return 0
	}
	n, err := strconv.ParseUint(it.Version, 10, 64)
	if err != nil || n == 0 {
		return 1 // no key has it
	}
	return n
}

// pin returns an operation that fails unless the item is as it was read.
func (d *driver) pin(it *lease.Item) *api.KVTxnOp {
	if it.Version == "" {
		return &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: d.key(it.Key)}
	}
	return &api.KVTxnOp{Verb: api.KVCheckIndex, Key: d.key(it.Key), Index: version(it)}
}

// writing is one call of Write.
type writing struct {
	*driver
	lease.Written
	began    time.Time
	wentBack int
	changes  []lease.Change
	ops      []api.KVTxnOps // of each change
	compare  bool           // whether records are compared afterwards
	changed  *api.KVPair    // the key changes, if compare; nil: unknown
}

// send makes some of the changes in one transaction. If it is refused, it tries each half.
func (w *writing) send(ctx context.Context, from, to int) error {
	here := w.here(w.wentBack)
	if here == nil {
		return lease.ErrEpoch
	}
	ops := append(api.KVTxnOps{here}, slices.Concat(w.ops[from:to]...)...)
	switch {
	case slices.ContainsFunc(w.changes[from:to], putsRecord):
		text := []byte(backend.NewNonce()) // Consul does not do a write of what is there
		ops = append(ops, &api.KVTxnOp{Verb: api.KVSet, Key: w.driver.changes(), Value: text})
	case w.compare:
		ops = append(ops, gets([]string{w.driver.changes()})...)
	}
	ok, answer, err := w.txn(ctx, ops)
	if err == nil && ok {
		return w.applied(ctx, from, to, here, answer)
	}
	if err == nil {
		err = refusal(answer)
	}
	if here.Verb == api.KVCAS && errors.Is(err, lease.ErrEpoch) { // another process has made the key
		if _, err := w.Read(ctx, nil); err != nil {
			return err
		}
		return w.send(ctx, from, to)
	}
	denied := errors.Is(w.fail(err), backend.ErrDenied) // also one that is too large
	switch r := &w.Results[from]; {
	case errors.Is(err, lease.ErrEpoch) || !denied && !errors.Is(err, errConflict):
		return err
	case to-from > 1:
		half := (from + to) / 2
		if err := w.send(ctx, from, half); err != nil {
			return err
		}
		return w.send(ctx, half, to)
	case denied:
		r.Err = w.fail(err)
	default:
		r.Outcome = backend.Refused
	}
	return nil
}

func putsRecord(c lease.Change) bool {
	return slices.ContainsFunc(c.Put, func(p lease.Put) bool { return p.Over.Kind == lease.Records })
}

// applied sets the results of changes that were applied in one transaction.
func (w *writing) applied(
	ctx context.Context, from, to int, here *api.KVTxnOp, answer *api.KVTxnResponse,
) error {
	written := make(map[string]*api.KVPair, len(answer.Results))
	for _, p := range answer.Results {
		written[p.Key] = p // the last operation on a key is its put
	}
	w.changed = written[w.driver.changes()]
	var items []lease.Item
	for i := from; i < to; i++ {
		r := lease.Result{Outcome: backend.Granted}
		for _, put := range w.changes[i].Put {
			it := lease.Item{Key: put.Over.Key}
			if put.Value != nil {
				p := written[w.key(it.Key)]
				if p == nil || p.ModifyIndex <= version(&put.Over) {
					return errForeign
				}
				it = w.item(it.Key, p)
				it.Edited = false // the answer has no value
			}
			it.Age = 0
			r.Items = append(r.Items, it)
		}
		items = append(items, r.Items...)
		w.Results[i] = r
	}
	var origin *api.KVPair
	if made := written[here.Key]; made != nil && here.Verb == api.KVCAS {
		origin, made.Value = made, here.Value
	}
	return w.note(ctx, w.began, items, origin)
}

// verify notes which items have another version. It compares records, which may be many.
func (w *writing) verify(ctx context.Context, items []lease.Item) error {
	if len(items) == 0 {
		return nil
	}
	records, err := w.listRecords(ctx, w.changed)
	for i := range items {
		if records[items[i].Key].Version != items[i].Version {
			w.Stale = append(w.Stale, i)
		}
	}
	return err
}

// refusal returns why a transaction was not applied: errConflict if a key is not as it was read, and ErrEpoch
// if that is the key of the first operation, by driver.here. Only the beginning of the text is Consul's; the
// rest contains the name of the key.
func refusal(answer *api.KVTxnResponse) error {
	if len(answer.Errors) == 0 {
		return errors.New("the transaction was refused without a reason")
	}
	e := answer.Errors[0]
	changed := slices.ContainsFunc([]string{
		"failed to set key ", "failed to check index, ", "failed index check for ", "key ",
	}, func(text string) bool { return strings.HasPrefix(e.What, text) })
	switch {
	case !changed:
		return errors.New(e.What)
	case e.OpIndex == 0:
		return lease.ErrEpoch
	}
	return errConflict
}
