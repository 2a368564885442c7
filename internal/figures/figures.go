// Package figures reads the tables of docs/bench.md and docs/guard.md, for the pictures that are drawn
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

	Killed   Gap // kill -9, with a TTL of 10 s
	Guarded  Gap // the same with a guard
	Asked    Gap // SIGTERM
	NextDead Gap // SIGTERM, when the next in line has just been killed

	// Requests are those of a leader and a follower together in a minute, by the number of
	// elections.
	Requests map[int]float64
}

const ours = "go-election"

// Elections are the numbers of elections for which requests are counted.
var Elections = []int{1, 10, 1000}

// Read returns the rows of both tables of docs/bench.md, with what docs/guard.md says of guards.
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
	return rows, addGuards(rows, guard)
}

func readStores(page string) ([]Row, error) {
	var rows []Row
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) != 10 || cells[0] == "store" || strings.HasPrefix(cells[0], "---") {
			continue
		}
		r := Row{Store: cells[0], With: cells[1], Ours: cells[1] == ours, Requests: map[int]float64{}}
		for i, to := range []*Gap{&r.Killed, &r.Asked, &r.NextDead} {
			var err error
			if *to, err = gap(cells[2+i]); err != nil {
				return nil, fmt.Errorf("figures: %s, %s: %w", r.Store, r.With, err)
			}
		}
		for i, n := range Elections {
			leader, follower, _ := strings.Cut(cells[5+i], ", ")
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

var guards = regexp.MustCompile(`(?m)^\| median, worst (.*)\|\n\|[-|]+\n(?:\|.*\n)*?\| with a guard (.*)\|$`)

// addGuards adds to the rows of this module what the table of the page has of their stores.
func addGuards(rows []Row, page string) error {
	m := guards.FindStringSubmatch(page)
	if m == nil {
		return fmt.Errorf("figures: the page has no table of guards")
	}
	stores, gaps := strings.Split(m[1], "|"), strings.Split(m[2], "|")
	for n, store := range stores {
		store = strings.TrimSpace(store)
		for i := range rows {
			if r := &rows[i]; store != "" && n < len(gaps) && r.Ours && strings.HasPrefix(r.Store, store) {
				var err error
				if r.Guarded, err = gap(strings.ReplaceAll(strings.TrimSpace(gaps[n]), " ms", "ms")); err != nil {
					return fmt.Errorf("figures: guard on %s: %w", store, err)
				}
			}
		}
	}
	return nil
}

var (
	killed = regexp.MustCompile(`(?m)^\| leader killed, TTL 10s(, polling every TTL/3)? \| (\w+) \| median ([\d.]+) TTL, worst ([\d.]+) TTL`)
	asked  = regexp.MustCompile(`(?m)^\| leader gets SIGTERM, TTL 3s(, polling every TTL/3)? \| (\w+) \| median ([\d.]+m?s), worst ([\d.]+m?s)`)
)

// readSQL returns the rows of MySQL and MariaDB, whose table is a list of measurements. Their
// leaders get SIGTERM with a TTL of 3 s.
func readSQL(page string) (rows []Row, err error) {
	at := map[string]int{}
	for _, m := range killed.FindAllStringSubmatch(page, -1) {
		r := Row{Store: m[2], With: strings.TrimPrefix(m[1], ", "), Ours: m[1] == ""}
		if r.Ours {
			r.With = ours
		}
		const ttl = 10 * time.Second
		if r.Killed, err = gap(m[3] + "s, " + m[4] + "s"); err != nil {
			return nil, err
		}
		r.Killed.Median *= ttl / time.Second
		r.Killed.Worst *= ttl / time.Second
		at[m[2]+m[1]] = len(rows)
		rows = append(rows, r)
	}
	for _, m := range asked.FindAllStringSubmatch(page, -1) {
		i, ok := at[m[2]+m[1]]
		if !ok {
			return nil, fmt.Errorf("figures: %s%s gets SIGTERM and is not killed", m[2], m[1])
		}
		if rows[i].Asked, err = gap(m[3] + ", " + m[4]); err != nil {
			return nil, err
		}
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
