package conformance

import (
	"github.com/go-election/go-election/backend"
)

// facts decide whether a case applies.
type facts struct {
	backend.Guarantees
	store   Store
	backend backend.Backend
}

// A need is what a store must claim, or the harness must be able to do, so that a case applies.
type need struct {
	is      func(f facts) bool
	without string // says what the store is, or the harness cannot do, if it is not so
}

// The needs of cases.
var (
	exclusive    = need{func(f facts) bool { return f.Exclusive }, "two candidates may hold a lease (Guarantees.Exclusive)"}
	durableTerms = need{func(f facts) bool { return f.DurableTerms }, "the loss of a server may lose terms (Guarantees.DurableTerms)"}
	pushes       = need{func(f facts) bool { return f.Push }, "the store does not push (Guarantees.Push)"}
	pushesAll    = need{func(f facts) bool { return f.Push && !f.Poll }, "Listen may miss changes, or the store does not push (Guarantees.Poll, Guarantees.Push)"}

	byChallengers = need{
		func(f facts) bool { return f.Expiry == backend.ByChallengers },
		"not challengers decide that a lease has expired (Guarantees.Expiry)",
	}
	marks = need{
		func(f facts) bool { _, ok := f.backend.(backend.Marker); return ok },
		"the store keeps no marks of migrations (it is no Marker)",
	}
	elsewhere = need{
		func(f facts) bool { return f.store.Elsewhere != nil },
		"the harness cannot lead a client to another store (Store.Elsewhere)",
	}
)
