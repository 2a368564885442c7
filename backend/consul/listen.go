package consul

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// A listenIndex is the index up to which changes have been reported.
type listenIndex struct {
	mu      sync.Mutex
	index   uint64 // 0: none yet
	waiting bool   // a request waits for changes after it
}

// waitingAfter returns the index after which a request waits for changes, or 0.
func (i *listenIndex) waitingAfter() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.waiting {
		return 0
	}
	return i.index
}

func (i *listenIndex) setWaiting(waiting bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.waiting = waiting
}

func (i *listenIndex) get() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.index
}

func (i *listenIndex) set(index uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.index = index
}

// Listen implements [backend.Backend]. It makes a blocking query that the server answers once
// a lock or a record has changed: by a grant, a release, a request, or the end of a session.
// Renewals write elsewhere and wake nobody. The query continues from the index of the last
// call, so no change in between is missed.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	if err := b.enter(ctx, "listen", ""); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	err := b.listen(ctx, seen)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return b.wrap("listen", err)
	}
	return nil
}

func (b *Backend) listen(ctx context.Context, seen []backend.Lease) error {
	index := b.listenIndex.get()
	if index == 0 {
		now, err := b.leasesIndex(ctx)
		if err != nil {
			return err
		}
		b.listenIndex.set(now)
		entries, err := b.readSeen(ctx, seen)
		if err != nil {
			return err
		}
		for i, e := range entries {
			if seen[i].Version == "" || e.lease.Differs(seen[i]) {
				return nil
			}
		}
		index = now
	}
	b.listenIndex.setWaiting(true)
	defer b.listenIndex.setWaiting(false)
	for {
		pairs, now, err := b.waitForChange(ctx, index)
		if err != nil {
			return err
		}
		if now != index { // also if it went back, after the servers were restored
			b.listened.put(pairs)
			b.listenIndex.set(max(now, 1))
			return nil
		}
	}
}

// waitForChange makes one blocking query. It returns when the index of the lock and term keys
// differs, or after a while. If the keys are few, it returns them.
func (b *Backend) waitForChange(ctx context.Context, index uint64) (map[string]*api.KVPair, uint64, error) {
	q := consistent(ctx)
	q.WaitIndex, q.WaitTime = index, listenWait
	if b.listened.tooMany() {
		q.RequireConsistent = false // only a hint: a consistent read follows
		_, meta, err := b.agent.Client.KV().Keys(b.keys.leases, "/", q)
		if err != nil {
			return nil, 0, err
		}
		return nil, meta.LastIndex, nil
	}
	found, meta, err := b.agent.Client.KV().List(b.keys.leases, q)
	if err != nil || meta.ResultsFilteredByACLs {
		return nil, indexAfter(meta), err
	}
	pairs := make(map[string]*api.KVPair, len(found))
	for _, pair := range found {
		pairs[pair.Key] = pair
	}
	return pairs, meta.LastIndex, nil
}

func indexAfter(meta *api.QueryMeta) uint64 {
	if meta == nil {
		return 0
	}
	return meta.LastIndex
}

// A listenResult has the keys that the last blocking query returned. An Observe that follows at
// once uses them and saves a handover one request.
type listenResult struct {
	mu    sync.Mutex
	pairs map[string]*api.KVPair
	at    time.Time // of receipt
	large bool      // too many keys to return
}

// freshFor is how long an Observe may use the result of Listen. A later change wakes the next
// Listen, and Consul refuses a bid on the old value.
const freshFor = 50 * time.Millisecond

func (r *listenResult) tooMany() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.large
}

func (r *listenResult) put(pairs map[string]*api.KVPair) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.large = r.large || len(pairs) > 2*maxSmallRead
	r.pairs, r.at = pairs, time.Now()
}

// take removes the result and returns it, or nil if it is not fresh.
func (r *listenResult) take() map[string]*api.KVPair {
	r.mu.Lock()
	defer r.mu.Unlock()
	pairs := r.pairs
	r.pairs = nil
	if !within(r.at, freshFor) {
		return nil
	}
	return pairs
}

// fromListen returns these elections from a fresh result of Listen, or nil. It returns nil unless
// all are vacant, since the result lacks the heartbeats of held leases, and unless all agree with
// what this process has read before.
func (b *Backend) fromListen(seen []backend.Lease) []*entry {
	pairs := b.listened.take()
	if pairs == nil {
		return nil
	}
	names := make([]string, len(seen))
	for i, l := range seen {
		names[i] = l.Election
	}
	entries := b.newEntries(names, pairs, nil) // used only if each has a lock key, so changes is not needed
	b.classify(entries, nil)
	for _, e := range entries {
		if e.held || e.dataLost || e.lease.ObserveFor != 0 || e.lockPair == nil || e.lockPair.Session != "" {
			return nil
		}
	}
	return entries
}
