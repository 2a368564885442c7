//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/conformance"
)

// Lateness is how much a busy machine may add to the bound after a heal: three processes
// and a server share the machine with other histories.
const Lateness = 20 * time.Second

// Check returns the joined errors of all rules that a history breaks. Each quotes its rule.
func Check(h *History) error {
	entries := make(conformance.History, 0, len(h.Lines))
	for _, l := range h.Lines {
		entries = append(entries, l.Entry)
	}
	return errors.Join(conformance.Check(entries), checkLiveness(h), checkComplete(h))
}

// checkLiveness checks the time from each heal to the next leaders (L3). A machine that is too busy to run
// the harness is too busy to run servers, so ten times that time is added to the bound.
func checkLiveness(h *History) error {
	for _, heal := range h.Heals {
		late := Lateness + 10*heal.Stalled
		if took := heal.Led - heal.At; !heal.Live || took > h.Bound+late {
			return fmt.Errorf("L3 (after the last heal every election has a leader within a bound): "+
				"%v after the heal at %v, the bound is %v and %v for a busy machine",
				took.Round(time.Millisecond), heal.At, h.Bound, late)
		}
	}
	return nil
}

// checkComplete makes sure that the history has lines of all kinds.
func checkComplete(h *History) error {
	all := []conformance.EntryKind{Started, conformance.Granted, conformance.Renewed, conformance.Believed}
	for _, kind := range all {
		if !slices.ContainsFunc(h.Lines, func(l Line) bool { return l.Kind == kind }) {
			return fmt.Errorf("the history has no line of kind %q: nothing was checked", kind)
		}
	}
	if h.Writes == 0 {
		return errors.New("the history has no write: nothing was checked")
	}
	return nil
}

// markHits marks the faults that hit a leader.
func (h *History) markHits() {
	for _, b := range h.Bands {
		isProcess := slices.ContainsFunc(h.Lines, func(l Line) bool { return l.Process == b.Target })
		b.Bit = slices.ContainsFunc(h.Lines, func(l Line) bool {
			return b.proof(b, l) && (!isProcess || l.Process == b.Target)
		})
	}
}

// A proof reports whether a line shows that a fault hit a leader.
type proof func(b *Band, l Line) bool

// byEnd: a leadership ended during the fault or soon after.
func byEnd(b *Band, l Line) bool {
	return l.Kind == conformance.Believed && l.To >= b.From && l.To <= b.To+ttl
}

// byRenewal: a leader renewed during the fault.
func byRenewal(b *Band, l Line) bool {
	return l.Method == "Renew" && l.To >= b.From && l.From <= b.To
}

// byCall: a renewal failed or was slow, or a leadership ended.
func byCall(b *Band, l Line) bool {
	after := &Band{From: b.From, To: b.To + ttl}
	failed := l.Outcome != backend.Granted || l.To-l.From > ttl/8
	return byEnd(b, l) || failed && byRenewal(after, l)
}

// Bites counts the faults that hit a leader.
func (h *History) Bites() (n int) {
	for _, b := range h.Bands {
		if b.Bit {
			n++
		}
	}
	return n
}

// Gaps returns the times between two leaderships during which no process believed that it led.
func (h *History) Gaps() (gaps []time.Duration) {
	ended := map[string]time.Duration{}
	for _, l := range h.Lines { // in the order of their beginning
		if l.Kind != conformance.Believed {
			continue
		}
		if end, led := ended[l.Election]; led && l.From > end {
			gaps = append(gaps, l.From-end)
		}
		ended[l.Election] = max(ended[l.Election], l.To)
	}
	return gaps
}
