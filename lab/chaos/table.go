//go:build linux

package chaos

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// The marks between which WriteInto writes the totals.
const (
	figuresBegin = "<!-- written by make chaos -->\n"
	figuresEnd   = "<!-- until here -->\n"
)

// WriteInto writes the totals into a page of docs, between two marks.
func (f Figures) WriteInto(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), figuresBegin)
	_, after, ends := strings.Cut(rest, figuresEnd)
	if !found || !ends {
		return fmt.Errorf("%s has no place for the figures, %q to %q", name, figuresBegin, figuresEnd)
	}
	var b strings.Builder
	b.WriteString(before + figuresBegin)
	b.WriteString("| backend | histories | faults that hit a leader | histories that broke a rule | " +
		"no leader: median | longest |\n|---|---:|---:|---:|---:|---:|\n")
	for _, l := range f.Totals() {
		fmt.Fprintf(&b, "| %s | %d | %d of %d | %d | %s | %s |\n", l.Backend, l.Histories, l.Bites, l.Faults,
			l.Violations, brief(l.Gaps.Quantile(.5)), brief(l.Gaps.Quantile(1)))
	}
	for _, l := range f {
		if l.Violations > 0 {
			seeds := strings.Trim(fmt.Sprint(l.Broken), "[]")
			fmt.Fprintf(&b, "\n%s, %s: %d of %d histories broke a rule, seeds %s.\n",
				l.Backend, l.Fault, l.Violations, l.Histories, seeds)
		}
	}
	b.WriteString(figuresEnd + after)
	return os.WriteFile(name, []byte(b.String()), 0o644)
}

// brief formats a time with three digits or four.
func brief(d time.Duration) string {
	unit := time.Duration(1)
	for unit*1000 < d {
		unit *= 10
	}
	return d.Round(unit).String()
}
