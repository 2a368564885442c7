package consul

import (
	"context"
	"math"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// Consul tells no identity of its servers, so the epoch is always the same. That a snapshot was
// restored shows when a key is older than it was: no other write lowers an index. That another Consul
// answers shows in the key origin, which has random text and is made once: a copy of it has another index.

// An origin is the key origin, as it was read.
type origin struct {
	index uint64 // 0: it is not there
	text  string
	call  uint64 // how many calls had begun when it was noted
}

func originOf(p *api.KVPair) *origin {
	if p == nil {
		return &origin{}
	}
	return &origin{index: p.ModifyIndex, text: string(p.Value)}
}

// identify returns an operation that fails in another Consul than the one that was read, with that wentBack.
// It makes the key origin if there is none.
func (d *driver) identify(ctx context.Context, wentBack int) (*api.KVTxnOp, error) {
	for range 3 { // a reading that began before the key was made may end after that
		d.mu.Lock()
		now, same := d.origin, wentBack == d.wentBack
		d.mu.Unlock()
		switch {
		case !same:
			return nil, lease.ErrEpoch
		case now != nil && now.index != 0:
			return &api.KVTxnOp{Verb: api.KVCheckIndex, Key: d.originKey(), Index: now.index}, nil
		}

		made := &api.KVTxnOp{Verb: api.KVCAS, Key: d.originKey(), Value: []byte(backend.NewNonce())} // over none
		_, answer, err := d.Txn(ctx, api.KVTxnOps{made})
		if err != nil {
			return nil, err
		}
		call := d.begin()
		pairs, err := d.Get(ctx, d.originKey())
		if err == nil && pairs[d.originKey()] == nil {
			err = refusal(answer)
		}
		if err == nil {
			err = d.note(ctx, call, nil, originOf(pairs[d.originKey()]))
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, errConflict
}

// begin returns the number of a call that begins.
func (d *driver) begin() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	return d.calls
}

// unknown is driver.restoredAt while it is not known up to where the store was written when it went back:
// nothing that is there may be the latest.
const unknown = math.MaxUint64

// note notes items that a call has read or written, and the key origin; nil: it was not read. If an item
// is older than it was when the call began, or that key another one, the store went back.
func (d *driver) note(ctx context.Context, call uint64, items []lease.Item, read *origin) error {
	wentBack, known := d.noteAll(call, items, read)
	if known {
		return nil
	}
	now, err := d.Index(ctx, d.Prefix+"/", 0)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	elsewhere := d.origin != nil && now < d.origin.index // another one has answered: the index covers that key
	if d.wentBack == wentBack && d.restoredAt == unknown && !elsewhere {
		d.restoredAt = now
	}
	return nil
}

// noteAll returns how often the store went back, and whether it is known up to where it was written then. It
// counts in the same step in which it notes the new origin: other calls go by that.
func (d *driver) noteAll(call uint64, items []lease.Item, read *origin) (wentBack int, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	back := false
	if last := d.origin; read != nil && (last == nil || last.call < call) {
		d.origin = &origin{read.index, read.text, d.calls}
		back = last != nil && last.index != 0 && (last.index != read.index || last.text != read.text)
	}
	for i := range items {
		it := &items[i]
		last := d.newest[it.Key]
		switch {
		case it.Version == "": // deleted, or restored from before it was made; package lease remembers records
			delete(d.newest, it.Key)
		case it.Order < last.modify && last.call < call:
			back = true
		case it.Order >= last.modify:
			d.newest[it.Key] = index{it.Order, d.calls, it.Edited}
		}
	}
	if back {
		d.wentBack++
		d.restoredAt, d.newest, d.records = unknown, make(map[lease.Key]index), listing{}
	}
	return d.wentBack, d.restoredAt != unknown
}

// replacesOlder reports whether a value was written over another version than the one that was
// there, as far as this process knows: then somebody has put it back.
func (d *driver) replacesOlder(k lease.Key, modify, over uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := d.newest[k]
	if modify <= last.modify {
		return last.edited && modify == last.modify
	}
	return over > 0 && over < last.modify
}

// finish completes the answer of a reading.
func (d *driver) finish(v *lease.View) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v.Epoch, v.WentBack = Name, d.wentBack
	for i := range v.Items {
		it := &v.Items[i]
		it.Old = it.Version != "" && it.Order <= d.restoredAt
	}
}
