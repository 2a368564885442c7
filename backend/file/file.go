//go:build linux || darwin

package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/register"
)

const (
	minTTL        = 50 * time.Millisecond
	defaultMaxTTL = time.Minute
	maxBytes      = 8 << 20 // of the value
)

// A Backend keeps leases in a directory. It implements [backend.Backend].
type Backend struct {
	*lease.Backend
	driver lease.Driver
	store  *store
}

// Open checks o and the directory, which it makes if there is none, but no parents. The error is ErrInvalid
// on other systems than Linux and macOS or for a missing or relative path, ErrDenied for an unsafe directory.
func Open(o Options) (*Backend, error) {
	o.MaxTTL = cmp.Or(o.MaxTTL, defaultMaxTTL)
	s, bad := &store{dir: filepath.Clean(o.Dir), maxTTL: o.MaxTTL}, backend.ErrInvalid
	switch {
	case o.Dir == "":
		return nil, fmt.Errorf("file: %w: no directory is given (dir)", bad)
	case !filepath.IsAbs(o.Dir), strings.ContainsAny(o.Dir, "\r\n"):
		return nil, fmt.Errorf("file: %w: the directory is %q (dir), a relative path or one with a line "+
			"break: give an absolute one", bad, o.Dir)
	case o.MaxTTL < minTTL || o.MaxTTL > time.Hour:
		return nil, fmt.Errorf("file: %w: the greatest TTL is %v, not %v to 1h", bad, o.MaxTTL, minTTL)
	}

	err := os.Mkdir(s.dir, 0o700) // not its parents: otherwise a misspelt path would work
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = checkDir(s.dir)
	}
	if err == nil {
		s.root, err = os.OpenRoot(s.dir)
	}
	if err != nil {
		return nil, fail("file: open", err)
	}
	limits := register.Limits{Name: Name, MinTTL: minTTL, MaxTTL: o.MaxTTL, MaxBytes: maxBytes}
	d := &driver{register.NewDriver(s, limits), s}
	return &Backend{lease.New(d), d, s}, nil
}

// Location implements [backend.Located].
func (b *Backend) Location() string { return b.store.dir }

// Guarantees says what a directory can promise.
func (b *Backend) Guarantees() backend.Guarantees {
	g := b.Backend.Guarantees()
	g.Expiry = backend.ByKernel
	return g
}

// CanAdopt says that no guard is needed: the kernel tells that a leader has ended.
func (b *Backend) CanAdopt() error {
	return errors.New("file: the kernel releases the leases of a process that has ended, nobody else can")
}

// Preflight implements [backend.Preflighter].
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	err := fail("file: preflight", b.appear(ctx, bids[0].Candidate.Nonce))
	return slices.Repeat([]error{err}, len(bids))
}

// Acquire implements [backend.Backend].
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.appear(ctx, bids[0].Candidate.Nonce); err != nil {
		return nil, fail("file: acquire", err)
	}
	return b.Backend.Acquire(ctx, bids)
}

// appear shows other processes that this one lives, before it may lead.
func (b *Backend) appear(ctx context.Context, nonce backend.Nonce) error {
	if err := b.Enter(nonce); err != nil {
		return err
	}
	// Whoever finds no value while somebody is shown to live takes it for deleted. So the value comes first.
	if _, err := b.driver.Read(ctx, nil); err != nil {
		return err
	}
	return b.store.appear(nonce)
}

// Lock returns another descriptor of what shows that this process lives, or nil if it does not hold the
// election. No other process leads before every descriptor is closed or the election is released. So a
// process that works under the lease in the holder's place can inherit it, as the guard of "elect run" does.
// While it has it, all that the holder has not released stays with it. The caller closes the descriptor.
func (b *Backend) Lock(election string) (*os.File, error) {
	if !slices.Contains(b.Held(), election) {
		return nil, nil
	}
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	fd, err := dup(uintptr(b.store.life.alive))
	return os.NewFile(uintptr(fd), b.store.life.path), fail("file: share a lock", err) // nil, if fd is -1
}

// Close implements [backend.Backend]. As long as leases may be held, because a leader's function may still be
// running, the process is shown to live until it ends.
func (b *Backend) Close() error {
	err := b.Backend.Close()
	if len(b.Held()) == 0 {
		b.store.end()
	}
	return err
}

// A driver is that of the register, and knows which processes live. It implements [lease.Listener], too.
type driver struct {
	lease.Driver
	store *store
}

func (d *driver) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	v, err := d.Driver.Read(ctx, keys)
	fates, err2 := d.store.fates() // of processes that have appeared before a record could name them
	for i := range v.Items {
		if it := &v.Items[i]; it.Kind == lease.Sessions {
			it.Process = fates[it.Name]
		}
	}
	return v, cmp.Or(err, fail("read", err2))
}

// Listen implements [lease.Listener]. It tells of the end of a process, too.
func (d *driver) Listen(ctx context.Context, position uint64, known []lease.Item, on lease.Heard) error {
	within, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	var ended atomic.Bool
	for _, it := range known {
		if it.Process == lease.Lives {
			waiting.Go(func() {
				if d.store.untilEnded(within, it.Name) {
					ended.Store(true)
					cancel()
				}
			})
		}
	}

	err := d.Driver.(lease.Listener).Listen(within, position, known, on)
	cancel()
	waiting.Wait()
	if err != nil && ended.Load() {
		on(nil, position)
		return nil
	}
	return err
}
