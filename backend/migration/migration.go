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

// A Backend elects by two stores at once. It implements [backend.Backend].
type Backend struct {
	old, new         backend.Backend
	oldName, newName string
	stage            Stage
	unsealed         bool
	owner            single.Owner

	mu        sync.Mutex
	announced bool                    // this process has a member record in the new store
	pairs     map[string]*pair        // by election
	stages    map[backend.Nonce]Stage // of members, by nonce
}

var _ interface {
	backend.Backend
	backend.Preparer
	backend.Inspector
} = (*Backend)(nil)

// New checks o and returns a Backend. It does not contact the stores. Its errors are
// [backend.ErrInvalid].
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
		old: o.From, new: o.To, stage: o.Stage, unsealed: o.Unsealed,
		pairs: map[string]*pair{}, stages: map[backend.Nonce]Stage{},
	}
	b.oldName = cmp.Or(o.FromName, o.From.Guarantees().Name)
	if b.newName = o.ToName; o.To != nil {
		b.newName = cmp.Or(o.ToName, o.To.Guarantees().Name)
	}
	for _, name := range []string{b.oldName, b.newName} {
		if len(name) > 40 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return invalid("a store is called %.50q; a name has at most 40 printable ASCII characters, and no spaces", name)
		}
	}
	if b.oldName == b.newName {
		return invalid("both stores are called %q; give each a name (from_name, to_name)", b.oldName)
	}

	if o.Stage == To && !o.Unsealed && !keepsMarks(b.old) {
		return invalid("the store %q cannot be sealed, so nobody may lead at stage %q; "+
			"stop all processes that elect by it, and set unsealed", b.old.Guarantees().Name, To)
	}
	if o.Stage != From && !o.Unsealed && !keepsMarks(b.new) {
		return invalid("the store %q cannot keep the record of a seal", b.new.Guarantees().Name)
	}
	if g := b.Guarantees(); g.MaxTTL != 0 && g.MinTTL > g.MaxTTL {
		return invalid("no TTL suits both stores: one needs %v at least, and %v is the most for both", g.MinTTL, g.MaxTTL)
	}
	return b, nil
}

// lesser returns the lesser of two limits. 0 is no limit.
func lesser(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// Stage returns the stage of this process.
func (b *Backend) Stage() Stage { return b.stage }

// Stores returns the two stores, for callers that inspect each of them. They belong to the
// Backend. At stage From, to is nil.
func (b *Backend) Stores() (from, to backend.Backend) { return b.old, b.new }

// Names returns what marks call the two stores: see [Options].FromName. At stage From the
// second name may be empty.
func (b *Backend) Names() (from, to string) { return b.oldName, b.newName }

// Location implements [backend.Located]: the locations of the stores that this process uses.
func (b *Backend) Location() string {
	where := "from " + strings.TrimSpace(b.oldName+" "+clean.Where(b.old))
	if b.stage != From {
		where += " to " + strings.TrimSpace(b.newName+" "+clean.Where(b.new))
	}
	return where
}

// needed returns the stores by which a process leads at this stage.
func (b *Backend) needed() []backend.Backend {
	switch b.stage {
	case From:
		return []backend.Backend{b.old}
	case To:
		return []backend.Backend{b.new}
	}
	return []backend.Backend{b.old, b.new}
}

// Format prints the name of the type for every verb, and so no secret.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, "migration.Backend") }

// enter begins a call for the candidate with this nonce, or for any if that is empty.
func (b *Backend) enter(ctx context.Context, nonce backend.Nonce) error {
	if err := b.owner.Enter(ctx, nonce); err != nil {
		return fmt.Errorf("migration: %w", err)
	}
	return nil
}

// Guarantees are those of the store that is used alone, or those that both stores can
// keep together.
func (b *Backend) Guarantees() backend.Guarantees {
	g := b.old.Guarantees()
	if b.stage != From {
		n := b.new.Guarantees()
		g.Poll = g.Poll || n.Poll || !g.Push || !n.Push
		g.Push = g.Push || n.Push
		g.MinTTL, g.MaxTTL = max(g.MinTTL, n.MinTTL), lesser(g.MaxTTL, n.MaxTTL)
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

// Close closes both stores.
func (b *Backend) Close() error {
	if !b.owner.Close() {
		return nil
	}
	if b.new == nil {
		return b.old.Close()
	}
	return errors.Join(b.old.Close(), b.new.Close())
}
