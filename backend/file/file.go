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
	"syscall"
	"time"

	"github.com/go-election/go-election/backend"
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

	turns [64]chan struct{} // taken by a call about an election, by its name's hash
	guard backend.SingleOwner

	mu       sync.Mutex
	swept    bool              // old member records were removed
	held     map[string]*hold  // what this Backend has locked, by election
	holds    int               // held, and locked for a bid that is under way
	share    *os.File          // the directory, locked shared while holds > 0
	register register          // as last read
	led      map[string]uint64 // greatest term of each election, as far as this process has seen
	home     string            // identity of the directory, as long as it was watched: see settled
	moved    string            // another one that is at the path now
	since    time.Time         // when that was first seen
}

var _ backend.Backend = (*Backend)(nil)

// Open checks o and the directory, which it makes if need be, but not its parent. It is
// ErrInvalid on systems other than Linux and macOS, and for a directory that is not given
// or is a relative path; ErrDenied for one that cannot be used: of another user, writable
// for everybody, or on a file system that is not known to be local.
func Open(_ context.Context, o Options) (*Backend, error) {
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
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) { // not its parents: a misspelt path would work
		return nil, fail("open", err)
	}
	if err := checkDir(dir); err != nil {
		return nil, fail("open", err)
	}
	var st syscall.Stat_t
	if err := again(func() error { return syscall.Stat(dir, &st) }); err != nil {
		return nil, fail("open", &os.PathError{Op: "stat", Path: dir, Err: err})
	}
	b := &Backend{dir: dir, home: identity(&st), maxTTL: o.MaxTTL, poll: o.Poll, held: map[string]*hold{}, led: map[string]uint64{}}
	for i := range b.turns {
		b.turns[i] = make(chan struct{}, 1)
	}
	return b, nil
}

// turn waits until no other bid, renewal or release for an election is under way
// here. Such a call that comes late or twice must not mix with another.
func (b *Backend) turn(ctx context.Context, name string) (done func(), err error) {
	h := fnv.New32a()
	h.Write([]byte(name))
	turn := b.turns[h.Sum32()%uint32(len(b.turns))]
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
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
		Push: !b.poll, Poll: b.poll, Marks: true, Exclusive: true, DurableTerms: true,
	}
}

// Close ends the use of this Backend. What it still holds stays locked until the
// process ends: a leader's function may still be running.
func (b *Backend) Close() error {
	if !b.guard.Close() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	for _, h := range b.held {
		err = keep(h.f, err) // or the garbage collector would close it, which unlocks
	}
	if b.share != nil {
		err = keep(b.share, err)
	}
	return fail("close", err)
}

// holding returns what this Backend has locked for an election, or nil. It is for
// calls that have the turn.
func (b *Backend) holding(name string) *hold {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held[name]
}

// ours reports whether a file is the one that this Backend has locked for a leadership.
func (b *Backend) ours(name, file string, term uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.held[name]
	return h != nil && h.id == file && h.term == term
}
