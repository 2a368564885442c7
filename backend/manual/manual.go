package manual

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/file"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/single"
)

// A Backend grants leases to the candidates that are named. It implements
// [backend.Backend].
type Backend struct {
	inner   backend.Backend // keeps the leaderships
	private bool            // inner belongs to this manager alone
	inDir   bool            // inner is a directory, where the kernel allows one leader
	file    string
	maxTTL  time.Duration

	owner  single.Owner
	fileMu sync.Mutex // held from reading the file until it was compared with the last one
	text   []byte     // of the last file that was accepted; guarded by fileMu

	mu         sync.Mutex
	id         string            // of the candidate that this Backend serves, once known
	current    assignment        // from the options, or as last read
	ledVersion map[string]uint64 // the version under which this process has led each election
}

var _ backend.Backend = (*Backend)(nil)

// Open checks o and returns a Backend. It does not read the file. All errors are
// ErrInvalid, except those of package backend/file about Dir.
func Open(o Options) (*Backend, error) {
	if o.MaxTTL == 0 {
		o.MaxTTL = defaultMaxTTL
	}
	b := &Backend{file: o.File, maxTTL: o.MaxTTL, ledVersion: map[string]uint64{}}
	invalid := func(format string, args ...any) (*Backend, error) {
		return nil, fmt.Errorf("manual: %w: %s", backend.ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case o.File != "" && (o.Leader != "" || len(o.Leaders) > 0):
		return invalid("both a file and leaders are given; set one of them")
	case o.File == "" && o.Leader == "" && len(o.Leaders) == 0:
		return invalid("nobody is named: set leader (an id, or self), leaders or file")
	case o.File != "" && !filepath.IsAbs(o.File):
		return invalid("the file is %q, a relative path: processes started in different places would each read another; give an absolute one", o.File)
	case o.Dir != "" && o.Store != nil:
		return invalid("both a directory and a store are given; set one of them")
	case o.MaxTTL < minTTL || o.MaxTTL > greatestTTL:
		return invalid("the greatest TTL is %v; it must be from %v to %v", o.MaxTTL, minTTL, greatestTTL)
	}
	if o.File == "" {
		b.current = assignment{Version: 1, Leader: o.Leader, Elections: o.Leaders}.copy()
		if err := b.current.check(true); err != nil {
			return nil, fmt.Errorf("manual: %w", err)
		}
	}
	switch {
	case o.Dir != "":
		inner, err := file.Open(file.Options{Dir: o.Dir, MaxTTL: o.MaxTTL})
		if err != nil {
			return nil, fmt.Errorf("manual: %w", err)
		}
		b.inner, b.inDir = inner, true
	case o.Store != nil:
		b.inner = o.Store.Backend()
	default:
		b.inner, b.private = memory.New().Backend(), true
	}
	return b, nil
}

// Location implements [backend.Located]: the file that names the leader, else the directory.
func (b *Backend) Location() string { return cmp.Or(b.file, clean.Where(b.inner)) }

// Guarantees says what a configuration can promise.
func (b *Backend) Guarantees() backend.Guarantees {
	g := b.inner.Guarantees()
	g.Name = Name
	if g.Expiry == backend.ByKernel { // with Dir
		return g
	}
	g.Expiry, g.Exclusive, g.DurableTerms = backend.ByOperator, false, false
	if b.file != "" {
		g.MinTTL, g.MaxTTL = minTTL, b.maxTTL
	}
	return g
}

// Preflight implements [backend.Preflighter]. It checks that leaderships can be written,
// whoever is named.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	errs := make([]error, len(bids))
	err := fail("preflight", b.enter(ctx, bids[0].Candidate))
	inner, ok := b.inner.(backend.Preflighter)
	if ok && err == nil {
		errs = inner.Preflight(ctx, bids)
	}
	for i := range errs {
		errs[i] = errors.Join(err, fail("preflight", errs[i]))
	}
	return errs
}

// Release ends leases, whoever is named.
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return fail("release", err)
	}
	return fail("release", b.inner.Release(ctx, held))
}

// Request writes requests. They do not change who is named.
func (b *Backend) Request(ctx context.Context, requests []backend.Request) error {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return fail("request", err)
	}
	return fail("request", b.inner.Request(ctx, requests))
}

// List returns what is kept of elections that were led.
func (b *Backend) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return nil, fail("list", err)
	}
	list, err := b.inner.List(ctx, from, limit)
	return list, fail("list", err)
}

// Announce writes this process's member record. Other processes see it only with Dir.
func (b *Backend) Announce(ctx context.Context, m backend.Member) error {
	if err := b.enter(ctx, m.Candidate); err != nil {
		return fail("announce", err)
	}
	return fail("announce", b.inner.Announce(ctx, m))
}

// Members returns the members that this process can see.
func (b *Backend) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return nil, fail("members", err)
	}
	list, err := b.inner.Members(ctx, from, limit)
	return list, fail("members", err)
}

// Close frees what was opened. It does not release leases.
func (b *Backend) Close() error {
	b.owner.Close()
	return fail("close", b.inner.Close())
}

// enter begins a call for a candidate, or for any if c is zero.
func (b *Backend) enter(ctx context.Context, c backend.Candidate) error {
	err := b.owner.Enter(ctx, c.Nonce)
	if err == nil && c.Nonce != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.id = c.ID
	}
	return err
}

func fail(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("manual: %s: %w", what, err)
}
