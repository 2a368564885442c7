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
	maxByKey = 40

	// together is how many are read in one transaction by the range from the
	// first name to the last.
	maxByRange = 4000
)

// A view is one reading, which is linearizable: it was confirmed by a majority
// after it was asked for.
type snapshot struct {
	revision       int64
	cluster        uint64
	sessions       map[string]*sessionRecord // whose key is there
	layout         layout
	layoutRevision int64  // revision of that key; 0: not there
	otherCluster   bool   // the layout was written in another cluster
	recordsMissing bool   // records are missing that were made
	deletedRecords int64  // records so far
	nonce          string // whose leftovers are its own
	restoredAt     int64  // what was written before this revision may be old
	generation     int    // see hearing
	longestTTL     time.Duration
}

// An entry is what a reading shows of one election.
type entry struct {
	backend.Lease
	record          *record // nil: there is none, or it makes no sense
	recordRevision  int64   // revision of its last write; 0: not there
	raw             []byte
	version         int64 // how often it was written since it was made
	requestRevision int64
	sessionRevision int64 // revision of the key of the holder's session; 0: not there
	missing         bool  // there is no record
	suspect         bool  // from before the store was rebuilt, or ruined, or odd
	tampered        bool  // what is there was put there by a hand
	ownLeftover     bool  // a leftover of our own, which a bid may have
	mayBeHeld       bool  // it may be held here; what names us otherwise was put there by a hand
	hadRecord       bool  // it has had a record, as this process knows
	remembered      bool  // remembered: see memory.go
}

// elections returns what reads them. light: of records only whether they are there, and
// since when.
func (b *Backend) readOps(names []string, light bool) (ops []clientv3.Op) {
	if len(names) <= maxByKey {
		for _, name := range names {
			ops = append(ops, clientv3.OpGet(b.keys.record(name), keysOnlyOption(light)...), clientv3.OpGet(b.keys.request(name)))
		}
		return ops
	}
	from, to := slices.Min(names), slices.Max(names)
	until := func(key string) clientv3.OpOption { return clientv3.WithRange(keyAfter(key)) }
	return append(ops, clientv3.OpGet(b.keys.record(from), append(keysOnlyOption(light), until(b.keys.record(to)))...),
		clientv3.OpGet(b.keys.request(from), until(b.keys.request(to))))
}

// read reads elections, and the sessions of all who may hold them.
func (b *Backend) readElections(ctx context.Context, names []string) (snapshot, []entry, error) {
	heartbeats := b.keys.heartbeat("")
	v, resp, err := b.readSnapshot(ctx, append(b.readOps(names, false), clientv3.OpGet(heartbeats, clientv3.WithRange(directoryEnd(heartbeats))), clientv3.OpGet(b.keys.layout())))
	if err != nil {
		return v, nil, err
	}
	found := make(map[string]*entry, len(names))
	entries := make([]entry, len(names))
	for i, name := range names {
		entries[i].Election = name
		found[name] = &entries[i]
	}
	b.applyResponse(&v, found, resp)
	if v.layout.Version > layoutVersion {
		return v, nil, fmt.Errorf("%w: the keys of prefix %s have layout %d, this program knows %d", backend.ErrDenied, b.keys, v.layout.Version, layoutVersion)
	}
	v.longestTTL = max(v.longestTTL, min(time.Duration(v.layout.MaxTTL), maxTTL))
	b.noteTTL(v.longestTTL)                            // the key may be deleted
	if v.layoutRevision != 0 && v.layout.MaxTTL == 0 { // it was ruined
		v.longestTTL = maxTTL
	}
	if v.layout.Version == 0 || slices.ContainsFunc(entries, func(e entry) bool { return e.recordRevision == 0 }) {
		if err := b.countRecords(ctx, &v); err != nil {
			return v, nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		e.hadRecord = b.hadRecord[e.Election]
		_, e.mayBeHeld = b.held[e.Election]
		v.classify(e)
		b.hadRecord[e.Election] = e.hadRecord || e.recordRevision != 0
	}
	b.cache.addRead(&v, entries)
	if len(names) <= maxByKey {
		b.lastRead = &readResult{snapshot: v, entries: slices.Clone(entries), at: time.Now()}
		b.lastRead.snapshot.sessions = maps.Clone(v.sessions) // a bid writes to its own
	}
	return v, entries, nil
}

// note takes in one key, as it was read, or as a watch says that it is now. A key
// without a value is gone.
func (b *Backend) applyKey(v *snapshot, found map[string]*entry, kv *mvccpb.KeyValue) {
	key, there := string(kv.Key), kv.CreateRevision != 0
	at, value := kv.ModRevision, kv.Value
	if !there {
		at, value = 0, nil
	}
	if name, ok := strings.CutPrefix(key, b.keys.record("")); ok {
		if e := found[name]; e != nil {
			e.record, e.recordRevision, e.raw, e.version = readRecord(value), at, value, kv.Version
			if !there {
				e.version = 0
			}
		}
	} else if name, ok := strings.CutPrefix(key, b.keys.request("")); ok {
		if e := found[name]; e != nil {
			e.Request, e.requestRevision = backend.Request{}, at
			if w := decode[request](value); w != nil {
				e.Request = backend.Request{Election: name, Term: w.Term, Kind: w.Kind, ID: w.ID, Nonce: w.Nonce}
			}
		}
	} else if name, ok := strings.CutPrefix(key, b.keys.heartbeat("")); ok {
		v.sessions[name] = readSessionRecord(kv)
	} else if key == b.keys.layout() {
		v.layoutRevision = at
		if l := decode[layout](value); l != nil {
			v.layout = *l
		}
		v.otherCluster = v.layout.Cluster != v.cluster
	}
}

// takeIn notes all keys of an answer.
func (b *Backend) applyResponse(v *snapshot, found map[string]*entry, resp *clientv3.TxnResponse) {
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().GetKvs() {
			b.applyKey(v, found, kv)
		}
	}
}

func keysOnlyOption(light bool) []clientv3.OpOption {
	if light {
		return []clientv3.OpOption{clientv3.WithKeysOnly()}
	}
	return nil
}

// look makes one reading and notes what it says of the store.
func (b *Backend) readSnapshot(ctx context.Context, ops []clientv3.Op) (snapshot, *clientv3.TxnResponse, error) {
	v := b.newSnapshot()
	resp, err := b.txn(ctx, nil, ops, true)
	if err == nil {
		b.noteOrigin(&v, resp)
	}
	return v, resp, err
}

// view begins a reading: what it shows is not older than this call.
func (b *Backend) newSnapshot() snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return snapshot{sessions: map[string]*sessionRecord{}, nonce: b.owner.Nonce(), longestTTL: b.longestTTL, revision: b.newestRevision, generation: b.cache.generation}
}

// dated notes of which store and when an answer is.
func (b *Backend) noteOrigin(v *snapshot, resp *clientv3.TxnResponse) {
	before := v.revision
	v.revision, v.cluster = resp.Header.GetRevision(), resp.Header.GetClusterId()
	b.mu.Lock()
	defer b.mu.Unlock()
	if v.revision < before { // an older copy was restored: nothing in it is news
		b.restoredAt, b.newestRevision = v.revision, 0
	}
	b.newestRevision, v.restoredAt = max(b.newestRevision, v.revision), b.restoredAt
}

// txn sends one transaction, and copies of it to other members if that does no harm.
func (b *Backend) txn(ctx context.Context, when []clientv3.Cmp, then []clientv3.Op, copies bool) (resp *clientv3.TxnResponse, err error) {
	return b.txnElse(ctx, when, then, nil, copies)
}

// choose is txn with something to do if the conditions do not hold.
func (b *Backend) txnElse(ctx context.Context, when []clientv3.Cmp, then, otherwise []clientv3.Op, copies bool) (resp *clientv3.TxnResponse, err error) {
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
func (b *Backend) countRecords(ctx context.Context, v *snapshot) error {
	records := b.keys.record("")
	_, resp, err := b.readSnapshot(ctx, []clientv3.Op{
		clientv3.OpGet(b.keys.layout()),
		clientv3.OpGet(records, clientv3.WithRange(directoryEnd(records)), clientv3.WithCountOnly()),
	})
	if err != nil {
		return err
	}
	v.layoutRevision, v.layout = 0, layout{}
	for _, kv := range resp.Responses[0].GetResponseRange().GetKvs() {
		v.layoutRevision = kv.ModRevision
		if l := decode[layout](kv.Value); l != nil {
			v.layout = *l
		}
	}
	there := resp.Responses[1].GetResponseRange().GetCount()
	if v.layout.Version == 0 { // it was deleted, or ruined: it is made anew for what is there
		v.layout = layout{Made: there}
	}
	v.otherCluster = v.layoutRevision != 0 && v.layout.Cluster != v.cluster
	v.recordsMissing = there < v.layout.Made
	v.deletedRecords = v.layout.Made + v.layout.Again - there
	return nil
}
