//go:build linux

package chaos

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// A Figure sums up all histories of one backend under one fault.
type Figure struct {
	Backend    string   `json:"backend"`
	Fault      string   `json:"fault"`
	Histories  int      `json:"histories"`        // in which a fault hit a leader; others are no evidence
	Idle       int      `json:"idle,omitempty"`   // in which no fault hit a leader
	Faults     int      `json:"faults"`           // injected
	Bites      int      `json:"bites"`            // faults that hit a leader
	Violations int      `json:"violations"`       // histories that broke a rule
	Late       int      `json:"unfenced"`         // late writes, as in [History]
	Seed       uint64   `json:"seed"`             // greatest one used
	Gaps       Gaps     `json:"gaps"`             // times without a leader
	Broken     []uint64 `json:"broken,omitempty"` // seeds of the histories that broke a rule
}

// Gaps counts times without a leader, in milliseconds, by buckets that are a twelfth of
// an octave wide. So the counts of many runs can be added.
type Gaps map[int]int

const perOctave = 12

// Add counts a gap.
func (g Gaps) Add(d time.Duration) {
	g[int(math.Round(math.Log2(max(float64(d)/1e6, 0.01))*perOctave))]++
}

// Count returns the number of gaps.
func (g Gaps) Count() (n int) {
	for _, c := range g {
		n += c
	}
	return n
}

// Quantile returns the q-quantile of the gaps, within three percent.
func (g Gaps) Quantile(q float64) time.Duration {
	remaining := int(math.Ceil(q * float64(g.Count())))
	for _, bucket := range sorted(g) {
		if remaining -= g[bucket]; remaining <= 0 {
			return time.Duration(math.Exp2(float64(bucket)/perOctave) * 1e6)
		}
	}
	return 0
}

// Figures are the rows of the table, by backend and fault.
type Figures []*Figure

// Of returns the row of a backend and a fault, and adds it if needed.
func (f *Figures) Of(backend, fault string) *Figure {
	for _, l := range *f {
		if l.Backend == backend && l.Fault == fault {
			return l
		}
	}
	l := &Figure{Backend: backend, Fault: fault, Gaps: Gaps{}}
	*f = append(*f, l)
	slices.SortFunc(*f, func(a, b *Figure) int {
		return cmp.Or(cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.Fault, b.Fault))
	})
	return l
}

// Add counts a history. broke reports whether it broke a rule.
func (f *Figures) Add(h *History, broke bool) {
	one := &Figure{Faults: len(h.Bands), Bites: h.Bites(), Late: h.Late, Seed: h.Seed, Gaps: Gaps{}}
	for _, g := range h.Gaps() {
		one.Gaps.Add(g)
	}
	switch {
	case broke: // counts even if no fault hit a leader
		one.Histories, one.Violations, one.Broken = 1, 1, []uint64{h.Seed}
	case one.Bites > 0:
		one.Histories = 1
	default:
		one.Idle = 1
	}
	f.Of(h.Backend, h.Fault).add(one)
}

// add adds what another row counts.
func (l *Figure) add(o *Figure) {
	l.Histories += o.Histories
	l.Idle += o.Idle
	l.Faults += o.Faults
	l.Bites += o.Bites
	l.Violations += o.Violations
	l.Late += o.Late
	l.Seed = max(l.Seed, o.Seed)
	l.Broken = append(l.Broken, o.Broken...)
	for bucket, n := range o.Gaps {
		l.Gaps[bucket] += n
	}
}

// ReadFigures reads a file of figures. A missing file has none.
func ReadFigures(name string) (f Figures, err error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		return nil, fmt.Errorf("figures: %w", err)
	}
	return f, nil
}

// Write replaces the file, with one line for each figure.
func (f Figures) Write(name string) error {
	var lines []string
	for _, l := range f {
		text, err := json.Marshal(l)
		if err != nil {
			return err
		}
		lines = append(lines, string(text))
	}

	text := "[\n" + strings.Join(lines, ",\n") + "\n]\n"
	next := name + ".new"
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(next, name)
}

// Totals returns one row for each backend.
func (f Figures) Totals() (totals Figures) {
	for _, l := range f {
		totals.Of(l.Backend, "all").add(l)
	}
	return totals
}
