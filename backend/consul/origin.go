package consul

import (
	"context"

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

// identify returns an operation that fails in another Consul than the one that was read. It makes the key origin if
// there is none.
func (d *driver) identify(ctx context.Context) (*api.KVTxnOp, error) {
	d.mu.Lock()
	now := d.origin
	d.mu.Unlock()
	if now == nil || now.index == 0 {
		_, answer, err := d.Txn(ctx, api.KVTxnOps{{Verb: api.KVCAS, Key: d.originKey(), Value: []byte(backend.NewNonce())}}) // only if it is not there
		if err != nil {
			return nil, err
		}
		call := d.begin()
		pairs, err := d.Get(ctx, d.originKey())
		if err != nil {
			return nil, err
		}
		now = originOf(pairs[d.originKey()])
		if now.index == 0 {
			return nil, refusal(answer)
		}
		d.noteAll(call, nil, now)
	}
	return &api.KVTxnOp{Verb: api.KVCheckIndex, Key: d.originKey(), Index: now.index}, nil
}

// begin returns the number of a call that begins.
func (d *driver) begin() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	return d.calls
}

// note notes items that a call has read or written, and the key origin; nil: it was not read. If an item
// is older than it was when the call began, or that key another one, the store went back.
func (d *driver) note(ctx context.Context, call uint64, items []lease.Item, read *origin) error {
	if !d.noteAll(call, items, read) {
		return nil
	}
	now, err := d.Index(ctx, d.Prefix+"/", 0)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wentBack++
	d.restoredAt, d.newest, d.records = now, make(map[lease.Key]index), listing{}
	return nil
}

func (d *driver) noteAll(call uint64, items []lease.Item, read *origin) (wentBack bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last := d.origin; read != nil && (last == nil || last.call < call) {
		d.origin = &origin{read.index, read.text, d.calls}
		wentBack = last != nil && last.index != 0 && (last.index != read.index || last.text != read.text)
	}
	for i := range items {
		it := &items[i]
		last := d.newest[it.Key]
		switch {
		case it.Version == "": // deleted, or restored from before it was made; package lease remembers records
			delete(d.newest, it.Key)
		case it.Order < last.modify && last.call < call:
			wentBack = true
		case it.Order >= last.modify:
			d.newest[it.Key] = index{it.Order, d.calls, it.Edited}
		}
	}
	return wentBack
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
