package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// inOrder returns the leaderships sorted by their start.
func inOrder(history []leadership) []leadership {
	history = slices.Clone(history)
	slices.SortFunc(history, func(a, b leadership) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Term, b.Term)) })
	return history
}

// checkHistory returns an error if two members led at the same instant, or if terms did not grow.
func checkHistory(history []leadership) error {
	var last leadership // the latest to end so far
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
	if checkHistory(history) == nil {
		fmt.Printf("%d leaderships of %d processes. At every instant at most one process believed that it led, and terms grew.\n", len(history), len(processes))
	}
}
