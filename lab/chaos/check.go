//go:build linux

package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/conformance"
)

// Lateness is how much a busy machine may add to the bound after a heal: three processes
// and a server share the machine with other histories.
const Lateness = 20 * time.Second

// Check returns the joined errors of all rules that a history breaks. Each error quotes
// its rule.
func Check(h *History) error {
	entries := make(conformance.History, 0, len(h.Lines))
	for _, l := range h.Lines {
		entries = append(entries, l.Entry)
	}
	return errors.Join(conformance.Check(entries), checkLock(h), checkFence(h), checkAcknowledged(h), checkLiveness(h), checkComplete(h))
}

// checkFence replays the resource's log (S9).
func checkFence(h *History) error {
	type win struct {
		process, election string
		term              uint64
	}
	sent := map[win]time.Duration{}
	for _, l := range h.Lines {
		if l.Kind == conformance.Granted {
			sent[win{l.Process, l.Election, l.Term}] = l.From
		}
	}
	greatest := map[string]uint64{}
	for _, w := range h.Writes {
		if !w.Accepted {
			continue
		}
		if w.Term < greatest[w.Election] {
			return fmt.Errorf("S9 (a fenced resource accepts no out-of-order write): %+v after term %d", w, greatest[w.Election])
		}
		greatest[w.Election] = w.Term
		if at, won := sent[win{w.Process, w.Election, w.Term}]; !won || at > w.At {
			return fmt.Errorf("S9 (each write is by a process to which its term had been granted): %+v", w)
		}
	}
	return nil
}

// checkAcknowledged compares the answers to writers with the writes in the resource (S9).
func checkAcknowledged(h *History) error {
	type key struct {
		process string
		number  int
	}
	there := map[key]Write{}
	for _, w := range h.Writes {
		k := key{w.Process, w.Number}
		if twin, twice := there[k]; twice {
			return fmt.Errorf("S9 (a write arrives once): %+v and %+v", w, twin)
		}
		there[k] = w
	}
	for _, l := range h.Lines {
		if l.Kind != Wrote || l.Outcome == unknown {
			continue
		}
		w, arrived := there[key{l.Process, l.Number}]
		if !arrived || w.Accepted != (l.Outcome == ok) || w.Term != l.Term || w.At < l.From || w.At > l.To {
			return fmt.Errorf("S9 (the resource holds what it has acknowledged): %v number %d was answered %s, and the resource has %+v", l.Entry, l.Number, l.Outcome, w)
		}
	}
	return nil
}

// checkLiveness checks the time from each heal to the next leaders (L3). While the machine
// is too busy to run the harness, it is too busy to run servers, so ten times that time is
// added to the bound.
func checkLiveness(h *History) error {
	for _, heal := range h.Heals {
		late := Lateness + 10*heal.Stalled
		if took := heal.Led - heal.At; !heal.Live || took > h.Bound+late {
			return fmt.Errorf("L3 (after the last heal every election has a leader within a bound): %v after the heal at %v, the bound is %v and %v for a busy machine",
				took.Round(time.Millisecond), heal.At, h.Bound, late)
		}
	}
	return nil
}

// checkComplete makes sure that the history has lines of all kinds.
func checkComplete(h *History) error {
	seen := map[conformance.EntryKind]int{}
	for _, l := range h.Lines {
		seen[l.Kind]++
	}
	for _, kind := range []conformance.EntryKind{Started, Called, conformance.Granted, conformance.Believed, conformance.Told, conformance.Ran, Wrote} {
		if seen[kind] == 0 {
			return fmt.Errorf("the history has no line of kind %q: nothing was checked", kind)
		}
	}
	return nil
}

// markHits marks the faults that hit a leader.
func (h *History) markHits() {
	for _, b := range h.Bands {
		until := b.To + h.TTL
		switch b.hitRule {
		case byTarget:
			b.Bit = b.hit
		case byEnd:
			b.Bit = h.endsBetween(b.From, until)
		case byCall:
			b.Bit = h.endsBetween(b.From, until) || h.callsBetween(b.From, until, func(l Line) bool {
				return l.Outcome != ok || l.To-l.From > h.TTL/8
			}, b.Target)
		case byRenewal:
			b.Bit = h.callsBetween(b.From, b.To, func(Line) bool { return true }, b.Target)
		}
	}
}

// endsBetween reports whether a leadership ended between the two times.
func (h *History) endsBetween(from, to time.Duration) bool {
	return slices.ContainsFunc(h.Lines, func(l Line) bool { return l.Kind == conformance.Believed && l.To >= from && l.To <= to })
}

// callsBetween reports whether a leader made a renewal between the two times for which
// wanted is true. If target is a process, only its renewals count.
func (h *History) callsBetween(from, to time.Duration, wanted func(Line) bool, target string) bool {
	isProcess := slices.ContainsFunc(h.Lines, func(l Line) bool { return l.Process == target })
	return slices.ContainsFunc(h.Lines, func(l Line) bool {
		return l.Kind == Called && l.Method == "Renew" && l.To >= from && l.From <= to && (!isProcess || l.Process == target) && wanted(l)
	})
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

// Stale counts the late writes that the cell without a fence accepted.
func (h *History) Stale() (n int) {
	for _, w := range h.Writes {
		if w.Stale {
			n++
		}
	}
	return n
}

// Beliefs returns the sampled leaderships of one election, by their beginning.
func (h *History) Beliefs(election string) (list []Line) {
	for _, l := range h.Lines {
		if l.Kind == conformance.Believed && l.Election == election {
			list = append(list, l)
		}
	}
	slices.SortStableFunc(list, func(a, b Line) int { return cmp.Compare(a.From, b.From) })
	return list
}

// A Gap is a time during which no process believed that it led.
type Gap struct {
	Election string
	From, To time.Duration
}

// Gaps returns the times without a leader between two leaderships.
func (h *History) Gaps() (gaps []Gap) {
	for _, name := range elections {
		end := time.Duration(-1)
		for _, b := range h.Beliefs(name) {
			if end >= 0 && b.From > end {
				gaps = append(gaps, Gap{name, end, b.From})
			}
			end = max(end, b.To)
		}
	}
	return gaps
}
