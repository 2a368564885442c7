package consul

import (
	"context"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend/lease"
)

// Consul tells no identity of its servers, so the epoch is always the same. That a snapshot was
// restored shows when a key is older than it was: no other write lowers an index.

// begin returns the number of a call that begins.
func (d *driver) begin() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	return d.calls
}

// note notes the keys that a call has read or written. If one is older than it was when the call
// began, the store went back.
func (d *driver) note(ctx context.Context, call uint64, pairs map[string]*api.KVPair) error {
	if !d.noteAll(call, pairs) {
		return nil
	}
	now, err := d.Index(ctx, d.Prefix+"/", 0)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wentBack++
	d.restoredAt, d.newest, d.records = now, make(map[string]index), listing{}
	return nil
}

func (d *driver) noteAll(call uint64, pairs map[string]*api.KVPair) (wentBack bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, p := range pairs {
		last := d.newest[key]
		switch {
		case p == nil: // deleted, or restored from before it was made; package lease remembers records
			delete(d.newest, key)
		case p.ModifyIndex < last.modify && last.call < call:
			wentBack = true
		case p.ModifyIndex >= last.modify:
			d.newest[key] = index{p.ModifyIndex, d.calls}
		}
	}
	return wentBack
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
