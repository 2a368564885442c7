package main

import (
	"math"
	"strings"
	"time"

	"github.com/go-election/go-election/lab/figures"
)

// gaps draws for how long nobody led: for each way to elect the median as a dot, and a line to the
// worst case, on a scale from a millisecond to a minute and a half.
func gaps(rows []figures.Row) string {
	const left, top, panel, between, step = 235.0, 62.0, 175.0, 20.0, 19.0
	const least, most = float64(time.Millisecond), float64(90 * time.Second)
	panels := []struct {
		title string
		of    func(figures.Row) figures.Gap
	}{
		{"crashed", func(r figures.Row) figures.Gap { return r.Crashed }},
		{"asked to end (SIGTERM)", func(r figures.Row) figures.Gap { return r.Asked }},
		{"asked, next in line dead", func(r figures.Row) figures.Gap { return r.NextDead }},
	}
	height := top + step*float64(len(rows)) + 30
	p := newPicture(int(left+3*(panel+between)), int(height), "Time without a leader, on each store, beside what its users have today")
	p.text(16, 24, "h", "start", "Time without a leader")
	p.text(left, 24, "d", "start", "● median, line to the worst case, ○ with a guard; TTL 10 s (MySQL, MariaDB, SIGTERM: 3 s)")
	at := func(n int, d time.Duration) float64 {
		part := math.Log(max(float64(d), least)/least) / math.Log(most/least)
		return left + float64(n)*(panel+between) + part*panel
	}
	for n, x := range panels {
		p.text(at(n, time.Millisecond), 48, "h", "start", "%s", x.title)
		for _, tick := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second} {
			p.line(at(n, tick), top-6, at(n, tick), height-26, "c")
			if tick != 10*time.Millisecond && tick != time.Second { // there is no room
				p.text(at(n, tick), height-12, "d", "middle", "%s", short(tick))
			}
		}
	}
	for i, r := range rows {
		y := top + step*(float64(i)+0.5)
		class := "b"
		if r.Ours {
			class = "a"
		}
		if i == 0 || r.Store != rows[i-1].Store {
			p.text(16, y+4, "", "start", "%s", storeName(r.Store))
			if i > 0 {
				p.line(8, y-step/2, left-10, y-step/2, "c")
			}
		}
		p.text(left-14, y+4, class, "end", "%s", r.With)
		for n, x := range panels {
			g := x.of(r)
			if g == (figures.Gap{}) {
				continue
			}
			p.line(at(n, g.Median), y, at(n, g.Worst), y, class+" line")
			p.dot(at(n, g.Median), y, 4, class)
		}
		if g := r.Guarded; g != (figures.Gap{}) {
			p.line(at(0, g.Median)+4, y, at(0, g.Worst), y, class+" line")
			p.dot(at(0, g.Median), y, 4, class+" line")
		}
	}
	return p.String()
}

// short is the text of a round duration: "10 ms".
func short(d time.Duration) string {
	text := d.String()
	unit := strings.TrimLeft(text, "0123456789")
	return strings.TrimSuffix(text, unit) + " " + unit
}

// storeName leaves out the last part of a version, which the page has.
func storeName(store string) string {
	name, version, ok := strings.Cut(store, " ")
	if parts := strings.Split(version, "."); ok && len(parts) > 1 {
		return name + " " + parts[0] + "." + parts[1]
	}
	return name + strings.TrimRight(" "+version, " ")
}
