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
	// maxByKey is how many elections one transaction reads or writes key by key: up to
	// three conditions each, of the 128 that etcd allows.
	maxByKey = 40

	// maxByRange is how many elections one transaction reads by range, from the first
	// name to the last.
	maxByRange = 4000
)

// A snapshot is the state of the store in one linearizable read: a majority confirmed it
// after the read began.
type snapshot struct {
	revision       int64
	cluster        uint64
	sessions       map[string]*sessionRecord // those whose key exists
	layout         layout
	layoutRevision int64         // of the layout key; 0: it does not exist
	otherCluster   bool          // the layout was written in another cluster
	recordsMissing bool          // fewer records exist than were made
	deletedRecords int64         // how many records were ever deleted
	nonce          backend.Nonce // of this process, which may be granted its own leftovers
	restoredAt     int64         // records up to this revision may not be the latest
	generation     int           // of the watchCache when the read began
	longestTTL     time.Duration
}

// An entry is one election in a snapshot.
type entry struct {
	backend.Lease
	record          *record // nil: missing or invalid
	recordRevision  int64   // of its last write; 0: missing
	raw             []byte
	version         int64 // of the record's key: the number of writes since it was created
	requestRevision int64 // 0: missing
	sessionRevision int64 // of the holder's session key; 0: missing
	missing         bool  // there is no record
	suspect         bool  // it may not be the last grant: restored, invalid, tampered or deleted
	tampered        bool  // the record was edited manually
	ownLeftover     bool  // this process was granted it before, and a bid would be granted
	mayBeHeld       bool  // this process may hold it; otherwise a record that names it was edited manually
	hadRecord       bool  // this process knows that it has had a record
	remembered      bool  // from the last read or the grant, not read by this call
}

// readOps returns the operations that read elections; of records the keys alone if keysOnly.
func (b *Backend) readOps(names []string, keysOnly bool) (ops []clientv3.Op) {
	if len(names) <= maxByKey {
		for _, name := range names {
			ops = append(ops, clientv3.OpGet(b.keys.record(name), keysOnlyOption(keysOnly)...), clientv3.OpGet(b.keys.request(name)))
		}
		return ops
	}
	from, to := slices.Min(names), slices.Max(names)
	until := func(key string) clientv3.OpOption { return clientv3.WithRange(keyAfter(key)) }
	return append(ops, clientv3.OpGet(b.keys.record(from), append(keysOnlyOption(keysOnly), until(b.keys.record(to)))...),
		clientv3.OpGet(b.keys.request(from), until(b.keys.request(to))))
}

// readElections reads elections, all sessions and the layout.
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
	if v.layoutRevision != 0 && v.layout.MaxTTL == 0 { // the value is invalid
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

// applyKey updates a snapshot and its entries by one key, as it was read or as a watch has
// shown it. A key whose CreateRevision is 0 was deleted.
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
				e.Request = backend.Request{Election: name, Term: w.Term, Kind: w.Kind, ID: w.ID, Nonce: backend.Nonce(w.Nonce)}
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

// applyResponse applies all keys of a response.
func (b *Backend) applyResponse(v *snapshot, found map[string]*entry, resp *clientv3.TxnResponse) {
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().GetKvs() {
			b.applyKey(v, found, kv)
		}
	}
}

func keysOnlyOption(keysOnly bool) []clientv3.OpOption {
	if keysOnly {
		return []clientv3.OpOption{clientv3.WithKeysOnly()}
	}
	return nil
}

// readSnapshot makes one read, and notes from which store it comes.
func (b *Backend) readSnapshot(ctx context.Context, ops []clientv3.Op) (snapshot, *clientv3.TxnResponse, error) {
	v := b.newSnapshot()
	resp, err := b.txn(ctx, nil, ops, true)
	if err == nil {
		b.noteOrigin(&v, resp)
	}
	return v, resp, err
}

// newSnapshot begins a read: its revision is the newest known one until the answer comes.
func (b *Backend) newSnapshot() snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return snapshot{sessions: map[string]*sessionRecord{}, nonce: b.owner.Nonce(), longestTTL: b.longestTTL, revision: b.newestRevision, generation: b.cache.generation}
}

// noteOrigin notes cluster and revision of a response, and whether the store went back:
// docs/design/etcd.md, "Restored and rebuilt stores".
func (b *Backend) noteOrigin(v *snapshot, resp *clientv3.TxnResponse) {
	before := v.revision
	v.revision, v.cluster = resp.Header.GetRevision(), resp.Header.GetClusterId()
	b.mu.Lock()
	defer b.mu.Unlock()
	if v.revision < before { // an older copy was restored
		b.restoredAt, b.newestRevision = v.revision, 0
	}
	b.newestRevision, v.restoredAt = max(b.newestRevision, v.revision), b.restoredAt
}

// txn sends one transaction; if copies is set, also to other members that may answer sooner.
func (b *Backend) txn(ctx context.Context, when []clientv3.Cmp, then []clientv3.Op, copies bool) (resp *clientv3.TxnResponse, err error) {
	return b.txnElse(ctx, when, then, nil, copies)
}

// txnElse is txn with operations for the case that the conditions do not hold.
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

// countRecords finds out whether records were deleted: docs/design/etcd.md, "Deleted
// records". It reads later than v. A grant requires that the records which v did not find
// are still missing.
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
	if v.layout.Version == 0 { // deleted or invalid: the next grant makes it anew with this count
		v.layout = layout{Made: there}
	}
	v.otherCluster = v.layoutRevision != 0 && v.layout.Cluster != v.cluster
	v.recordsMissing = there < v.layout.Made
	v.deletedRecords = v.layout.Made + v.layout.Again - there
	return nil
}
