package consul

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// listenIndex is up to where changes have been heard of.
type listenIndex struct {
	mu      sync.Mutex
	index   uint64 // 0: none yet
	waiting bool   // a request waits for what comes after it
}

// awaited returns the index after which a request waits for changes, or 0.
func (i *listenIndex) waitingAfter() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.waiting {
		return 0
	}
	return i.index
}

func (i *listenIndex) setWaiting(is bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.waiting = is
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

// listenWait is how long one blocking query may wait.
const listenWait = 5 * time.Minute

// Listen implements [backend.Backend]: a blocking query that the server answers
// once a lock or a record has changed, by a grant, a release, a request, or the end
// of a session. Renewals write elsewhere and wake nobody. It goes on where the
// last call stopped, so nothing that came in between is missed.
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
	index := b.index.get()
	if index == 0 {
		now, err := b.leasesIndex(ctx)
		if err != nil {
			return err
		}
		b.index.set(now)
		entries, err := b.readSeen(ctx, seen)
		if err != nil {
			return err
		}
		for i, e := range entries {
			if seen[i].Heartbeat == 0 || e.lease.Differs(seen[i]) {
				return nil
			}
		}
		index = now
	}
	b.index.setWaiting(true)
	defer b.index.setWaiting(false)
	for {
		pairs, now, err := b.await(ctx, index)
		if err != nil {
			return err
		}
		if now != index { // also if it went back: the servers were restored
			b.listened.put(pairs)
			b.index.set(max(now, 1))
			return nil
		}
	}
}

// await is one blocking query: it returns when the index of the lock and term keys
// is not that one any more, or after a while. Where they are few it brings them along.
func (b *Backend) await(ctx context.Context, index uint64) (map[string]*api.KVPair, uint64, error) {
	q := query(ctx)
	q.WaitIndex, q.WaitTime = index, listenWait
	if b.listened.tooMany() {
		q.RequireConsistent = false // a hint: what follows is a consistent reading
		_, meta, err := b.client.KV().Keys(b.keys.leases, "/", q)
		if err != nil {
			return nil, 0, err
		}
		return nil, meta.LastIndex, nil
	}
	found, meta, err := b.client.KV().List(b.keys.leases, q)
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

// news is what the last blocking query has brought: an Observe that follows it at
// once need not ask for the same again. That saves a handover one of its steps.
type listenResult struct {
	mu    sync.Mutex
	pairs map[string]*api.KVPair
	at    time.Time // of receipt
	many  bool      // too many to bring along
}

// fresh is for how long news are what an Observe would find, but for what happened
// since, which wakes the next Listen and refuses a bid.
const freshFor = 50 * time.Millisecond

func (r *listenResult) tooMany() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.many
}

func (r *listenResult) put(pairs map[string]*api.KVPair) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.many = r.many || len(pairs) > 2*maxSmallRead
	r.pairs, r.at = pairs, time.Now()
}

// take returns the news, once.
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

// heard returns those elections as Listen has just brought them, or nil. Only if all
// are free: of what is held the heartbeat is missing. And not if this process knows better.
func (b *Backend) fromListen(seen []backend.Lease) []*entry {
	pairs := b.listened.take()
	if pairs == nil {
		return nil
	}
	names := make([]string, len(seen))
	for i, l := range seen {
		names[i] = l.Election
	}
	entries := b.newEntries(names, pairs, nil) // there is a lock key of each, or they are not used
	b.classify(entries, nil)
	for _, e := range entries {
		if e.held || e.dataLost || e.lease.ObserveFor != 0 || e.lockPair == nil || e.lockPair.Session != "" {
			return nil
		}
	}
	return entries
}
