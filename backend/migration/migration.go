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
)

// A Stage is how far a process has come on the way from one store to another.
// Deploy them in this order, or in the reverse order to go back; processes at
// two neighbouring stages may run beside each other, in any mixture.
type Stage string

const (
	From Stage = "from" // leads by the old store alone
	Both Stage = "both" // leads by both stores together
	To   Stage = "to"   // leads by the new store alone, once the old one is sealed
)

// Options says from where, to where, and how far. From, To and Stage are required.
type Options struct {
	// From is the store that elections leave, To the one that they move to. The
	// Backend owns both from now on: its Close closes them. At stage From, To is
	// not used and may be nil.
	From, To backend.Backend

	// FromName and ToName are what marks call the two stores, the same at every stage
	// and for all members: 1 to 40 printable ASCII characters without spaces. Default:
	// their kinds ([backend.Guarantees].Name), such as "mysql". They must differ. Give
	// names where elections come from, or have ever been in, another store of a kind:
	// who is still on the way between two others must not take this one for theirs.
	FromName, ToName string

	// Stage is this process's. A process keeps it as long as it lives.
	Stage Stage

	// Unsealed lets a process at stage To lead though the old store is not known
	// to be sealed. Set it only if you know that no process which elects by the
	// old store, alone or together with another, runs or ever will again: otherwise
	// there are two leaders. The word counts for who is given it, and is recorded in the
	// new store, so that members can go back: after that it counts no more.
	Unsealed bool
}

// A Backend holds elections in two stores at once. It implements
// [backend.Backend].
type Backend struct {
	old, new         backend.Backend
	oldName, newName string
	stage            Stage
	unsealed         bool
	guard            backend.SingleOwner

	mu      sync.Mutex
	written bool             // this process has written itself down in the new store
	pairs   map[string]*pair // by election
	stages  map[string]Stage // of members, by nonce
}

var _ backend.Backend = (*Backend)(nil)

// New checks o and returns a Backend. It does not talk to the stores. Errors are of
// class [backend.ErrInvalid].
func New(o Options) (*Backend, error) {
	fail := func(format string, args ...any) (*Backend, error) {
		return nil, fmt.Errorf("migration: %w: %s", backend.ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case o.Stage != From && o.Stage != Both && o.Stage != To:
		return fail(`stage is %.40q; it must be "from", "both" or "to"`, string(o.Stage))
	case o.From == nil:
		return fail("there is no store to move from")
	case o.To == nil && o.Stage != From:
		return fail("stage is %q, and there is no store to move to", o.Stage)
	case o.Unsealed && o.Stage != To:
		return fail("unsealed is for stage %q; stage is %q", To, o.Stage)
	}
	b := &Backend{old: o.From, new: o.To, stage: o.Stage, unsealed: o.Unsealed, pairs: map[string]*pair{}, stages: map[string]Stage{}}
	b.oldName = cmp.Or(o.FromName, o.From.Guarantees().Name)
	if b.newName = o.ToName; o.To != nil {
		b.newName = cmp.Or(o.ToName, o.To.Guarantees().Name)
	}
	for _, name := range []string{b.oldName, b.newName} {
		if len(name) > 40 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fail("a store is called %.50q; a name has at most 40 printable ASCII characters, and no spaces", name)
		}
	}
	if b.oldName == b.newName {
		return fail("both stores are called %q; give each a name (from_name, to_name)", b.oldName)
	}
	if g := b.old.Guarantees(); o.Stage == To && !o.Unsealed && !g.Marks {
		return fail("the store %q cannot be sealed, so nobody may lead at stage %q; stop all who elect by it, and set unsealed", g.Name, To)
	}
	if b.stage == From {
		return b, nil
	}
	if g := b.new.Guarantees(); !g.Marks && !o.Unsealed {
		return fail("the store %q cannot keep the record of a seal", g.Name)
	}
	o1, n1 := b.old.Guarantees(), b.new.Guarantees()
	if least, most := max(o1.MinTTL, n1.MinTTL), lesser(o1.MaxTTL, n1.MaxTTL); most != 0 && least > most {
		return fail("no TTL suits both stores: %q needs %v at least, and %v is the most for both", b.oldName, least, most)
	}
	return b, nil
}

// Name is how this backend is registered. Its section names two others:
//
//	backend: migration
//	migration: {from: etcd, to: mysql, stage: both}
const Name = "migration"

func init() {
	backend.Register(Name, func(ctx context.Context, decode func(any) error) (backend.Backend, error) {
		var c struct {
			From     backend.Named `yaml:"from"`
			To       backend.Named `yaml:"to"`
			FromName string        `yaml:"from_name"`
			ToName   string        `yaml:"to_name"`
			Stage    Stage         `yaml:"stage"`
			Unsealed bool          `yaml:"unsealed"`
		}
		if err := decode(&c); err != nil {
			return nil, err
		}
		for _, side := range []struct{ key, name string }{{"from", c.From.Name}, {"to", c.To.Name}} {
			if side.name == "" || side.name == Name {
				return nil, fmt.Errorf("migration: %w: %s is %q; it must be the name of a store", backend.ErrInvalid, side.key, side.name)
			}
		}
		if c.From.Name == c.To.Name {
			return nil, fmt.Errorf("migration: %w: from and to are both %q; each has one section, and is one store", backend.ErrInvalid, c.To.Name)
		}
		o := Options{Stage: c.Stage, Unsealed: c.Unsealed, FromName: c.FromName, ToName: c.ToName}
		var err error
		if o.From, err = c.From.Open(ctx); err != nil {
			return nil, err
		}
		if c.Stage != From {
			if o.To, err = c.To.Open(ctx); err != nil {
				return nil, errors.Join(err, o.From.Close())
			}
		}
		b, err := New(o)
		if err != nil {
			err = errors.Join(err, o.From.Close())
			if o.To != nil {
				err = errors.Join(err, o.To.Close())
			}
			return nil, err
		}
		return b, nil
	})
}

// lesser is the lesser of two limits, of which 0 is none.
func lesser(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// Stage returns the stage of this process.
func (b *Backend) Stage() Stage { return b.stage }

// Stores returns the two stores, for who wants to look at each: to is nil at stage
// From. They belong to the Backend.
func (b *Backend) Stores() (from, to backend.Backend) { return b.old, b.new }

// Names returns what marks call the two stores, for who reads those: see
// [Options].FromName. At stage From the second may be empty.
func (b *Backend) Names() (from, to string) { return b.oldName, b.newName }

// Location implements [backend.Located]: where the stores are that this process uses.
func (b *Backend) Location() string {
	where := "from " + strings.TrimSpace(b.oldName+" "+backend.Where(b.old))
	if b.stage != From {
		where += " to " + strings.TrimSpace(b.newName+" "+backend.Where(b.new))
	}
	return where
}

// Format prints the name of the type and nothing that may be secret, whatever the
// verb.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, "migration.Backend") }

// enter begins a call for the candidate with this nonce, or for nobody ("").
func (b *Backend) enter(ctx context.Context, nonce string) error {
	if err := b.guard.Enter(ctx, nonce); err != nil {
		return fmt.Errorf("migration: %w", err)
	}
	return nil
}

// Guarantees are those of the store that is used alone, or what both can promise
// together.
func (b *Backend) Guarantees() backend.Guarantees {
	g := b.old.Guarantees()
	if b.stage != From {
		n := b.new.Guarantees()
		g = backend.Guarantees{
			MinTTL: max(g.MinTTL, n.MinTTL), MaxTTL: lesser(g.MaxTTL, n.MaxTTL), MaxSession: lesser(g.MaxSession, n.MaxSession),
			ClockMargin: max(g.ClockMargin, n.ClockMargin), Expiry: g.Expiry, Takeover: max(g.Takeover, n.Takeover),
			Push: g.Push || n.Push, Poll: g.Poll || n.Poll || !g.Push || !n.Push,
			Exclusive: g.Exclusive || n.Exclusive, DurableTerms: n.DurableTerms,
		}
		if n.Expiry == backend.ByChallengers || b.stage == To {
			g.Expiry = n.Expiry
		}
		if b.stage == To { // by then the new store decides alone
			g.Exclusive = n.Exclusive
		}
	}
	g.Name, g.Marks = Name, false
	return g
}

// Close closes both stores.
func (b *Backend) Close() error {
	if !b.guard.Close() {
		return nil
	}
	err := b.old.Close()
	if b.new != nil {
		if e := b.new.Close(); err == nil {
			err = e
		}
	}
	return err
}

// Mark implements [backend.Backend]: a migration is not moved again.
func (b *Backend) Mark(context.Context, []backend.Held) ([]backend.Answer, error) {
	return nil, fmt.Errorf("migration: move: %w: one migration at a time", backend.ErrInvalid)
}
