package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/single"
)

// A side is one of the two stores.
type side = int

const (
	older side = 0
	newer side = 1
)

// A Backend elects by two stores at once. It implements [backend.Backend].
type Backend struct {
	stores   [2]backend.Backend // by side; the newer one may be nil at stage From
	names    [2]string          // what marks call them
	stage    Stage
	unsealed bool
	owner    single.Owner

	mu        sync.Mutex
	pairs     map[string]*pair       // by election
	needsBoth map[backend.Nonce]bool // holders of the old lease: see readMembers
	announced backend.Member         // this process, as it was announced last
	begun     uint64                 // how many readings have begun
}

var (
	_ backend.Preparer  = (*Backend)(nil)
	_ backend.Inspector = (*Backend)(nil)
)

// New checks o. It does not contact the stores. Its errors are [backend.ErrInvalid].
func New(o Options) (*Backend, error) {
	invalid := func(format string, args ...any) (*Backend, error) {
		return nil, fmt.Errorf("migration: %w: %s", backend.ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case o.Stage != From && o.Stage != Both && o.Stage != To:
		return invalid(`stage is %.40q; it must be "from", "both" or "to"`, string(o.Stage))
	case o.From == nil:
		return invalid("there is no store to move from")
	case o.To == nil && o.Stage != From:
		return invalid("stage is %q, and there is no store to move to", o.Stage)
	case o.Unsealed && o.Stage != To:
		return invalid("unsealed is for stage %q; stage is %q", To, o.Stage)
	}

	b := &Backend{
		stores: [2]backend.Backend{o.From, o.To}, names: [2]string{o.FromName, o.ToName},
		stage: o.Stage, unsealed: o.Unsealed,
		pairs: map[string]*pair{}, needsBoth: map[backend.Nonce]bool{},
	}
	for s, store := range b.stores {
		if store != nil {
			b.names[s] = cmp.Or(b.names[s], store.Guarantees().Name)
		}
		name := b.names[s]
		bad := func(r rune) bool { return r <= ' ' || r > '~' }
		if name == "" && store != nil || len(name) > 40 || strings.ContainsFunc(name, bad) {
			return invalid("the name %.50q: one has 1 to 40 printable ASCII characters, and no spaces", name)
		}
	}
	if b.names[older] == b.names[newer] {
		return invalid("both stores are called %q; give each a name (from_name, to_name)", b.names[older])
	}

	if o.Stage == To && !o.Unsealed && !keepsMarks(o.From) {
		return invalid("the store %q cannot be sealed, so nobody may lead at stage %q; "+
			"stop all processes that elect by it, and set unsealed", o.From.Guarantees().Name, To)
	}
	if o.Stage != From && !o.Unsealed && !keepsMarks(o.To) {
		return invalid("the store %q cannot keep the record of a seal", o.To.Guarantees().Name)
	}
	if g := b.Guarantees(); g.MaxTTL != 0 && g.MinTTL > g.MaxTTL {
		return invalid("no TTL suits both stores: one needs %v at least, and %v is the most for both",
			g.MinTTL, g.MaxTTL)
	}
	return b, nil
}

// Stores returns the two stores, for callers that inspect each of them. They belong to the
// Backend. At stage From, to is nil.
func (b *Backend) Stores() (from, to backend.Backend) { return b.stores[older], b.stores[newer] }

// Names returns what marks call the two stores: see [Options].FromName. At stage From the
// second name may be empty.
func (b *Backend) Names() (from, to string) { return b.names[older], b.names[newer] }

// Location implements [backend.Located]: the locations of the stores that this process uses.
func (b *Backend) Location() string {
	where := "from " + strings.TrimSpace(b.names[older]+" "+clean.Where(b.stores[older]))
	if b.stage != From {
		where += " to " + strings.TrimSpace(b.names[newer]+" "+clean.Where(b.stores[newer]))
	}
	return where
}

// Needed returns the stores by which a process leads at this stage.
func (b *Backend) Needed() []backend.Backend {
	switch b.stage {
	case From:
		return b.stores[:newer]
	case To:
		return b.stores[newer:]
	}
	return b.stores[:]
}

// both makes a call to each store that this process uses, at the same time. The errors are by side.
func (b *Backend) both(call func(side) error) (errs [2]error) {
	var calls sync.WaitGroup
	calls.Go(func() { errs[older] = call(older) })
	if b.stage != From {
		calls.Go(func() { errs[newer] = call(newer) })
	}
	calls.Wait()
	return errs
}

// Format prints the name of the type for every verb, and so no secret.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, "migration.Backend") }

// enter begins a call for the candidate with this nonce, or for any if that is empty.
func (b *Backend) enter(ctx context.Context, what string, nonce backend.Nonce) error {
	return wrap(what, b.owner.Enter(ctx, nonce))
}

// wrap says what was done when err came.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("migration: %s: %w", what, err)
}

// Guarantees are those of the store that is used alone, or of both together.
func (b *Backend) Guarantees() backend.Guarantees {
	g := b.stores[older].Guarantees()
	if b.stage != From {
		n := b.stores[newer].Guarantees()
		g.Poll = g.Poll || n.Poll || !g.Push || !n.Push
		g.Push = g.Push || n.Push
		g.MinTTL = max(g.MinTTL, n.MinTTL)
		if n.MaxTTL > 0 && (g.MaxTTL == 0 || n.MaxTTL < g.MaxTTL) {
			g.MaxTTL = n.MaxTTL
		}
		g.Exclusive, g.DurableTerms = g.Exclusive || n.Exclusive, n.DurableTerms
		if n.Expiry == backend.ByChallengers || b.stage == To {
			g.Expiry = n.Expiry
		}
		if b.stage == To { // the new store decides alone
			g.Exclusive = n.Exclusive
		}
	}
	g.Name = Name
	return g
}

// Prepare implements [backend.Preparer], for the stores that this stage uses.
func (b *Backend) Prepare(ctx context.Context) error {
	var errs []error
	for _, store := range b.Needed() {
		if p, ok := store.(backend.Preparer); ok {
			errs = append(errs, p.Prepare(ctx))
		}
	}
	return errors.Join(errs...)
}

// Inspect asks the stores by which this process leads, if they are Inspectors. Each diagnostic begins with
// the store's name. If one cannot be read, Inspect returns those of the other beside the error.
func (b *Backend) Inspect(ctx context.Context, ttl, renew time.Duration) ([]backend.Diagnostic, error) {
	if err := b.enter(ctx, "inspect", ""); err != nil {
		return nil, err
	}
	var list []backend.Diagnostic
	var errs []error
	for s, store := range b.stores {
		inspector, ok := store.(backend.Inspector)
		if !ok || b.stage == From && s == newer || b.stage == To && s == older {
			continue
		}
		found, err := inspector.Inspect(ctx, ttl, renew)
		for _, d := range found {
			d.Text = b.names[s] + ": " + d.Text
			list = append(list, d)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", b.names[s], err))
		}
	}
	return list, errors.Join(errs...)
}

// Close closes both stores.
func (b *Backend) Close() error {
	if !b.owner.Close() {
		return nil
	}
	err := b.stores[older].Close()
	if b.stores[newer] != nil {
		err = errors.Join(err, b.stores[newer].Close())
	}
	return err
}
