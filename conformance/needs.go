package conformance

import (
	"github.com/go-election/go-election/backend"
)

// A need is what a store must claim, or the harness must be able to do, so that a case applies. Its text says
// what the store is, or the harness cannot do, if it is not so.
type need string

const (
	exclusive     need = "two candidates may hold a lease (Guarantees.Exclusive)"
	durableTerms  need = "the loss of a server may lose terms (Guarantees.DurableTerms)"
	pushes        need = "the store does not push (Guarantees.Push)"
	pushesAll     need = "Listen may miss changes, or the store does not push (Guarantees.Poll and Push)"
	byChallengers need = "not challengers decide that a lease has expired (Guarantees.Expiry)"
	marks         need = "the store keeps no marks of migrations (it is no Marker)"
	elsewhere     need = "the harness cannot lead a client to another store (Store.Elsewhere)"
)

// lacks returns why the case does not apply to a store, of which b is a client; "": it applies. A case is
// skipped only if b does not claim what it tests, or if the harness lacks the fault that it needs.
func (c Case) lacks(s Store, b backend.Backend) (why string) {
	if c.Fault != "" && s.Faults[c.Fault] == nil {
		return "the harness has no function for the fault " + c.Fault
	}

	g := b.Guarantees()
	_, marker := b.(backend.Marker)
	lacking := map[need]bool{
		exclusive:     !g.Exclusive,
		durableTerms:  !g.DurableTerms,
		pushes:        !g.Push,
		pushesAll:     !g.Push || g.Poll,
		byChallengers: g.Expiry != backend.ByChallengers,
		marks:         !marker,
		elsewhere:     s.Elsewhere == nil,
	}
	for _, n := range c.needs {
		if lacking[n] {
			return string(n)
		}
	}
	return ""
}
