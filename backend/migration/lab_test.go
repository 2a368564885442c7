package migration_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

func road(t testing.TB, o migration.Options) backend.Backend {
	t.Helper()
	b, err := migration.New(o)
	testbed.NoError(t, err)
	return b
}

// An Inner is a Backend whose store keeps marks.
type Inner interface {
	backend.Backend
	backend.Marker
}

// A named backend has a name of its own, as stores of different kinds do.
type named struct {
	Inner
	name string
}

func (n named) Guarantees() backend.Guarantees {
	g := n.Inner.Guarantees()
	if g.Name = n.name; n.name == "short" { // shorter than others allow
		g.MinTTL, g.MaxTTL = 1, 1
	}
	return g
}

// Stores are several stores, by name. The part of the name before the number is the kind.
type stores map[string]*memory.Store

func (s stores) open(name string) backend.Backend {
	if s[name] == nil {
		s[name] = memory.New()
	}
	return named{s[name].Backend().(Inner), strings.TrimRight(name, "0123456789")}
}

// A place is where a member stands: at a stage between two stores, or, without a stage, at the first store alone.
type place struct {
	stage    migration.Stage
	from, to string
	change   func(*migration.Options) // nil: none
}

// places are some stages of one road.
func places(from, to string, change func(*migration.Options), stages ...migration.Stage) (all []place) {
	for _, s := range stages {
		all = append(all, place{s, from, to, change})
	}
	return all
}

func alone(store string) place { return place{from: store} }

// unsealed sets Unsealed for members at stage to.
func unsealed(o *migration.Options) { o.Unsealed = o.Stage == migration.To }

func as(name string) func(*migration.Options) {
	return func(o *migration.Options) { o.ToName = name }
}

// at opens what a member at a place uses.
func (s stores) at(t *testing.T, p place) backend.Backend {
	if p.stage == "" {
		return s.open(p.from)
	}
	o := migration.Options{From: s.open(p.from), To: s.open(p.to), Stage: p.stage}
	if p.change != nil {
		p.change(&o)
	}
	return road(t, o)
}

// walk takes a fleet of one from place to place, and checks that it leads at each.
func (s stores) walk(t *testing.T, all ...place) {
	t.Helper()
	for _, p := range all {
		e, stop := campaign(t, s.at(t, p), "walker")
		time.Sleep(2 * time.Minute) // virtual
		if !e.Leading() {
			t.Errorf("from %s to %s, alone at stage %q: expected to lead, got %v", p.from, p.to, p.stage, e.Current())
		}
		stop()
	}
}

// campaign starts a manager that campaigns until stop is called.
func campaign(t *testing.T, b backend.Backend, id string, watch ...func(election.Event)) (e *election.Election, stop func()) {
	t.Helper()
	return campaignAs(t, b, election.Options{ID: id}, watch...)
}

func campaignAs(t *testing.T, b backend.Backend, o election.Options, watch ...func(election.Event)) (e *election.Election, stop func()) {
	t.Helper()
	e, stop = observeAs(t, b, o)
	for _, callback := range watch {
		e.Watch(callback)
	}
	testbed.NoError(t, e.Lead(nil))
	return e, stop
}

func observeAs(t *testing.T, b backend.Backend, o election.Options) (e *election.Election, stop func()) {
	t.Helper()
	m, err := election.New(b, o)
	testbed.NoError(t, err)
	e, err = m.Join("billing")
	testbed.NoError(t, err)
	return e, func() { m.Close(context.Background()) }
}

// errs are the errors in the events of a watcher.
type errs []string

func (e *errs) note(ev election.Event) {
	if ev.Err != nil {
		*e = append(*e, ev.Err.Error())
	}
}

func (e errs) String() string { return strings.Join(e, "; ") }
