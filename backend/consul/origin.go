package consul

import (
	"context"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// Consul tells no identity of its servers, so the epoch is always the same. That a snapshot was
// restored shows when a key is older than it was: no other write lowers an index. That another Consul
// answers shows in the key origin, which has random text and is made once.

// identify makes the key origin, unless it is there. It asks nothing if this process has read it.
func (d *driver) identify(ctx context.Context) error {
	d.mu.Lock()
	known := d.origin.text != ""
	d.mu.Unlock()
	if known {
		return nil
	}
	call, text := d.begin(), string(backend.NewNonce())
	made, _, err := d.Txn(ctx, api.KVTxnOps{{Verb: api.KVCAS, Key: d.originKey(), Value: []byte(text)}}) // with index 0
	if err == nil && !made {
		var pairs map[string]*api.KVPair
		if pairs, err = d.Get(ctx, d.originKey()); err == nil && pairs[d.originKey()] != nil {
			text = string(pairs[d.originKey()].Value)
		}
	}
	if err == nil {
		d.noteAll(call, nil, text)
	}
	return err
}

// An origin is the text of the key, and the number of the calls that had begun when it was noted.
type origin struct {
	text string
	call uint64
}

// begin returns the number of a call that begins.
func (d *driver) begin() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	return d.calls
}

// note notes items that a call has read or written, and the text of the key origin; "": it was not read. If
// an item is older than it was when the call began, or that text another one, the store went back.
func (d *driver) note(ctx context.Context, call uint64, items []lease.Item, text string) error {
	if !d.noteAll(call, items, text) {
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

func (d *driver) noteAll(call uint64, items []lease.Item, text string) (wentBack bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last := d.origin; text != "" && (last.text == "" || last.call < call) {
		d.origin = origin{text, d.calls}
		wentBack = last.text != "" && last.text != text
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
