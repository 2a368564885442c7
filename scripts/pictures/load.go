package main

import (
	"math"
	"strconv"

	"github.com/go-election/go-election/lab/figures"
)

// load draws how many requests a leader and a follower make, by the number of elections: a panel for
// each store, with a line for each way to elect.
func load(rows []figures.Row) string {
	const left, top, panel, between, tall = 70.0, 78.0, 160.0, 40.0, 200.0
	const least, most = 10.0, 100_000.0
	var stores []string
	of := map[string][]figures.Row{}
	for _, r := range rows {
		if len(r.Requests) < len(figures.Elections) {
			continue // only some numbers of elections, or without requests
		}
		if of[r.Store] == nil {
			stores = append(stores, r.Store)
		}
		of[r.Store] = append(of[r.Store], r)
	}
	p := newPicture(int(left+float64(len(stores))*(panel+between)), int(top+tall+50), "Requests a minute of an idle leader and follower, by the number of elections")
	p.text(16, 24, "h", "start", "Requests a minute, idle: a leader and a follower together")
	y := func(requests float64) float64 {
		return top + tall - math.Log(max(requests, least)/least)/math.Log(most/least)*tall
	}
	for n, store := range stores {
		x0 := left + float64(n)*(panel+between)
		x := func(elections int) float64 { return x0 + math.Log10(float64(elections))/3*panel }
		p.text(x0, 48, "h", "start", "%s", storeName(store))
		for tick := least; tick <= most; tick *= 10 {
			p.line(x0, y(tick), x0+panel, y(tick), "c")
			if n == 0 {
				p.text(x0-8, y(tick)+4, "d", "end", "%s", thousands(int(tick)))
			}
		}
		for _, elections := range figures.Elections {
			p.text(x(elections), top+tall+18, "d", "middle", "%s", thousands(elections))
		}
		p.text(x0+panel/2, top+tall+36, "d", "middle", "elections")
		others := 0
		for _, r := range of[store] {
			class, labelY := "a", top-14
			if !r.Ours {
				class, labelY = "b", top
				others++
				labelY += 14 * float64(others-1)
			}
			p.text(x0, labelY-2, class, "start", "%s", r.With)
			for i, elections := range figures.Elections {
				if i > 0 {
					before := figures.Elections[i-1]
					p.line(x(before), y(r.Requests[before]), x(elections), y(r.Requests[elections]), class+" line")
				}
				p.dot(x(elections), y(r.Requests[elections]), 3.5, class)
			}
		}
	}
	return p.String()
}

// thousands writes 100000 as "100,000".
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	rest := strconv.Itoa(n % 1000)
	for len(rest) < 3 {
		rest = "0" + rest
	}
	return thousands(n/1000) + "," + rest
}
