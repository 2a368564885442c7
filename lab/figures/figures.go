// Package figures reads the tables of docs/bench.md and docs/guard.md, for the picture that is drawn
// from them and for the test that README says the same.
package figures

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Gap is how long nobody led, over some rounds. Zero: not measured.
type Gap struct{ Median, Worst time.Duration }

// A Row is one way to elect on one store.
type Row struct {
	Store string // with its version, such as "etcd 3.7.3"
	With  string // "go-election", or a peer
	Ours  bool

	Crashed  Gap // kill -9, panic or out of memory, whichever takes longest, with a TTL of 10 s
	Guarded  Gap // the same with a guard
	Asked    Gap // SIGTERM
	NextDead Gap // SIGTERM, when the next in line has just been killed

	// Requests are those of a leader and a follower together in a minute, by the number of elections.
	Requests map[int]float64
}

const ours = "go-election"

// Elections are the numbers of elections for which requests are counted.
var Elections = []int{1, 10, 1000}

// Read returns the rows of both tables of docs/bench.md, with what docs/guard.md says of crashes.
func Read(bench, guard string) ([]Row, error) {
	rows, err := readStores(bench)
	if err != nil {
		return nil, err
	}
	sql, err := readSQL(bench)
	if err != nil {
		return nil, err
	}
	rows = append(rows, sql...)
	return rows, addCrashes(rows, guard)
}

// cellsOf returns the cells of a line of a table.
func cellsOf(line string) []string {
	cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

func readStores(page string) ([]Row, error) {
	var rows []Row
	for line := range strings.Lines(page) {
		cells := cellsOf(line)
		if len(cells) != 9 || cells[0] == "store" || strings.HasPrefix(cells[0], "---") {
			continue
		}
		r := Row{Store: cells[0], With: cells[1], Ours: cells[1] == ours, Requests: map[int]float64{}}
		for i, to := range []*Gap{&r.Asked, &r.NextDead} {
			var err error
			if *to, err = gap(cells[2+i]); err != nil {
				return nil, fmt.Errorf("figures: %s, %s: %w", r.Store, r.With, err)
			}
		}
		for i, n := range Elections {
			leader, follower, _ := strings.Cut(cells[4+i], ", ")
			a, err1 := strconv.ParseFloat(leader, 64)
			b, err2 := strconv.ParseFloat(follower, 64)
			if err1 == nil && err2 == nil { // else words, such as "none"
				r.Requests[n] = a + b
			}
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("figures: the page has no table of stores")
	}
	return rows, nil
}

// addCrashes adds to the rows what the table of the page has of crashes.
func addCrashes(rows []Row, page string) error {
	guarded := false
	for line := range strings.Lines(page) {
		cells := cellsOf(line)
		if len(cells) < 3 {
			continue
		}
		with, guard := strings.CutSuffix(cells[1], ", guard: true")
		for i := range rows {
			r := &rows[i]
			if r.With != with || cells[0] != r.Store && !strings.HasPrefix(cells[0], r.Store+" ") {
				continue
			}
			to := &r.Crashed
			if guard {
				to, guarded = &r.Guarded, true
			}
			for _, way := range cells[2:] {
				g, err := gap(way)
				if err != nil {
					return fmt.Errorf("figures: crashes on %s, %s: %w", cells[0], cells[1], err)
				}
				*to = Gap{max(to.Median, g.Median), max(to.Worst, g.Worst)}
			}
		}
	}
	for _, r := range rows {
		if r.Ours && r.Crashed == (Gap{}) || !guarded {
			return fmt.Errorf("figures: the page lacks crashes on %s", r.Store)
		}
	}
	return nil
}

var asked = regexp.MustCompile(`(?m)^\| leader gets SIGTERM, TTL 3s(, polling every TTL/3)? ` +
	`\| (\w+) \| median ([\d.]+m?s), worst ([\d.]+m?s)`)

// readSQL returns the rows of MySQL and MariaDB, whose table is a list of measurements. Their
// leaders get SIGTERM with a TTL of 3 s.
func readSQL(page string) (rows []Row, err error) {
	for _, m := range asked.FindAllStringSubmatch(page, -1) {
		r := Row{Store: m[2], With: strings.TrimPrefix(m[1], ", "), Ours: m[1] == ""}
		if r.Ours {
			r.With = ours
		}
		if r.Asked, err = gap(m[3] + ", " + m[4]); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("figures: the page has no rows of MySQL")
	}
	return rows, nil
}

// gap reads "8.2527s, 9.863s". An empty cell was not measured.
func gap(cell string) (g Gap, err error) {
	if cell == "" {
		return g, nil
	}
	median, worst, ok := strings.Cut(cell, ", ")
	if !ok {
		return g, fmt.Errorf("%q is not a median and a worst case", cell)
	}
	if g.Median, err = time.ParseDuration(median); err == nil {
		g.Worst, err = time.ParseDuration(worst)
	}
	return g, err
}
