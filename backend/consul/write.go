package consul

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// maxBytes is about the most that one transaction has. Consul allows 512 KiB by default
// (txn_max_req_len), in which values are longer by a third.
const maxBytes = 320 << 10

// A plan is a change as operations of a transaction.
type plan struct {
	change *lease.Change
	ops    api.KVTxnOps
	bytes  int
}

// Write implements [lease.Driver]. Changes share transactions. Consul applies all of one or nothing,
// and says which operations it refuses; then the others are sent again. The items in verify are
// compared after that.
func (d *driver) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	if epoch != Name {
		return lease.Written{}, lease.ErrEpoch
	}
	here, err := d.identify(ctx, wentBack)
	if err != nil {
		return lease.Written{}, d.Fail(err)
	}
	w := writing{driver: d, here: here, call: d.begin(), plans: make([]plan, len(changes)), results: make([]lease.Result, len(changes)), compare: len(verify) > 0}
	todo := make([]int, len(changes))
	for i := range changes {
		todo[i], w.plans[i] = i, d.plan(&changes[i])
	}
	if len(changes) == 1 && changes[0].Read != nil {
		if names := d.names(singly(changes[0].Read)); 2+len(w.plans[0].ops)+len(names) <= maxOps {
			w.names = names
		}
	}
	for len(todo) > 0 {
		n := w.fit(todo)
		left, err := w.try(ctx, todo[:n])
		if err != nil {
			return lease.Written{Results: w.results}, d.Fail(err)
		}
		todo = append(left, todo[n:]...)
	}
	if w.found != nil {
		if v, err := d.read(ctx, w.call, changes[0].Read, w.found); err == nil {
			w.results[0].View = &v
		}
	}
	stale, err := w.verify(ctx, verify)
	return lease.Written{Results: w.results, Stale: stale}, d.Fail(err)
}

// plan returns the operations of a change.
func (d *driver) plan(c *lease.Change) (p plan) {
	p.change = c
	add := func(op *api.KVTxnOp) {
		p.ops = append(p.ops, op)
		p.bytes += len(op.Key) + len(op.Value) + 128
	}
	for i := range c.Check {
		add(d.pin(&c.Check[i]))
	}
	for i := range c.Put {
		put := &c.Put[i]
		key, made := d.key(put.Over.Key), put.Over.Version == ""
		if put.Value == nil {
			add(d.pin(&put.Over)) // delete-cas also succeeds if there is no key
			add(&api.KVTxnOp{Verb: api.KVDelete, Key: key})
			continue
		}
		lease.SetWrite(put.Value, int64(version(&put.Over)))
		value := []byte(lease.Encode(put.Value))
		set := &api.KVTxnOp{Verb: api.KVCAS, Key: key, Value: value, Index: version(&put.Over), Flags: checksum(key, value)}
		if put.Over.Kind == lease.Records {
			if add(d.pin(&put.Over)); !made {
				add(&api.KVTxnOp{Verb: api.KVDelete, Key: key})
			}
			set.Index = 0
		}
		add(set)
	}
	return p
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
	here    *api.KVTxnOp // fails in another Consul
	call    uint64
	plans   []plan
	results []lease.Result
	compare bool   // whether records are compared afterwards
	changes uint64 // the index of the key changes, if compare; 0: unknown

	names []string               // keys to read with the only change; nil: none
	found map[string]*api.KVPair // them
}

// fit returns how many of the changes fit into one transaction, at least one.
func (w *writing) fit(todo []int) (n int) {
	for ops, bytes := 2, 0; n < len(todo); n++ { // one for the key that every change writes, and one for the origin
		p := &w.plans[todo[n]]
		if ops, bytes = ops+len(p.ops), bytes+p.bytes; n > 0 && (ops > maxOps || bytes > maxBytes) {
			break
		}
	}
	return n
}

// try sends changes in one transaction. If Consul refuses it, try takes out those whose operations
// have failed, and returns the others.
func (w *writing) try(ctx context.Context, part []int) (left []int, err error) {
	var ops api.KVTxnOps
	var of []int // change by operation
	for _, i := range part {
		for _, op := range w.plans[i].ops {
			ops, of = append(ops, op), append(of, i)
		}
	}
	switch {
	case slices.ContainsFunc(part, w.writesRecord):
		ops = append(ops, &api.KVTxnOp{Verb: api.KVSet, Key: w.driver.changes(), Value: []byte(backend.NewNonce())}) // Consul does not do a write of what is there
	case w.compare:
		ops = append(ops, &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: w.driver.changes()})
	}
	there := len(ops)
	ops = append(ops, w.here)
	ok, answer, err := w.Txn(ctx, append(ops, gets(w.names)...))
	if err = w.Fail(err); len(part) == 1 && errors.Is(err, backend.ErrDenied) { // it may be too large
		w.results[part[0]].Err = err
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if ok {
		if w.names != nil {
			w.found, _ = found(answer, w.names) // if it may not be read, the next reading says so
		}
		return nil, w.applied(ctx, part, answer.Results)
	}
	failed := make(map[int]string)
	for _, e := range answer.Errors {
		if e.OpIndex == there && changedMeanwhile(e.What) {
			return nil, lease.ErrEpoch
		}
		if e.OpIndex < 0 || e.OpIndex >= len(of) {
			return nil, refusal(answer)
		}
		if i := of[e.OpIndex]; failed[i] == "" {
			failed[i] = e.What
		}
	}
	if len(failed) == 0 {
		return nil, refusal(answer)
	}
	for _, i := range part {
		switch text, bad := failed[i]; {
		case !bad:
			left = append(left, i)
		case changedMeanwhile(text):
			w.results[i].Outcome = backend.Refused
		default:
			w.results[i].Err = w.Fail(errors.New(text))
		}
	}
	return left, nil
}

// writesRecord reports whether a change puts a record.
func (w *writing) writesRecord(i int) bool {
	return slices.ContainsFunc(w.plans[i].change.Put, func(p lease.Put) bool { return p.Over.Kind == lease.Records })
}

// applied sets the results of changes that were applied in one transaction.
func (w *writing) applied(ctx context.Context, part []int, results []*api.KVPair) error {
	written := make(map[string]*api.KVPair, len(results))
	for _, p := range results {
		if p != nil {
			written[p.Key] = p // the last operation on a key is its put
		}
	}
	if p := written[w.driver.changes()]; p != nil && w.compare {
		w.changes = p.ModifyIndex
	}
	var items []lease.Item
	for _, i := range part {
		r := lease.Result{Outcome: backend.Granted}
		for _, put := range w.plans[i].change.Put {
			it := lease.Item{Key: put.Over.Key}
			if p := written[w.key(it.Key)]; put.Value != nil && p != nil {
				it = w.item(it.Key, p)
				it.Edited = false // the answer has no value
			}
			it.Age = 0
			r.Items = append(r.Items, it)
		}
		items = append(items, r.Items...)
		w.results[i] = r
	}
	return w.note(ctx, w.call, items, nil)
}

// verify returns which items have another version. It compares records, which may be many.
func (w *writing) verify(ctx context.Context, items []lease.Item) (stale []int, err error) {
	if len(items) == 0 {
		return nil, nil
	}
	records, err := w.listRecords(ctx, w.changes, editsUnnoticed)
	for i := range items {
		if records[items[i].Name].Version != items[i].Version {
			stale = append(stale, i)
		}
	}
	return stale, err
}

// changedMeanwhile reports whether an operation failed because the key is not as it was read. Only
// the beginning of the text is Consul's; the rest contains the name of the key.
func changedMeanwhile(text string) bool {
	for _, begin := range []string{"failed to set key ", "failed to check index, ", "failed index check for ", "key "} {
		if strings.HasPrefix(text, begin) {
			return true
		}
	}
	return false
}
