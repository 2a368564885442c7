package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// inOrder returns leaderships in the order in which they began.
func inOrder(history []leadership) []leadership {
	history = slices.Clone(history)
	slices.SortFunc(history, func(a, b leadership) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Term, b.Term)) })
	return history
}

// judge returns an error if at any instant two members believed to lead, or if terms did
// not grow.
func judge(history []leadership) error {
	var last leadership // of those so far, the one that ended last
	for _, r := range inOrder(history) {
		switch {
		case r.From.Before(last.To):
			return fmt.Errorf("TWO LEADERS: %s, at stage %q, led in term %d for %v longer, after %s, at stage %q, had begun in term %d",
				last.ID, last.Stage, last.Term, last.To.Sub(r.From), r.ID, r.Stage, r.Term)
		case r.Term <= last.Term:
			return fmt.Errorf("TERMS WENT BACK: %s led in term %d after %s in term %d", r.ID, r.Term, last.ID, last.Term)
		}
		last = r
	}
	return nil
}

// show prints a history.
func show(history []leadership, began time.Time) {
	processes := map[string]bool{}
	for _, r := range inOrder(history) {
		processes[r.ID] = true
		fmt.Printf("%7.3fs – %7.3fs  %-4s at %-4s  term %d\n", r.From.Sub(began.Round(0)).Seconds(), r.To.Sub(began.Round(0)).Seconds(), r.ID, r.Stage, r.Term)
	}
	if judge(history) == nil {
		fmt.Printf("%d leaderships of %d processes. At every instant at most one of them believed to lead, and terms grew.\n", len(history), len(processes))
	}
}
