package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
)

// A driver is access to the keys of one prefix. It implements [lease.Driver] and [lease.Listener]. An item is
// a key whose value is JSON. Positions are revisions, and the epoch is the id of the cluster: see [origins].
type driver struct {
	client  *clientv3.Client
	dialer  *client.Dialer // of the client, which Close closes; nil: the program has made the client
	kv      clientv3.KV    // these two ignore what a program has put into the client, as a namespace
	watcher clientv3.Watcher
	login   *login
	proxy   string // that connections lead through, as errors name it; "": none, or it is not known
	keys    keyPrefix
	origins origins

	kept     atomic.Pointer[watch] // for the next call of Listen
	answered atomic.Int64          // how many calls were
}

// maxItems is how many puts and checks one request has, each with up to two conditions. etcd
// allows 128 conditions or operations, together with those of the transactions around them.
const maxItems = 60

// Limits implements [lease.Driver]. etcd replaces its own leader within about two seconds.
func (d *driver) Limits() lease.Limits {
	return lease.Limits{
		Name: Name, MinTTL: time.Second, MaxTTL: 5 * time.Minute,
		Batch: maxItems, Checks: maxItems - 1, MaxValue: lease.MaxValue,
	}
}

func (d *driver) Close() error {
	if d.dialer == nil {
		return d.fail(d.watcher.Close())
	}
	if err := d.client.Close(); !errors.Is(err, context.Canceled) {
		return d.fail(err)
	}
	return nil
}

// txn sends one transaction, also to other members that may answer sooner. It reads the key origin, too.
func (d *driver) txn(
	ctx context.Context, when []clientv3.Cmp, then []clientv3.Op,
) (*clientv3.TxnResponse, origin, error) {
	before, ask := d.origins.Now(), clientv3.OpGet(d.keys.origin())
	resp, err := hedged(ctx, d, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return d.kv.Txn(ctx).If(when...).Then(append(slices.Clip(then), ask)...).Else(ask).Commit()
	})
	if err != nil {
		return nil, before, d.fail(err)
	}
	text := ""
	for _, pair := range resp.Responses[len(resp.Responses)-1].GetResponseRange().GetKvs() {
		text = fmt.Sprintf("%.64s %d", pair.Value, pair.CreateRevision) // a copy was made at another revision
	}
	return resp, d.origins.Note(epoch(resp.Header), text, uint64(resp.Header.GetRevision()), &before), nil
}

func epoch(h *pb.ResponseHeader) string { return strconv.FormatUint(h.GetClusterId(), 16) }

const maxByKey = 40 // items of a kind that a transaction reads by key: more are read by range

// reads returns what reads items in one transaction. If the meta item is there, the first one counts records.
func (d *driver) reads(items []lease.Key, opts ...clientv3.OpOption) (ops []clientv3.Op) {
	names := make(map[lease.Kind][]string)
	for _, k := range items {
		names[k.Kind] = append(names[k.Kind], k.Name)
	}
	if names[lease.Metas] != nil {
		ops = append(ops, d.keys.all(lease.Records, "", clientv3.WithCountOnly()))
	}
	for kind, all := range names {
		if len(all) > maxByKey {
			to := clientv3.WithRange(d.keys.directory(kind) + slices.Max(all) + "\x00")
			ops = append(ops, d.keys.all(kind, slices.Min(all), append(slices.Clip(opts), to)...))
			continue
		}
		for _, name := range all {
			ops = append(ops, clientv3.OpGet(d.keys.key(lease.Key{Kind: kind, Name: name}), opts...))
		}
	}
	return ops
}

// found returns the keys that were read.
func (p keyPrefix) found(resp *clientv3.TxnResponse) map[lease.Key]*mvccpb.KeyValue {
	found := make(map[lease.Key]*mvccpb.KeyValue)
	for _, r := range resp.Responses {
		for _, pair := range r.GetResponseRange().GetKvs() {
			if k, ok := p.parse(string(pair.Key)); ok {
				found[k] = pair
			}
		}
	}
	return found
}

// Read implements [lease.Driver] with linearizable reads in one transaction.
func (d *driver) Read(ctx context.Context, items []lease.Key) (v lease.View, err error) {
	resp, o, err := d.txn(ctx, nil, d.reads(items))
	if err != nil {
		return v, err
	}
	v, found := view(resp, &o), d.keys.found(resp)
	v.Records = resp.Responses[0].GetResponseRange().GetCount() // has no meaning unless the meta item is read
	for _, k := range items {
		v.Items = append(v.Items, item(k, found[k], &o))
	}
	return v, nil
}

func (d *driver) List(ctx context.Context, kind lease.Kind, from string, most int) (v lease.View, err error) {
	get := d.keys.all(kind, from, clientv3.WithLimit(int64(most)))
	resp, o, err := d.txn(ctx, nil, []clientv3.Op{get})
	if err != nil {
		return v, err
	}
	v = view(resp, &o)
	for _, pair := range resp.Responses[0].GetResponseRange().GetKvs() {
		k, _ := d.keys.parse(string(pair.Key))
		v.Items = append(v.Items, item(k, pair, &o))
	}
	return v, nil
}

// view begins the answer of a reading.
func view(resp *clientv3.TxnResponse, o *origin) lease.View {
	return lease.View{Epoch: o.Epoch, WentBack: o.WentBack, Position: uint64(resp.Header.GetRevision())}
}

// item returns a key as an item; pair nil: it is not there.
func item(k lease.Key, pair *mvccpb.KeyValue, o *origin) lease.Item {
	if pair == nil {
		return lease.Numbers{}.Item(k)
	}
	it := lease.Numbers{At: pair.ModRevision, Writes: pair.Version, Made: pair.CreateRevision}.Item(k)
	it.Value, it.Old = lease.Decode(k.Kind, pair.Value), it.Order <= o.RestoredAt
	it.Edited = lease.Edited(it.Value, pair.Version)
	return it
}

// A keyPrefix makes the keys of a store: <prefix>record/NAME, <prefix>session/NONCE and <prefix>meta.
// A name is the rest of a key, byte by byte.
type keyPrefix string

// key returns the key of an item.
func (p keyPrefix) key(k lease.Key) string {
	if k.Kind == lease.Metas {
		return string(p) + string(k.Kind)
	}
	return p.directory(k.Kind) + k.Name
}

// origin returns the key that is made once, with random text. Clusters may have the same id: it follows from
// names, peer URLs and a token, which often are the defaults.
func (p keyPrefix) origin() string { return string(p) + "origin" }

// directory begins the keys of all records or sessions.
func (p keyPrefix) directory(kind lease.Kind) string { return string(p) + string(kind) + "/" }

// end follows the keys of all records or sessions.
func (p keyPrefix) end(kind lease.Kind) string { return string(p) + string(kind) + "0" } // '/' + 1

// all reads the items of a kind with names not less than from.
func (p keyPrefix) all(kind lease.Kind, from string, opts ...clientv3.OpOption) clientv3.Op {
	opts = append([]clientv3.OpOption{clientv3.WithRange(p.end(kind))}, opts...)
	return clientv3.OpGet(p.directory(kind)+from, opts...)
}

// parse returns the item of a key; ok is false for a foreign key.
func (p keyPrefix) parse(key string) (k lease.Key, ok bool) {
	rest, ok := strings.CutPrefix(key, string(p))
	kind, name, directory := strings.Cut(rest, "/")
	k = lease.Key{Kind: lease.Kind(kind), Name: name}
	if !directory {
		return k, ok && k.Kind == lease.Metas
	}
	return k, ok && (k.Kind == lease.Records || k.Kind == lease.Sessions)
}

// An origin is what a driver knows of the store that answers.
type origin struct {
	Epoch      string        // "": unknown
	Text       string        // of the key origin; "": unknown, or the key is not there
	Newest     uint64        // the newest position seen
	RestoredAt uint64        // what was written up to this position may not be the latest; 0: it is
	WentBack   int           // how often an older copy, or another store, has answered
	Replaced   chan struct{} // closed when WentBack grows
}

// origins notes from where answers come.
type origins struct {
	mu  sync.Mutex
	now origin // Replaced is set
}

// Now returns the present origin. A driver gets it before each call.
func (o *origins) Now() origin {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now
}

// Note notes an answer, and returns the present origin. text is that of the key origin. before is the origin
// when the call began: unless the store was restored or rebuilt, or is another one, the answer is of the same
// epoch and text, and no older. A call that began earlier may bring the text of the store before once more.
func (o *origins) Note(epoch, text string, position uint64, before *origin) origin {
	o.mu.Lock()
	defer o.mu.Unlock()
	older := before.Epoch != "" && (epoch != before.Epoch || position < before.Newest)
	other := before.Text != "" && text != before.Text || text != "" && o.now.Text != "" && text != o.now.Text
	if older || other {
		close(o.now.Replaced)
		o.now = origin{RestoredAt: position, WentBack: o.now.WentBack + 1, Replaced: make(chan struct{})}
	}
	o.now.Epoch, o.now.Text, o.now.Newest = epoch, cmp.Or(text, o.now.Text), max(o.now.Newest, position)
	return o.now
}
