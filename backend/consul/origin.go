package consul

import (
	"bytes"
	"context"
	"math"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// Consul tells no identity of its servers, so the epoch is always the same. That a snapshot was
// restored shows when a key is older than it was: no other write lowers an index. That another Consul
// answers shows in the key origin, which has random text and is made once: a copy of it has another index.

// An index is the greatest index of an item.
type index struct {
	modify uint64
	noted  time.Time
	edited bool
}

// here returns an operation that fails in another Consul than the one that was read, with that wentBack. It
// makes the key origin if there was none. It returns nil if the driver knows that the store went back since.
func (d *driver) here(wentBack int) *api.KVTxnOp {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case wentBack != d.wentBack:
		return nil
	case d.origin == nil || d.origin.ModifyIndex == 0:
		return &api.KVTxnOp{Verb: api.KVCAS, Key: d.originKey(), Value: []byte(backend.NewNonce())}
	}
	return &api.KVTxnOp{Verb: api.KVCheckIndex, Key: d.originKey(), Index: d.origin.ModifyIndex}
}

// unknown is driver.restoredAt while it is not known up to where the store was written when it went back:
// nothing that is there may be the latest.
const unknown = math.MaxUint64

// note notes items that a call has read or written, when the call began, and the key origin; nil: it was not
// read. If an item is older than it was then, or that key another one, the store went back. That is counted
// in the same step in which the new origin is noted: other calls go by that.
func (d *driver) note(ctx context.Context, began time.Time, items []lease.Item, origin *api.KVPair) error {
	d.mu.Lock()
	back := false
	if last := d.origin; origin != nil && (last == nil || d.originNoted.Before(began)) {
		d.origin, d.originNoted = origin, time.Now()
		same := last != nil && last.ModifyIndex == origin.ModifyIndex && bytes.Equal(last.Value, origin.Value)
		back = last != nil && last.ModifyIndex != 0 && !same
	}
	for i := range items {
		it := &items[i]
		last := d.newest[it.Key]
		switch {
		case it.Version == "": // deleted, or from before it was made; package lease remembers records
			delete(d.newest, it.Key)
		case it.Order < last.modify && last.noted.Before(began):
			back = true
		case it.Order >= last.modify:
			d.newest[it.Key] = index{it.Order, time.Now(), it.Edited}
		}
	}
	if back {
		d.wentBack++
		d.restoredAt, d.newest, d.records = unknown, make(map[lease.Key]index), listing{}
	}
	wentBack, known := d.wentBack, d.restoredAt != unknown
	d.mu.Unlock()
	if known {
		return nil
	}

	now, err := d.index(ctx, d.prefix+"/", 0)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	elsewhere := d.origin != nil && now < d.origin.ModifyIndex // the index covers that key
	if d.wentBack == wentBack && d.restoredAt == unknown && !elsewhere {
		d.restoredAt = now
	}
	return nil
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
