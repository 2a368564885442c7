package electionhttp

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-election/go-election/election"
)

// shared is the state that requests share: a snapshot of the manager, and the results of
// background reads of the store.
type shared struct {
	mu sync.Mutex

	status  election.Status
	takenAt time.Time // of status; zero: there is no snapshot
	seq     uint64    // of the newest change at that time

	sinces       map[string]storeSince // see since.go
	sinceQueue   []string              // elections to read
	readingSince bool

	campaigned        campaigns
	campaignedAt      time.Time     // when the members were last read
	readingCampaigned chan struct{} // closed when the read is over that is under way; nil: none is
}

// maxSnapshotAge is how old a snapshot may be if nothing has changed since: a snapshot costs the
// manager's loop some time, and strangers may send many requests.
const maxSnapshotAge = 100 * time.Millisecond

// snapshot returns the manager's status, with elections in byte order of names.
func (h *Handler) snapshot() (election.Status, time.Time) {
	sh := &h.shared
	sh.mu.Lock()
	defer sh.mu.Unlock()
	seq := h.hub.newest() // read first: a later change makes a new snapshot
	if now := time.Now(); sh.takenAt.IsZero() || seq != sh.seq || now.Sub(sh.takenAt) > maxSnapshotAge {
		sh.status, sh.takenAt, sh.seq = h.manager.Status(), now, seq
		slices.SortFunc(sh.status.Elections, func(a, b election.ElectionStatus) int { return strings.Compare(a.Election, b.Election) })
	}
	return sh.status, sh.takenAt
}

// invalidate drops the snapshot after an action, which may have no change.
func (sh *shared) invalidate() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.takenAt = time.Time{}
}

// cacheFor is how long a cache keeps a result, unless its keep is set.
const cacheFor = time.Second

// A cache keeps results and errors of the store for a moment, so that many requests cost
// the store no more than one. Its keys are names of joined elections.
type cache[T any] struct {
	keep    time.Duration
	mu      sync.Mutex
	entries map[string]*cached[T]
}

type cached[T any] struct {
	mu    sync.Mutex
	at    time.Time
	value T
	err   error
}

func (c *cache[T]) get(key string, read func() (T, error)) (T, error) {
	c.mu.Lock()
	if c.entries == nil {
		c.entries = make(map[string]*cached[T])
	}
	entry := c.entries[key]
	if entry == nil {
		entry = new(cached[T])
		c.entries[key] = entry
	}
	c.mu.Unlock()
	entry.mu.Lock() // held for at most one reading of the store, which has a time limit
	defer entry.mu.Unlock()
	if entry.at.IsZero() || time.Since(entry.at) > cmp.Or(c.keep, cacheFor) {
		entry.value, entry.err = read()
		entry.at = time.Now()
	}
	return entry.value, entry.err
}

func (c *cache[T]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = nil
}
