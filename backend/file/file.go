//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/register"
)

// Limits of a TTL.
const (
	minTTL        = 50 * time.Millisecond
	defaultMaxTTL = time.Minute
	greatestTTL   = time.Hour
)

// limits are what a file allows. MaxTTL is that of the options.
var limits = register.Limits{Name: Name, MinTTL: minTTL, MaxBytes: 8 << 20}

// A Backend keeps leases in a directory. It implements [backend.Backend].
type Backend struct {
	*lease.Backend
	store  *store
	driver lease.Driver
	life   life

	mu    sync.Mutex
	nonce backend.Nonce   // of this process, once it has bid
	held  map[string]bool // elections whose lease this process may hold
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
		return nil, fail("file: open", err)
	}
	s := newStore(dir, o.MaxTTL)
	err := checkDir(dir)
	if err == nil {
		err = s.enter()
	}
	if err != nil {
		return nil, fail("file: open", err)
	}
	limits := limits
	limits.MaxTTL = o.MaxTTL
	d := register.NewDriver(s, limits)
	return &Backend{Backend: lease.New(d), store: s, driver: d, held: map[string]bool{}}, nil
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
	return fmt.Errorf("file: the kernel releases the leases of a process that has ended, no other process can")
}

// Preflight implements [backend.Preflighter]. It makes what a candidate needs.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	err := fail("file: preflight", b.appear(ctx, bids[0].Candidate.Nonce))
	return slices.Repeat([]error{err}, len(bids))
}

// appear shows other processes that this one lives, before it may lead.
func (b *Backend) appear(ctx context.Context, nonce backend.Nonce) error {
	if err := b.Enter(nonce); err != nil {
		return err
	}
	b.mu.Lock()
	b.nonce = nonce
	b.mu.Unlock()
	if err := b.store.share(ctx); err != nil {
		return err
	}
	return b.life.show(b.store.dir, nonce)
}

// Acquire implements [backend.Backend]. A lease whose holder lives is not to be had.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	_, err := b.driver.Read(ctx, nil) // so that it appears in a directory that it knows, and that has a value
	if err == nil {
		err = b.appear(ctx, bids[0].Candidate.Nonce)
	}
	if err != nil {
		return nil, fail("file: acquire", err)
	}
	bids = slices.Clone(bids)
	fates := b.fates()
	b.mu.Lock()
	for i := range bids {
		b.held[bids[i].Election] = true
		if fates[bids[i].Expected.Holder.Nonce] == lives {
			bids[i].Expected.Version = "" // so that the bid is refused
		}
	}
	b.mu.Unlock()
	answers, err := b.Backend.Acquire(ctx, bids)
	b.settle(answers, fates)
	return answers, err
}

// settle forgets leases that this process does not hold, and marks those whose holder lives.
func (b *Backend) settle(answers []backend.Answer, fates map[backend.Nonce]fate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range answers {
		if answers[i].Outcome == backend.Refused {
			delete(b.held, answers[i].Election)
		}
		mark(&answers[i].Lease, fates)
	}
}

// Renew implements [backend.Backend]. It makes the pipe again if somebody has removed it.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if nonce := held[0].Holder.Nonce; b.Enter(nonce) == nil {
		b.life.show(b.store.dir, nonce) // otherwise its leases expire
	}
	answers, err := b.Backend.Renew(ctx, held)
	b.settle(answers, b.fates())
	return answers, err
}

// Release implements [backend.Backend].
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	err := b.Backend.Release(ctx, held)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, h := range held {
			delete(b.held, h.Election)
		}
	}
	return err
}

// Observe implements [backend.Backend]. It releases the leases of processes that have ended.
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	now, dead, err := b.observe(ctx, seen)
	if err == nil && len(dead) > 0 && b.bury(ctx, dead) == nil { // otherwise the leases expire
		now, _, err = b.observe(ctx, seen)
	}
	if err != nil {
		return nil, err
	}
	for i := range now {
		if seen[i].Version == "" || now[i].Differs(seen[i]) {
			changed = append(changed, now[i])
		}
	}
	return changed, nil
}

// observe returns all leases in seen as they are now, and those that dead processes hold.
func (b *Backend) observe(ctx context.Context, seen []backend.Lease) (now []backend.Lease, dead map[backend.Nonce][]backend.Held, err error) {
	unread := make([]backend.Lease, len(seen))
	for i := range seen {
		unread[i].Election = seen[i].Election
	}
	if now, err = b.Backend.Observe(ctx, unread); err != nil {
		return nil, nil, err
	}
	dead = map[backend.Nonce][]backend.Held{}
	fates := b.fates()
	for i := range now {
		if mark(&now[i], fates) == ended {
			h := now[i].Held()
			h.End = backend.Failed
			dead[h.Holder.Nonce] = append(dead[h.Holder.Nonce], h)
		}
	}
	return now, dead, nil
}

// unmarked returns leases as package lease knows them.
func (b *Backend) unmarked(seen []backend.Lease) []backend.Lease {
	leases := slices.Clone(seen)
	for i := range leases {
		if l := &leases[i]; l.ObserveFor == backend.ExpiresInStore {
			l.ObserveFor = min(max(l.TTL, minTTL), b.store.maxTTL)
		}
	}
	return leases
}

// List implements [backend.Backend].
func (b *Backend) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	list, err := b.Backend.List(ctx, from, limit)
	fates := b.fates()
	for i := range list {
		mark(&list[i].Lease, fates)
	}
	return list, err
}

// bury releases leases for processes that have certainly ended, as a guard does.
func (b *Backend) bury(ctx context.Context, dead map[backend.Nonce][]backend.Held) error {
	for nonce, held := range dead {
		b := lease.New(b.driver) // closing it leaves the store open
		if err := b.Adopt(nonce, held); err != nil {
			return err
		}
		err := b.Release(ctx, held)
		b.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Listen implements [backend.Backend]. It returns as soon as a holder has ended, too.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	holders := map[backend.Nonce]bool{}
	for _, l := range seen {
		if l.ObserveFor == backend.ExpiresInStore {
			holders[l.Holder.Nonce] = true
		}
	}
	results := make(chan error, 1+len(holders))
	go func() { results <- b.Backend.Listen(within, b.unmarked(seen)) }()
	for nonce := range holders {
		go func() { results <- b.store.untilEnded(within, nonce) }()
	}
	err := <-results
	cancel()
	for range holders {
		<-results
	}
	return err
}

// fates returns those of the other processes.
func (b *Backend) fates() map[backend.Nonce]fate {
	fates := b.store.fates()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(fates, b.nonce)
	return fates
}

// mark says of a lease whose holder lives that watching it does not free it.
func mark(l *backend.Lease, fates map[backend.Nonce]fate) fate {
	f := fates[l.Holder.Nonce]
	if f == lives {
		l.ObserveFor = backend.ExpiresInStore
	}
	return f
}

// Lock returns another descriptor of what shows that this process lives, or nil if it does not hold the
// election. No other process leads before every descriptor is closed or the election is released. So a
// process that works under the lease in the holder's place can inherit it, as the guard of "elect run" does. While it
// has it, all that the holder has not released stays with it. The caller closes the descriptor.
func (b *Backend) Lock(election string) (*os.File, error) {
	b.mu.Lock()
	held := b.held[election]
	b.mu.Unlock()
	if !held {
		return nil, nil
	}
	f, err := b.life.share()
	return f, fail("file: share a lock", err)
}

// Close implements [backend.Backend]. As long as leases may be held, because a leader's function may still be
// running, the process is shown to live until it ends.
func (b *Backend) Close() error {
	err := b.Backend.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.held) == 0 {
		b.life.end()
		b.store.unshare()
	}
	return err
}
