package main

import (
	"fmt"
	"strconv"
	"strings"
)

// A moment is a line of the recording of electionshard's fleets: from then on the processes lead so many shards each.
type moment struct {
	second float64
	leads  []int
	moves  int    // since the beginning
	what   string // what was done
}

// readShares returns the moments of each store, in the order of the recording.
func readShares(recording string) (stores []string, of map[string][]moment, err error) {
	of = map[string][]moment{}
	for line := range strings.Lines(recording) {
		words := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 9)
		if len(words) < 8 {
			return nil, nil, fmt.Errorf("the recording has the line %q", line)
		}
		store, m := words[0], moment{}
		if m.second, err = strconv.ParseFloat(words[1], 64); err != nil {
			return nil, nil, err
		}
		numbers := make([]int, 6)
		for i := range numbers {
			if numbers[i], err = strconv.Atoi(words[2+i]); err != nil {
				return nil, nil, err
			}
		}
		m.leads, m.moves = numbers[:5], numbers[5]
		if len(words) == 9 {
			m.what = words[8]
		}
		if of[store] == nil {
			stores = append(stores, store)
		}
		of[store] = append(of[store], m)
	}
	return stores, of, nil
}

// colors are those of the five processes.
var colors = []struct {
	class   string
	opacity float64
}{{"a", 0.9}, {"b", 0.8}, {"a", 0.55}, {"b", 0.45}, {"a", 0.3}}

// shares draws for each store how many shards each of five processes leads, one above the other: a gap at the top are
// shards that nobody leads.
func shares(stores []string, of map[string][]moment) string {
	const left, width, top, panel, shard, total = 40.0, 700.0, 64.0, 230.0, 2.2, 64
	p := newPicture(int(left+width+60), int(panel*float64(len(stores)))+10, "Five processes share 64 shards while they are killed and restarted")
	longest := 0.0
	for _, moments := range of {
		longest = max(longest, moments[len(moments)-1].second)
	}
	for n, store := range stores {
		moments := of[store]
		end := moments[len(moments)-1]
		x := func(second float64) float64 { return left + second/longest*width }
		bottom := top + panel*float64(n) + shard*total
		y := func(shards int) float64 { return bottom - shard*float64(shards) }

		p.text(16, y(total)-38, "h", "start", "%s: 64 shards, %d moves", store, end.moves)
		p.text(left-8, y(total)+4, "d", "end", "64")
		p.text(left-8, y(0)+4, "d", "end", "0")
		below := make([]int, len(moments))
		for id := range end.leads {
			lower, upper := "", ""
			for i, m := range moments {
				lower = fmt.Sprintf("V%.1fH%.1f", y(below[i]), x(m.second)) + lower
				below[i] += m.leads[id]
				upper += fmt.Sprintf("H%.1fV%.1f", x(m.second), y(below[i]))
			}
			color := colors[id]
			p.shape(`<path d="M%.1f %.1f%s%sZ" class="%s" fill-opacity="%g" stroke-opacity="0"/>`, left, y(0), upper, lower, color.class, color.opacity)
			p.text(x(end.second)+8, y(below[len(moments)-1])+shard*float64(end.leads[id])/2+4, "", "start", "%c: %d", 'a'+id, end.leads[id])
		}
		for _, m := range moments {
			if m.what != "" {
				p.line(x(m.second), y(total)-6, x(m.second), y(0), "c")
				p.text(x(m.second), y(total)-12, "d", "middle", "%s", m.what)
			}
		}
		for second := 0.0; second <= end.second; second += 10 {
			p.text(x(second), y(0)+18, "d", "middle", "%g s", second)
		}
	}
	return p.String()
}
