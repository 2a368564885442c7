//go:build linux

package chaos

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/go-election/go-election/backend"
)

// A lock is the state of the model: the lock of one election. It may become free at any
// moment, because leases expire. So a grant is legal regardless of the holder if its term
// is greater than all before. A renewal is legal only in the term that was granted last,
// and only until that term is released.
//
// Calls with unknown outcomes are left out. They may have raised the term and ended a
// leadership. But if an order of all calls explains the known outcomes, so does that order
// without them: a known grant only requires a greater term than before, and a known
// renewal only requires that no other grant and no release came between.
type lock struct {
	term uint64
	held bool
}

// An op is a call of a backend for one election, with a known outcome.
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
		default: // a release of an older term has no effect
			if o.term == s.term {
				s.held = false
			}
			return true, s
		}
	},
	DescribeOperation: func(input, _ any) string { return input.(op).String() },
}

// checkLock asks porcupine whether the calls are those of one lock (S7).
func checkLock(h *History) error {
	ops := map[string][]porcupine.Operation{}
	clients := map[string]int{}
	for _, l := range h.Lines {
		if l.Kind != Called || l.Outcome != backend.Granted || l.Term == 0 {
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
