//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/single"
)

// Limits of a TTL.
const (
	minTTL        = 50 * time.Millisecond
	defaultMaxTTL = time.Minute
	greatestTTL   = time.Hour
)

// A Backend keeps leases in a directory. It implements [backend.Backend].
type Backend struct {
	dir    string
	maxTTL time.Duration
	poll   bool

	mutexes [64]chan struct{} // one per call about an election, chosen by the hash of its name
	owner   single.Owner

	mu            sync.Mutex
	cleaned       bool                     // old member records were removed
	held          map[string]*electionLock // the locks of granted leases, by election
	lockCount     int                      // of the locks in held, and of those for bids under way
	sharedLock    *os.File                 // the directory, locked shared while lockCount > 0
	register      register                 // as last read
	greatestTerms map[string]uint64        // the greatest term of each election that this process has seen
	dirID         string                   // identity of the directory that is known to be in use: see dirSettled
	newDirID      string                   // identity of another directory that is at the path now
	newDirSince   time.Time                // when that was first seen
}

var (
	_ backend.Backend = (*Backend)(nil)
	_ backend.Marker  = (*Backend)(nil)
)

// Open checks o and the directory. It makes the directory if that does not exist, but not
// its parent. The error is ErrInvalid on systems other than Linux and macOS and for a
// missing or relative path, and ErrDenied for a directory that belongs to another user,
// that every user can write, or that is on a file system not known to be local.
func Open(o Options) (*Backend, error) {
	if o.MaxTTL == 0 {
		o.MaxTTL = defaultMaxTTL
	}
	switch {
	case o.Dir == "":
		return nil, fmt.Errorf("file: %w: no directory is given (dir)", backend.ErrInvalid)
	case !filepath.IsAbs(o.Dir):
		return nil, fmt.Errorf("file: %w: the directory is %q (dir), a relative path: processes started in different places would each have a leader; give an absolute one", backend.ErrInvalid, o.Dir)
	case o.MaxTTL < minTTL || o.MaxTTL > greatestTTL:
		return nil, fmt.Errorf("file: %w: the greatest TTL is %v; it must be from %v to %v", backend.ErrInvalid, o.MaxTTL, minTTL, greatestTTL)
	}
	dir := filepath.Clean(o.Dir)
	// Its parents are not made: otherwise a misspelt path would work.
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fail("open", err)
	}
	if err := checkDir(dir); err != nil {
		return nil, fail("open", err)
	}
	b := &Backend{dir: dir, maxTTL: o.MaxTTL, poll: o.Poll, held: map[string]*electionLock{}, greatestTerms: map[string]uint64{}}
	if err := b.enterDir(); err != nil {
		return nil, fail("open", err)
	}
	for i := range b.mutexes {
		b.mutexes[i] = make(chan struct{}, 1)
	}
	return b, nil
}

// serialize waits until no other bid, renewal or release of the election is under way in
// this process. A late or repeated call must not run beside another one.
func (b *Backend) serialize(ctx context.Context, name string) (done func(), err error) {
	h := fnv.New32a()
	h.Write([]byte(name))
	mutex := b.mutexes[h.Sum32()%uint32(len(b.mutexes))]
	select {
	case mutex <- struct{}{}:
		return func() { <-mutex }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Location implements [backend.Located].
func (b *Backend) Location() string { return b.dir }

// Guarantees says what a directory can promise.
func (b *Backend) Guarantees() backend.Guarantees {
	return backend.Guarantees{
		Name: Name, MinTTL: minTTL, MaxTTL: b.maxTTL, Expiry: backend.ByKernel,
		Push: !b.poll, Poll: b.poll, Exclusive: true, DurableTerms: true,
	}
}

// Close ends the use of this Backend. Locks that it still holds stay locked until the
// process ends, because a leader's function may still be running.
func (b *Backend) Close() error {
	if !b.owner.Close() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if b.cleaned { // it has announced itself
		os.Remove(filepath.Join(b.dir, string(b.owner.Nonce())+memberSuffix)) // if it fails, the member is listed for two TTLs
	}
	for _, h := range b.held {
		err = keepOpen(h.f, err) // otherwise the garbage collector closes the file, which unlocks it
	}
	if b.sharedLock != nil {
		err = keepOpen(b.sharedLock, err)
	}
	return fail("close", err)
}

// heldLock returns the lock that this Backend holds for an election, or nil. The caller
// has serialized its call.
func (b *Backend) heldLock(name string) *electionLock {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held[name]
}

// isOurs reports whether this Backend has locked the file for the leadership of this term.
func (b *Backend) isOurs(name, file string, term uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.held[name]
	return h != nil && h.id == file && h.term == term
}
