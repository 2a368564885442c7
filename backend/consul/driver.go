package consul

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/page"
	"github.com/go-election/go-election/internal/client"
)

// A driver is access to the keys below a prefix: record/NAME, session/NONCE and meta. It
// implements [lease.Driver] and [lease.Listener]. An item is a key whose value is JSON. The key
// changes is written with each change of a record.
type driver struct {
	client    *api.Client
	transport *transport    // of client; nil with Options.Client
	token     client.Secret // none with Options.Client
	tokenFile string        // where it may be replaced; "": nowhere
	host      string        // or the path of a unix socket; empty with Options.Client
	prefix    string
	full      atomic.Int64 // when the agent last had no connection for a request, as UnixNano; 0: never

	datacenter, namespace, partition string // "": that of client

	mu          sync.Mutex
	newest      map[lease.Key]index // of the items that were read or written
	origin      *api.KVPair         // the key origin, with index 0 if it is not there; nil: it was not read
	originNoted time.Time
	wentBack    int    // how often a key was older than before: a snapshot was restored
	restoredAt  uint64 // what was written up to this index may not be the latest; 0: it is
	records     listing
	listened    uint64 // the index up to which Listen has told; 0: it must begin
	tooMany     bool   // there are too many records to tell them
}

var _ lease.Listener = (*driver)(nil)

// Limits implements [lease.Driver]. A call makes up to three requests within a quarter of the TTL, two of
// which wait for a quorum's disks; servers that lose their leader need seconds. A record is three operations.
func (d *driver) Limits() lease.Limits {
	return lease.Limits{
		Name: Name, MinTTL: time.Second, MaxTTL: time.Minute, Batch: maxOps / 3, Checks: maxOps - 2,
		MaxValue: maxBytes, EditsUnnoticed: editsUnnoticed,
	}
}

func (d *driver) Close() error {
	if d.transport != nil {
		d.transport.idle()
	}
	return nil
}

// key returns the name of an item's key in Consul.
func (d *driver) key(k lease.Key) string {
	if k.Kind == lease.Metas {
		return d.prefix + "/" + string(k.Kind)
	}
	return d.directory(k.Kind) + k.Name
}

// changes returns the key that is written with each change of a record.
func (d *driver) changes() string { return d.prefix + "/changes" }

// originKey returns the key that is made once: see [driver.here].
func (d *driver) originKey() string { return d.prefix + "/origin" }

func (d *driver) directory(kind lease.Kind) string { return d.prefix + "/" + string(kind) + "/" }

// item returns a key as an item; p nil: it is not there. docs/design/consul.md, "Edited items", says
// what shows that somebody else than a member wrote it.
func (d *driver) item(k lease.Key, p *api.KVPair) lease.Item {
	it := lease.Item{Key: k, Age: -1}
	if p == nil {
		return it
	}
	it.Version, it.Order = strconv.FormatUint(p.ModifyIndex, 10), p.ModifyIndex
	it.Value = lease.Decode(k.Kind, p.Value)
	over := uint64(lease.WriteOf(it.Value)) // the index of the version that it was written over
	made := p.CreateIndex == p.ModifyIndex
	it.Edited = p.Flags != checksum(p.Key, p.Value) || d.replacesOlder(k, p.ModifyIndex, over) ||
		!made && (over == 0 || k.Kind == lease.Records)
	if k.Kind != lease.Records { // a late request makes none: it would have to count it in the meta item
		it.Created = strconv.FormatUint(p.CreateIndex, 10)
	}
	return it
}

func checksum(key string, value []byte) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s", key, value)
	return max(h.Sum64(), 1) // 0 is what others write
}

// maxByKey is how many records are read key by key. More are listed.
const maxByKey = 100

// Read implements [lease.Driver]. It takes a transaction for each 128 keys. Many records are listed.
func (d *driver) Read(ctx context.Context, keys []lease.Key) (v lease.View, err error) {
	names := []string{d.changes(), d.originKey()}
	for _, k := range byKey(keys) {
		names = append(names, d.key(k))
	}
	for range 2 { // the very first record may be made after the meta item was read
		began := time.Now()
		var pairs map[string]*api.KVPair
		if pairs, err = d.get(ctx, names...); err == nil {
			v, err = d.view(ctx, began, keys, pairs)
		}
		if err != nil || v.Records == 0 || pairs[d.key(lease.Key{Kind: lease.Metas})] != nil {
			break
		}
	}
	return v, d.fail(err)
}

// byKey returns the keys that are read one by one: many records are listed.
func byKey(keys []lease.Key) []lease.Key {
	others := slices.DeleteFunc(slices.Clone(keys), func(k lease.Key) bool { return k.Kind == lease.Records })
	if len(keys)-len(others) > maxByKey {
		return others
	}
	return keys
}

// view returns the answer of a reading that began then and has found pairs. It lists records if they are
// many, and counts them after the meta item, so that a change that requires that item counts no record twice.
func (d *driver) view(
	ctx context.Context, began time.Time, keys []lease.Key, pairs map[string]*api.KVPair,
) (v lease.View, err error) {
	items := make(map[lease.Key]lease.Item, len(keys))
	for _, k := range byKey(keys) {
		items[k] = d.item(k, pairs[d.key(k)])
	}
	origin := cmp.Or(pairs[d.originKey()], &api.KVPair{})
	if err := d.note(ctx, began, slices.Collect(maps.Values(items)), origin); err != nil {
		return v, err
	}
	var listed map[lease.Key]lease.Item
	if len(items) < len(keys) {
		if listed, err = d.listRecords(ctx, pairs[d.changes()]); err != nil {
			return v, err
		}
	}
	for _, k := range keys {
		it, ok := items[k]
		if !ok {
			it = listed[k]
			it.Key, it.Age = k, -1 // also if it is not there
		}
		v.Items = append(v.Items, it)
	}
	if slices.Contains(keys, lease.Key{Kind: lease.Metas}) {
		names, answer, err := d.client.KV().Keys(d.directory(lease.Records), "", d.query(ctx, 0))
		if err == nil {
			err = complete(answer)
		}
		if err != nil {
			return v, err
		}
		v.Records = int64(len(names))
	}
	d.finish(&v)
	return v, nil
}

// List implements [lease.Driver]. It reads all items of the kind.
func (d *driver) List(ctx context.Context, kind lease.Kind, from string, limit int) (lease.View, error) {
	var v lease.View
	items, _, err := d.list(ctx, kind, 0)
	if err != nil {
		return v, d.fail(err)
	}
	name := func(it lease.Item) string { return it.Name }
	v.Items = page.Cut(slices.Collect(maps.Values(items)), from, limit, name)
	d.finish(&v)
	return v, nil
}

// list reads all items of a kind, and the index of their keys. With after, it waits until that differs.
func (d *driver) list(
	ctx context.Context, kind lease.Kind, after uint64,
) (map[lease.Key]lease.Item, uint64, error) {
	began, directory := time.Now(), d.directory(kind)
	pairs, meta, err := d.client.KV().List(directory, d.query(ctx, after))
	if err == nil {
		err = complete(meta)
	}
	if err == nil && len(pairs) == 0 && after == 0 {
		_, err = d.get(ctx, directory) // without a token, the servers do not say that they left out keys
	}
	if err != nil {
		return nil, 0, err
	}
	items := make(map[lease.Key]lease.Item, len(pairs))
	for _, p := range pairs {
		k := lease.Key{Kind: kind, Name: strings.TrimPrefix(p.Key, directory)}
		items[k] = d.item(k, p)
	}
	return items, meta.LastIndex, d.note(ctx, began, slices.Collect(maps.Values(items)), nil)
}

// A listing has all records.
type listing struct {
	at    time.Time // when it began, or earlier
	items map[lease.Key]lease.Item

	// The index of the key changes, which was read before. While it stands, no member has changed a
	// record. A restored store has another one, unless its records are those of then.
	changes uint64
}

// editsUnnoticed is for how long a process of many elections relies on the key changes, which does not show
// what was edited or deleted by hand. [driver.Listen] shows that to most followers at once, and they take
// nothing from a leader by an old listing.
const editsUnnoticed = time.Minute

// listRecords returns all records. It does not ask if it has asked lately, and the key changes is as it was
// then; nil: it is not known.
func (d *driver) listRecords(ctx context.Context, changes *api.KVPair) (map[lease.Key]lease.Item, error) {
	d.mu.Lock()
	last := d.records
	d.mu.Unlock()
	next := listing{at: time.Now(), changes: cmp.Or(changes, &api.KVPair{}).ModifyIndex}
	// The monotonic clock may stand still while the machine is suspended.
	age := max(next.at.Sub(last.at), next.at.Round(0).Sub(last.at.Round(0)))
	if next.changes > 0 && next.changes == last.changes && age < editsUnnoticed {
		return last.items, nil
	}

	var err error
	if next.items, _, err = d.list(ctx, lease.Records, 0); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records = next
	return next.items, nil
}
