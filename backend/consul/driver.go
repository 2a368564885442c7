package consul

import (
	"context"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend/lease"
)

// A driver is access to the keys below a prefix: record/NAME, session/NONCE and meta. It
// implements [lease.Driver] and [lease.Listener]. An item is a key whose value is JSON. The key
// changes is written with each change of a record.
type driver struct {
	*agent

	mu         sync.Mutex
	calls      uint64              // how many calls have begun
	newest     map[lease.Key]index // of the items that were read or written
	origin     *origin             // nil: it was not read
	wentBack   int                 // how often a key was older than before: a snapshot was restored
	restoredAt uint64              // what was written up to this index may not be the latest; 0: it is
	records    listing
	listened   uint64 // the index up to which Listen has told; 0: it must begin
	tooMany    bool   // there are too many records to tell them
}

// An index is the greatest index of an item, and the number of the calls that had begun when it was
// noted.
type index struct {
	modify, call uint64
	edited       bool
}

var _ lease.Listener = (*driver)(nil)

func newDriver(a *agent) *driver { return &driver{agent: a, newest: make(map[lease.Key]index)} }

// Limits implements [lease.Driver]. A call makes up to three requests within a quarter of the TTL,
// two of which wait for the disks of a quorum; and servers that lose their leader need seconds.
// A put of a record takes three operations.
func (d *driver) Limits() lease.Limits {
	return lease.Limits{Name: Name, MinTTL: time.Second, MaxTTL: time.Minute, Batch: maxOps / 3, Checks: maxOps - 2, MaxValue: 320 << 10, EditsUnnoticed: editsUnnoticed, ReadsToo: true}
}

func (d *driver) Close() error {
	if d.Transport != nil {
		d.Transport.idle()
	}
	return nil
}

// key returns the name of an item's key in Consul.
func (d *driver) key(k lease.Key) string {
	if k.Kind == lease.Metas {
		return d.Prefix + "/" + string(k.Kind)
	}
	return d.directory(k.Kind) + k.Name
}

// changes returns the key that is written with each change of a record.
func (d *driver) changes() string { return d.Prefix + "/changes" }

// originKey returns the key that is made once: see [driver.identify].
func (d *driver) originKey() string { return d.Prefix + "/origin" }

func (d *driver) directory(kind lease.Kind) string { return d.Prefix + "/" + string(kind) + "/" }

// item returns a key as an item; p nil: it is not there. docs/design/consul.md, "Edited items", says
// what shows that somebody else than a member wrote it.
func (d *driver) item(k lease.Key, p *api.KVPair) lease.Item {
	it := lease.Item{Key: k, Age: -1}
	if p == nil {
		return it
	}
	it.Version, it.Order, it.Value = strconv.FormatUint(p.ModifyIndex, 10), p.ModifyIndex, lease.Decode(k.Kind, p.Value)
	over := uint64(lease.WriteOf(it.Value)) // the index of the version that it was written over
	it.Edited = p.Flags != checksum(p.Key, p.Value) || over == 0 && p.CreateIndex != p.ModifyIndex || d.replacesOlder(k, p.ModifyIndex, over)
	if k.Kind == lease.Records { // a late request makes none: it would have to count it in the meta item
		it.Edited = it.Edited || p.CreateIndex != p.ModifyIndex
	} else {
		it.Created = strconv.FormatUint(p.CreateIndex, 10)
	}
	return it
}

func checksum(key string, value []byte) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	h.Write([]byte{0})
	h.Write(value)
	return max(h.Sum64(), 1) // 0 is what others write
}

// maxByKey is how many records are read key by key. More are listed.
const maxByKey = 100

// Read implements [lease.Driver]. It takes a transaction for each 126 items. Many records are listed:
// then it takes a request that tells whether any of them has changed, too. The records are counted
// after the meta item was read, so that a change that requires the item counts no record twice.
func (d *driver) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	return d.read(ctx, d.begin(), keys, nil)
}

// read reads items. found has those of singly if a change was sent with their operations.
func (d *driver) read(ctx context.Context, call uint64, keys []lease.Key, found map[string]*api.KVPair) (v lease.View, err error) {
	single, meta := singly(keys), slices.Contains(keys, lease.Key{Kind: lease.Metas})
	changes := uint64(0)
	items := make(map[lease.Key]lease.Item, len(keys))
	for rest := single; ; {
		n := min(len(rest), maxOps-2)
		if changes, err = d.get(ctx, call, rest[:n], found, items); err != nil {
			return v, d.Fail(err)
		}
		if rest = rest[n:]; len(rest) == 0 {
			break
		}
	}
	var listed map[string]lease.Item
	if len(single) < len(keys) {
		if listed, err = d.listRecords(ctx, changes, editsUnnoticed); err != nil {
			return v, d.Fail(err)
		}
	}
	if meta {
		if v.Records, err = d.count(ctx, call, items); err != nil {
			return v, d.Fail(err)
		}
	}
	for _, k := range keys {
		it, ok := items[k]
		if k.Kind == lease.Records && !ok {
			it, ok = listed[k.Name]
		}
		if !ok {
			it = d.item(k, nil)
		}
		v.Items = append(v.Items, it)
	}
	d.finish(&v)
	return v, nil
}

// singly returns the keys that are read one by one: many records are listed.
func singly(keys []lease.Key) []lease.Key {
	others := slices.DeleteFunc(slices.Clone(keys), func(k lease.Key) bool { return k.Kind == lease.Records })
	if len(keys)-len(others) > maxByKey {
		return others
	}
	return keys
}

// count counts the records after the meta item was read. If there are some and there was no meta item,
// the first record may have been made in between, and both are read again.
func (d *driver) count(ctx context.Context, call uint64, items map[lease.Key]lease.Item) (records int64, err error) {
	meta := lease.Key{Kind: lease.Metas}
	for try := range 2 {
		names, q, err := d.Client.KV().Keys(d.directory(lease.Records), "", d.Consistent(ctx))
		if err == nil {
			err = complete(q)
		}
		if err != nil {
			return 0, err
		}
		if records = int64(len(names)); records == 0 || items[meta].Version != "" || try > 0 {
			break
		}
		if _, err := d.get(ctx, call, []lease.Key{meta}, nil, items); err != nil {
			return 0, err
		}
	}
	return records, nil
}

// names returns what is read with items: the keys changes and origin, and the items' keys.
func (d *driver) names(keys []lease.Key) []string {
	names := []string{d.changes(), d.originKey()}
	for _, k := range keys {
		names = append(names, d.key(k))
	}
	return names
}

// get reads items in one transaction, unless they are in pairs, and returns the index of the key changes; 0: it is
// not there.
func (d *driver) get(ctx context.Context, call uint64, keys []lease.Key, pairs map[string]*api.KVPair, into map[lease.Key]lease.Item) (changes uint64, err error) {
	names := d.names(keys)
	if pairs == nil {
		if pairs, err = d.Get(ctx, names...); err != nil {
			return 0, err
		}
	}
	if p := pairs[d.changes()]; p != nil {
		changes = p.ModifyIndex
	}
	items := make([]lease.Item, len(keys))
	for i, k := range keys {
		items[i] = d.item(k, pairs[names[i+2]])
		into[k] = items[i]
	}
	return changes, d.note(ctx, call, items, originOf(pairs[d.originKey()]))
}

// List implements [lease.Driver]. It reads all items of the kind.
func (d *driver) List(ctx context.Context, kind lease.Kind, from string, limit int) (v lease.View, err error) {
	var items map[string]lease.Item
	if kind == lease.Records {
		items, err = d.listRecords(ctx, 0, 0)
	} else {
		items, _, err = d.list(ctx, kind, 0)
	}
	if err != nil {
		return v, d.Fail(err)
	}
	for name, it := range items {
		if name >= from {
			v.Items = append(v.Items, it)
		}
	}
	slices.SortFunc(v.Items, func(a, b lease.Item) int { return strings.Compare(a.Name, b.Name) })
	v.Items = v.Items[:min(limit, len(v.Items))]
	d.finish(&v)
	return v, nil
}

// list reads all items of a kind, by name, and the index of their keys. With after, it waits until that differs.
func (d *driver) list(ctx context.Context, kind lease.Kind, after uint64) (map[string]lease.Item, uint64, error) {
	call := d.begin()
	found, index, err := d.agent.List(ctx, d.directory(kind), after)
	if err != nil {
		return nil, 0, err
	}
	items, all := make(map[string]lease.Item, len(found)), make([]lease.Item, len(found))
	for i, p := range found {
		name := strings.TrimPrefix(p.Key, d.directory(kind))
		all[i] = d.item(lease.Key{Kind: kind, Name: name}, p)
		items[name] = all[i]
	}
	return items, index, d.note(ctx, call, all, nil)
}

// A listing has all records as they were at an index of their keys.
type listing struct {
	index uint64
	at    time.Time             // when it was last confirmed, or earlier
	items map[string]lease.Item // by name; not modified

	// What was read of the key changes before; 0: nothing. While it stands, no member has changed a
	// record. A restored store has another one, unless its records are those of then.
	changes uint64
}

// maxListingAge is for how long a listing may be confirmed by its index. The index goes back when
// the servers forget a deletion, a quarter of an hour after it, and then it may repeat.
const maxListingAge = 5 * time.Minute

// editsUnnoticed is for how long a process of many elections relies on the key changes, which does not show
// what was edited or deleted by hand. [driver.Listen] shows that to followers at once, and they take nothing
// from a leader by an old listing.
const editsUnnoticed = time.Minute

// listRecords returns all records. It does not ask if it has asked within age, and the key changes is
// as it was then. It lists them only if the index of their keys has moved.
func (d *driver) listRecords(ctx context.Context, changes uint64, age time.Duration) (map[string]lease.Item, error) {
	d.mu.Lock()
	last, told := d.records, d.listened
	d.mu.Unlock()
	if last.items != nil && changes > 0 && changes == last.changes && within(last.at, age) {
		return last.items, nil
	}
	next := listing{at: time.Now(), changes: changes}
	if last.items != nil && within(last.at, maxListingAge) {
		index, err := d.recordsIndex(ctx, 0)
		if err != nil {
			return nil, err
		}
		if index == last.index {
			next.index, next.items = index, last.items
		}
	}
	if next.items == nil {
		var err error
		if next.items, next.index, err = d.list(ctx, lease.Records, 0); err != nil {
			return nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listened != told && d.listened != next.index { // a change that this listing may lack
		next.at = time.Time{}
	}
	d.records = next
	return next.items, nil
}

// recordsIndex is Agent.Index of the records. The separator shortens the answer to one key.
func (d *driver) recordsIndex(ctx context.Context, after uint64) (uint64, error) {
	return d.Index(ctx, strings.TrimSuffix(d.directory(lease.Records), "/"), after)
}

// within reports whether less than limit has passed since at, by the monotonic and the wall clock:
// the first may stand still while the machine is suspended, and the second may be set.
func within(at time.Time, limit time.Duration) bool {
	now := time.Now()
	wall := now.Round(0).Sub(at.Round(0))
	return now.Sub(at) < limit && wall >= 0 && wall < limit
}

// maxTold is how many records Listen tells with each change. If there are more, it only says that
// something has changed.
const maxTold = 100

// Listen implements [lease.Listener] by a blocking query that the server answers once a record has
// changed. Sessions are elsewhere, so a renewal wakes nobody. The query continues from the index
// of the last call, so that no change in between is missed.
func (d *driver) Listen(ctx context.Context, _ uint64, known []lease.Item, on func([]lease.Item, uint64) bool) error {
	for {
		if err := d.giveWay(ctx); err != nil {
			return err
		}
		d.mu.Lock()
		before, tooMany := d.listened, d.tooMany
		d.mu.Unlock()
		var items []lease.Item
		var now uint64
		var err error
		if tooMany {
			now, err = d.recordsIndex(ctx, before)
		} else {
			items, now, err = d.waitForRecords(ctx, before, known)
		}
		if err != nil {
			if ctx.Err() != nil && before > 0 {
				on(nil, before) // all changes up to that index were told, so the next call needs no reading
			}
			return d.Fail(err)
		}
		now = max(now, 1)
		d.mu.Lock()
		d.listened, d.tooMany = now, d.tooMany || len(items) > maxTold
		if now != d.records.index {
			d.records.at = time.Time{} // an edit by hand does not change the key changes
		}
		tooMany = d.tooMany
		d.mu.Unlock()
		switch {
		case now == before: // nothing has happened for a while
			continue
		case tooMany, now < before: // a deletion was forgotten, or a snapshot restored
			items = nil
		case len(items) == 0: // while there is no record, every write in Consul answers the query
			continue
		}
		if !on(items, now) {
			return nil
		}
	}
}

// waitForRecords returns the records once the index of their keys differs, and those that are
// known and no longer there.
func (d *driver) waitForRecords(
	ctx context.Context, after uint64, known []lease.Item,
) (items []lease.Item, now uint64, err error) {
	there, now, err := d.list(ctx, lease.Records, after)
	if err != nil {
		return nil, 0, err
	}
	for _, it := range known {
		if _, is := there[it.Name]; it.Kind == lease.Records && !is {
			items = append(items, lease.Item{Key: it.Key, Order: now, Age: -1})
		}
	}
	return slices.AppendSeq(items, maps.Values(there)), now, nil
}
