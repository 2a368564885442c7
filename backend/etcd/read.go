package etcd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
)

const (
	// exactly is how many elections are read, or written, key by key in one
	// transaction: up to three conditions each, and 128 are allowed.
	exactly = 40

	// together is how many are read in one transaction by the range from the
	// first name to the last.
	together = 4000
)

// A view is one reading, which is linearizable: it was confirmed by a majority
// after it was asked for.
type view struct {
	revision int64
	cluster  uint64
	sessions map[string]*home // whose key is there
	layout   layout
	layoutAt int64  // revision of that key; 0: not there
	foreign  bool   // the layout was written in another cluster
	lossy    bool   // records are missing that were made
	deleted  int64  // records so far
	self     string // whose leftovers are its own
	restored int64  // what was written before this revision may be old
	rings    int    // see hearing
	longest  time.Duration
}

// An entry is what a reading shows of one election.
type entry struct {
	backend.Lease
	record      *record // nil: there is none, or it makes no sense
	recordAt    int64   // revision of its last write; 0: not there
	raw         []byte
	writes      int64 // how often it was written since it was made
	requestAt   int64
	heartbeatAt int64 // revision of the key of the holder's session; 0: not there
	missing     bool  // there is no record
	old         bool  // from before the store was rebuilt, or ruined, or odd
	odd         bool  // what is there was put there by a hand
	mine        bool  // a leftover of our own, which a bid may have
	may         bool  // it may be held here; what names us otherwise was put there by a hand
	met         bool  // it has had a record, as this process knows
	guessed     bool  // remembered: see memory.go
}

// elections returns what reads them. light: of records only whether they are there, and
// since when.
func (b *Backend) elections(names []string, light bool) (ops []clientv3.Op) {
	if len(names) <= exactly {
		for _, name := range names {
			ops = append(ops, clientv3.OpGet(b.keys.record(name), short(light)...), clientv3.OpGet(b.keys.request(name)))
		}
		return ops
	}
	from, to := slices.Min(names), slices.Max(names)
	until := func(key string) clientv3.OpOption { return clientv3.WithRange(after(key)) }
	return append(ops, clientv3.OpGet(b.keys.record(from), append(short(light), until(b.keys.record(to)))...),
		clientv3.OpGet(b.keys.request(from), until(b.keys.request(to))))
}

// read reads elections, and the sessions of all who may hold them.
func (b *Backend) read(ctx context.Context, names []string) (view, []entry, error) {
	heartbeats := b.keys.heartbeat("")
	v, resp, err := b.look(ctx, append(b.elections(names, false), clientv3.OpGet(heartbeats, clientv3.WithRange(beyond(heartbeats))), clientv3.OpGet(b.keys.layout())))
	if err != nil {
		return v, nil, err
	}
	found := make(map[string]*entry, len(names))
	entries := make([]entry, len(names))
	for i, name := range names {
		entries[i].Election = name
		found[name] = &entries[i]
	}
	b.takeIn(&v, found, resp)
	if v.layout.Version > layoutVersion {
		return v, nil, fmt.Errorf("%w: the keys of prefix %s have layout %d, this program knows %d", backend.ErrDenied, b.keys, v.layout.Version, layoutVersion)
	}
	v.longest = max(v.longest, min(time.Duration(v.layout.MaxTTL), maxTTL))
	b.noteTTL(v.longest)                         // the key may be deleted
	if v.layoutAt != 0 && v.layout.MaxTTL == 0 { // it was ruined
		v.longest = maxTTL
	}
	if v.layout.Version == 0 || slices.ContainsFunc(entries, func(e entry) bool { return e.recordAt == 0 }) {
		if err := b.count(ctx, &v); err != nil {
			return v, nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		e.met = b.met[e.Election]
		_, e.may = b.holding[e.Election]
		v.judge(e)
		b.met[e.Election] = e.met || e.recordAt != 0
	}
	b.hearing.reads(&v, entries)
	if len(names) <= exactly {
		b.last = &reading{view: v, entries: slices.Clone(entries), at: time.Now()}
		b.last.view.sessions = maps.Clone(v.sessions) // a bid writes to its own
	}
	return v, entries, nil
}

// note takes in one key, as it was read, or as a watch says that it is now. A key
// without a value is gone.
func (b *Backend) note(v *view, found map[string]*entry, kv *mvccpb.KeyValue) {
	key, there := string(kv.Key), kv.CreateRevision != 0
	at, value := kv.ModRevision, kv.Value
	if !there {
		at, value = 0, nil
	}
	if name, ok := strings.CutPrefix(key, b.keys.record("")); ok {
		if e := found[name]; e != nil {
			e.record, e.recordAt, e.raw, e.writes = readRecord(value), at, value, kv.Version
			if !there {
				e.writes = 0
			}
		}
	} else if name, ok := strings.CutPrefix(key, b.keys.request("")); ok {
		if e := found[name]; e != nil {
			e.Request, e.requestAt = backend.Request{}, at
			if w := decode[request](value); w != nil {
				e.Request = backend.Request{Election: name, Term: w.Term, Kind: w.Kind, ID: w.ID, Nonce: w.Nonce}
			}
		}
	} else if name, ok := strings.CutPrefix(key, b.keys.heartbeat("")); ok {
		v.sessions[name] = readHome(kv)
	} else if key == b.keys.layout() {
		v.layoutAt = at
		if l := decode[layout](value); l != nil {
			v.layout = *l
		}
		v.foreign = v.layout.Cluster != v.cluster
	}
}

// takeIn notes all keys of an answer.
func (b *Backend) takeIn(v *view, found map[string]*entry, resp *clientv3.TxnResponse) {
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().GetKvs() {
			b.note(v, found, kv)
		}
	}
}

func short(light bool) []clientv3.OpOption {
	if light {
		return []clientv3.OpOption{clientv3.WithKeysOnly()}
	}
	return nil
}

// look makes one reading and notes what it says of the store.
func (b *Backend) look(ctx context.Context, ops []clientv3.Op) (view, *clientv3.TxnResponse, error) {
	v := b.view()
	resp, err := b.txn(ctx, nil, ops, true)
	if err == nil {
		b.dated(&v, resp)
	}
	return v, resp, err
}

// view begins a reading: what it shows is not older than this call.
func (b *Backend) view() view {
	b.mu.Lock()
	defer b.mu.Unlock()
	return view{sessions: map[string]*home{}, self: b.guard.Nonce(), longest: b.longest, revision: b.newest, rings: b.hearing.rings}
}

// dated notes of which store and when an answer is.
func (b *Backend) dated(v *view, resp *clientv3.TxnResponse) {
	before := v.revision
	v.revision, v.cluster = resp.Header.GetRevision(), resp.Header.GetClusterId()
	b.mu.Lock()
	defer b.mu.Unlock()
	if v.revision < before { // an older copy was restored: nothing in it is news
		b.restored, b.newest = v.revision, 0
	}
	b.newest, v.restored = max(b.newest, v.revision), b.restored
}

// txn sends one transaction, and copies of it to other members if that does no harm.
func (b *Backend) txn(ctx context.Context, when []clientv3.Cmp, then []clientv3.Op, copies bool) (resp *clientv3.TxnResponse, err error) {
	return b.choose(ctx, when, then, nil, copies)
}

// choose is txn with something to do if the conditions do not hold.
func (b *Backend) choose(ctx context.Context, when []clientv3.Cmp, then, otherwise []clientv3.Op, copies bool) (resp *clientv3.TxnResponse, err error) {
	once := func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return b.client.Txn(ctx).If(when...).Then(then...).Else(otherwise...).Commit()
	}
	err = b.call(ctx, func() (err error) {
		if copies {
			resp, err = hedged(ctx, once)
		} else {
			resp, err = once(ctx)
		}
		return err
	})
	return resp, err
}

// count finds out whether records are missing that were made once. What is read
// here is older than nothing in v but the records themselves, of which those that
// a bid is about must still be missing when it is granted.
func (b *Backend) count(ctx context.Context, v *view) error {
	records := b.keys.record("")
	_, resp, err := b.look(ctx, []clientv3.Op{
		clientv3.OpGet(b.keys.layout()),
		clientv3.OpGet(records, clientv3.WithRange(beyond(records)), clientv3.WithCountOnly()),
	})
	if err != nil {
		return err
	}
	v.layoutAt, v.layout = 0, layout{}
	for _, kv := range resp.Responses[0].GetResponseRange().GetKvs() {
		v.layoutAt = kv.ModRevision
		if l := decode[layout](kv.Value); l != nil {
			v.layout = *l
		}
	}
	there := resp.Responses[1].GetResponseRange().GetCount()
	if v.layout.Version == 0 { // it was deleted, or ruined: it is made anew for what is there
		v.layout = layout{Made: there}
	}
	v.foreign = v.layoutAt != 0 && v.layout.Cluster != v.cluster
	v.lossy = there < v.layout.Made
	v.deleted = v.layout.Made + v.layout.Again - there
	return nil
}
