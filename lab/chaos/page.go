//go:build linux

package chaos

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{"brief": brief}).Parse(pageText))

// WritePage writes one self-contained HTML page: the table, the distributions of the times
// without a leader, and timelines of histories.
func WritePage(w io.Writer, kept Figures, list []*History) error {
	slices.SortFunc(list, func(a, b *History) int { return strings.Compare(a.Name(), b.Name()) })
	p := pageData{Figures: kept, Totals: kept.Totals()}
	for _, t := range p.Totals {
		p.All.Histories += t.Histories
		p.All.Bites += t.Bites
		p.All.Violations += t.Violations
		p.All.Stale += t.Stale
		p.Charts = append(p.Charts, chartOf(t))
	}
	seen := map[string]bool{}
	for _, h := range list {
		err := Check(h)
		// Show one history of each kind, and all that broke a rule.
		if kind := h.Backend + "/" + h.Fault; err == nil && seen[kind] {
			continue
		} else if err == nil {
			seen[kind] = true
		}
		t := timelineOf(h, err)
		if err != nil {
			p.Broken = append(p.Broken, t)
		}
		if n := len(p.Backends); n == 0 || p.Backends[n-1].Name != h.Backend {
			p.Backends = append(p.Backends, backendPart{Name: h.Backend})
		}
		b := &p.Backends[len(p.Backends)-1]
		b.Timelines = append(b.Timelines, t)
	}
	return pageTemplate.Execute(w, p)
}

type pageData struct {
	Figures, Totals Figures
	All             Figure
	Charts          []chart
	Broken          []timeline
	Backends        []backendPart
}

type backendPart struct {
	Name      string
	Timelines []timeline
}

// A chart is a histogram of gaps, on a logarithmic scale.
type chart struct {
	Name          string
	Count         int
	P50, P99, Max time.Duration
	Bars          []bar
	Ticks         []mark
}

type bar struct {
	X, Y, W, H float64
	Title      string
}

type mark struct {
	X    float64
	Text string
}

const (
	chartWidth, chartHeight = 420.0, 90.0
	leastGap, mostGap       = 1.0, 30000.0 // in milliseconds
)

// gapX returns the position of a gap in a chart.
func gapX(ms float64) float64 {
	ms = min(max(ms, leastGap), mostGap)
	return chartWidth * math.Log2(ms/leastGap) / math.Log2(mostGap/leastGap)
}

func chartOf(f *Figure) chart {
	c := chart{Name: f.Backend, Count: f.Gaps.Count(), P50: f.Gaps.Quantile(.5), P99: f.Gaps.Quantile(.99), Max: f.Gaps.Quantile(1)}
	const wide = perOctave / 3 // buckets in a bar
	bars, most := map[int]int{}, 1
	for bucket, n := range f.Gaps {
		at := int(math.Floor(float64(bucket)/wide)) * wide
		bars[at] += n
		most = max(most, bars[at])
	}
	for _, at := range sortedInts(bars) {
		from, to := math.Exp2(float64(at)/perOctave), math.Exp2(float64(at+wide)/perOctave)
		b := bar{X: gapX(from), H: chartHeight * float64(bars[at]) / float64(most)}
		b.Y, b.W = chartHeight-b.H, max(gapX(to)-b.X-1, 2)
		b.Title = fmt.Sprintf("%d of about %s", bars[at], brief(time.Duration(from*1e6)))
		c.Bars = append(c.Bars, b)
	}
	for _, ms := range []float64{1, 10, 100, 1000, 10000} {
		c.Ticks = append(c.Ticks, mark{gapX(ms), brief(time.Duration(ms * 1e6))})
	}
	return c
}

// A timeline shows one history.
type timeline struct {
	Name          string
	Broke         string
	Bites, Faults int
	Stale, Gaps   int
	Longest       time.Duration
	Height        float64
	Ticks         []mark
	Bands         []band
	Lanes         []lane
	Red           []bar
}

type band struct {
	bar
	Bit   bool
	Label string
}

// A lane is one member in one election.
type lane struct {
	Y      float64
	Label  string
	Head   string // the election, above its first lane
	Member int
	Bars   []bar
	Dead   []mark // when the process was killed
	Late   []mark // late writes that the fenced cell refused
	Stale  []mark // late writes that the cell without a fence accepted
}

const (
	laneHeight, laneTop, laneLeft = 17.0, 46.0, 100.0
	timelineWidth                 = 1100.0
)

// A scale converts the times of a history to positions.
type scale struct {
	from, span time.Duration
}

func (s scale) x(at time.Duration) float64 {
	return laneLeft + (timelineWidth-laneLeft)*min(max(float64(at-s.from)/float64(s.span), 0), 1)
}

func (s scale) width(from, to time.Duration) float64 { return max(s.x(to)-s.x(from), 1.5) }

func timelineOf(h *History, broke error) timeline {
	t := timeline{Name: h.Name(), Bites: h.Bites(), Faults: len(h.Bands), Stale: h.Stale(), Gaps: len(h.Gaps())}
	if broke != nil {
		t.Broke = broke.Error()
	}
	for _, g := range h.Gaps() {
		t.Longest = max(t.Longest, g.To-g.From)
	}
	s := scale{h.From, max(h.To-h.From, time.Second)}
	y := laneTop
	for _, name := range elections {
		top := y
		for member := range members {
			t.Lanes = append(t.Lanes, laneOf(h, s, name, member, y))
			y += laneHeight
		}
		for _, o := range h.Overlaps() {
			if o.Election == name {
				t.Red = append(t.Red, bar{s.x(o.From), top, s.width(o.From, o.To), y - top, "two leaders for " + brief(o.To-o.From)})
			}
		}
		y += laneHeight
	}
	t.Height = y + 6
	end := 0.0 // of the last label
	for _, b := range h.Bands {
		bd := band{bar: bar{s.x(b.From), laneTop - 4, s.width(b.From, b.To), y - laneTop - laneHeight + 8,
			fmt.Sprintf("%s of %s for %s; it hit a leader: %v", b.Name, b.Target, brief(b.To-b.From), b.Bit)}, Bit: b.Bit}
		if bd.X >= end {
			bd.Label = b.Name
			end = bd.X + 7*float64(len(b.Name)) + 8
		}
		t.Bands = append(t.Bands, bd)
	}
	for at := time.Duration(0); at < s.span-time.Second; at += 5 * time.Second {
		t.Ticks = append(t.Ticks, mark{s.x(h.From + at), fmt.Sprintf("%d s", int(at.Seconds()))})
	}
	return t
}

// laneOf shows the beliefs, deaths and late writes of one member in one election.
func laneOf(h *History, s scale, name string, member int, y float64) lane {
	id := string(rune('a' + member))
	l := lane{Y: y, Label: id, Member: member}
	if member == 0 {
		l.Head = name
	}
	for _, b := range h.Beliefs(name) {
		if strings.HasPrefix(b.Process, id) {
			l.Bars = append(l.Bars, bar{s.x(b.From), y + 2, s.width(b.From, b.To), laneHeight - 4,
				fmt.Sprintf("%s believed that it led %s in term %d for %s", b.Process, name, b.Term, brief(b.To-b.From))})
		}
	}
	for _, d := range h.Lines {
		if d.Kind == Died && strings.HasPrefix(d.Process, id) && d.To < h.To-time.Second {
			l.Dead = append(l.Dead, mark{s.x(d.To), d.Process + " was killed, or ended"})
		}
	}
	for _, w := range h.Writes {
		if w.Election != name || !strings.HasPrefix(w.Process, id) {
			continue
		}
		at := mark{s.x(w.At), fmt.Sprintf("%s wrote in term %d, too late", w.Process, w.Term)}
		if w.Stale {
			l.Stale = append(l.Stale, at)
		} else if !w.Accepted {
			l.Late = append(l.Late, at)
		}
	}
	return l
}
