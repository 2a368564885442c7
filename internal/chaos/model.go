//go:build linux

package chaos

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// A lock is the state of the model: the lock of one election. It may become free at any
// moment, because leases run out, so a grant is legal whoever holds it, if its term is
// greater than all before. A renewal is legal only in the very term that was granted
// last, and only until it was released.
//
// Outcomes that are not known are left out. They can have raised the term and ended a
// leadership, but an order without them that explains all known outcomes still does: known
// grants only demand a greater term, and known renewals that nothing came between.
type lock struct {
	term uint64
	held bool
}

// An op is a call of a backend about one election, whose outcome is known.
type op struct {
	method  string
	process string
	term    uint64
}

func (o op) String() string { return fmt.Sprintf("%s %s term %d", o.process, o.method, o.term) }

var lockModel = porcupine.Model{
	Init: func() any { return lock{} },
	Step: func(state, input, _ any) (bool, any) {
		s, o := state.(lock), input.(op)
		switch o.method {
		case "Acquire":
			return o.term > s.term, lock{o.term, true}
		case "Renew":
			return s.held && o.term == s.term, s
		default: // a release of a term that is over is none
			if o.term == s.term {
				s.held = false
			}
			return true, s
		}
	},
	DescribeOperation: func(input, _ any) string { return input.(op).String() },
}

// linear asks porcupine whether the calls are those of one lock.
func linear(h *History) error {
	ops := map[string][]porcupine.Operation{}
	clients := map[string]int{}
	for _, l := range h.Lines {
		if l.Kind != Called || l.Outcome != ok || l.Term == 0 || l.Method != "Acquire" && l.Method != "Renew" && l.Method != "Release" {
			continue
		}
		if _, known := clients[l.Process]; !known {
			clients[l.Process] = len(clients)
		}
		ops[l.Election] = append(ops[l.Election], porcupine.Operation{
			ClientId: clients[l.Process], Input: op{l.Method, l.Process, l.Term}, Call: int64(l.From), Return: int64(l.To),
		})
	}
	for _, name := range sorted(ops) {
		switch porcupine.CheckOperationsTimeout(lockModel, ops[name], time.Minute) {
		case porcupine.Illegal:
			return fmt.Errorf("S7 (grants, renewals and releases are those of one fenced lock): no order of the %d calls about %q explains their answers", len(ops[name]), name)
		case porcupine.Unknown:
			return fmt.Errorf("S7: porcupine did not finish with %d calls about %q within a minute", len(ops[name]), name)
		}
	}
	return nil
}
