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

// Lateness is what a busy machine may add to the bound after a heal: three processes
// and a server share it with other histories.
const Lateness = 20 * time.Second

// Check returns what in a history breaks a rule, joined, each quoting its rule.
func Check(h *History) error {
	entries := make(conformance.History, 0, len(h.Lines))
	for _, l := range h.Lines {
		entries = append(entries, l.Entry)
	}
	return errors.Join(conformance.Check(entries), linear(h), fenced(h), acknowledged(h), lively(h), complete(h))
}

// fenced replays the resource's log.
func fenced(h *History) error {
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

// acknowledged compares what writers were told with what the resource holds.
func acknowledged(h *History) error {
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

// lively checks the time from each heal to the next leaders. A machine that does not
// even let the harness run lets no servers run, so ten times that is added.
func lively(h *History) error {
	for _, heal := range h.Heals {
		late := Lateness + 10*heal.Stalled
		if took := heal.Led - heal.At; !heal.Live || took > h.Bound+late {
			return fmt.Errorf("L3 (after the last heal every election has a leader within a bound): %v after the heal at %v, the bound is %v and %v for a busy machine",
				took.Round(time.Millisecond), heal.At, h.Bound, late)
		}
	}
	return nil
}

// complete makes sure that the history says something.
func complete(h *History) error {
	seen := map[conformance.EntryKind]int{}
	for _, l := range h.Lines {
		seen[l.Kind]++
	}
	for _, kind := range []conformance.EntryKind{Started, Called, conformance.Granted, conformance.Believed, conformance.Told, conformance.Final, conformance.Ran, Wrote} {
		if seen[kind] == 0 {
			return fmt.Errorf("the history has no line of kind %q: nothing was checked", kind)
		}
	}
	if want := members * len(elections); seen[conformance.Final] != want {
		return fmt.Errorf("the history has %d final states, want %d", seen[conformance.Final], want)
	}
	return nil
}

// judgeBites says of each fault whether it did anything to a leader.
func (h *History) judgeBites() {
	for _, b := range h.Bands {
		until := b.To + h.TTL
		switch b.bite {
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

// endsBetween reports whether a leadership ended then.
func (h *History) endsBetween(from, to time.Duration) bool {
	return slices.ContainsFunc(h.Lines, func(l Line) bool { return l.Kind == conformance.Believed && l.To >= from && l.To <= to })
}

// callsBetween reports whether a process that led renewed then, and the call is as
// wanted. If target is a process, it must be that one.
func (h *History) callsBetween(from, to time.Duration, wanted func(Line) bool, target string) bool {
	isProcess := slices.ContainsFunc(h.Lines, func(l Line) bool { return l.Process == target })
	return slices.ContainsFunc(h.Lines, func(l Line) bool {
		return l.Kind == Called && l.Method == "Renew" && l.To >= from && l.From <= to && (!isProcess || l.Process == target) && wanted(l)
	})
}

// Bites counts the faults that did something to a leader.
func (h *History) Bites() (n int) {
	for _, b := range h.Bands {
		if b.Bit {
			n++
		}
	}
	return n
}

// Stale counts the writes that the cell without a fence accepted too late.
func (h *History) Stale() (n int) {
	for _, w := range h.Writes {
		if w.Stale {
			n++
		}
	}
	return n
}

// Beliefs returns the leaderships of one election as they were sampled, by their beginning.
func (h *History) Beliefs(election string) (list []Line) {
	for _, l := range h.Lines {
		if l.Kind == conformance.Believed && l.Election == election {
			list = append(list, l)
		}
	}
	slices.SortStableFunc(list, func(a, b Line) int { return cmp.Compare(a.From, b.From) })
	return list
}

// A Gap is a time in which nobody believed to lead.
type Gap struct {
	Election string
	From, To time.Duration
}

// Gaps returns the times without a leader, between two leaderships.
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

// Overlaps returns the times in which two believed to lead: what must not be.
func (h *History) Overlaps() (list []Gap) {
	for _, name := range elections {
		end := time.Duration(-1)
		for _, b := range h.Beliefs(name) {
			if b.From < end {
				list = append(list, Gap{name, b.From, min(end, b.To)})
			}
			end = max(end, b.To)
		}
	}
	return list
}
