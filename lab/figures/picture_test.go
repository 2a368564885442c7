package figures

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

// picture is where docs/bench.md has the picture of its tables.
const picture = "../../docs/images/gaps.svg"

var draw = flag.Bool("draw", false, "draw the picture again")

// The picture in the repository is what the tables say, and well-formed.
func TestThePictureIsDrawnFromThePages(t *testing.T) {
	bench, err1 := os.ReadFile("../../docs/bench.md")
	guard, err2 := os.ReadFile("../../docs/guard.md")
	rows, err3 := Read(string(bench), string(guard))
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	want := gaps(rows)
	for d := xml.NewDecoder(strings.NewReader(want)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if *draw {
		if err := os.WriteFile(picture, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(picture); err != nil || string(got) != want {
		t.Errorf("%s is not what docs/bench.md and docs/guard.md say (%v); run: make pictures", picture, err)
	}
}

// gaps draws for how long nobody led: for each way to elect the median as a dot, and a line to the
// worst case, on a scale from a millisecond to a minute and a half.
func gaps(rows []Row) string {
	const left, top, panel, between, step = 235.0, 62.0, 175.0, 20.0, 19.0
	const least, most = float64(time.Millisecond), float64(90 * time.Second)
	panels := []struct {
		title string
		of    func(Row) Gap
	}{
		{"crashed", func(r Row) Gap { return r.Crashed }},
		{"asked to end (SIGTERM)", func(r Row) Gap { return r.Asked }},
		{"asked, next in line dead", func(r Row) Gap { return r.NextDead }},
	}
	height := top + step*float64(len(rows)) + 30
	p := &drawing{width: int(left + 3*(panel+between)), height: int(height), title: "Time without a leader, on each store, beside what its users have today"}
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
			if g == (Gap{}) {
				continue
			}
			p.line(at(n, g.Median), y, at(n, g.Worst), y, class+" line")
			p.dot(at(n, g.Median), y, 4, class)
		}
		if g := r.Guarded; g != (Gap{}) {
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

// A drawing is an SVG in the making. Its colors follow the reader's scheme.
type drawing struct {
	strings.Builder
	width, height int
	title         string
}

// The classes of shapes and texts: a = ours, b = others, c = grid, d = quiet text.
const style = `<style>
svg { font: 12px ui-sans-serif, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
.mono { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre; }
.bg { fill: #ffffff; stroke: #d1d9e0; } .a { fill: #0969da; stroke: #0969da; } .b { fill: #bc4c00; stroke: #bc4c00; }
.c { stroke: #d1d9e0; } .d { fill: #59636e; } .line { fill: none; stroke-width: 2; } text.a, text.b { stroke: none; }
.h { font-weight: 600; } .end { fill: #cf222e; }
@media (prefers-color-scheme: dark) {
svg { fill: #f0f6fc; } .bg { fill: #0d1117; stroke: #3d444d; } .a { fill: #4493f8; stroke: #4493f8; } .b { fill: #f0883e; stroke: #f0883e; }
.c { stroke: #3d444d; } .d { fill: #9198a1; } .line { fill: none; } .end { fill: #ff7b72; }
}
</style>
`

func (p *drawing) shape(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// text writes a text whose baseline is at y. anchor is start, middle or end.
func (p *drawing) text(x, y float64, class, anchor, format string, args ...any) {
	p.shape(`<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, html.EscapeString(fmt.Sprintf(format, args...)))
}

func (p *drawing) line(x1, y1, x2, y2 float64, class string) {
	p.shape(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

func (p *drawing) dot(x, y, radius float64, class string) {
	p.shape(`<circle cx="%.1f" cy="%.1f" r="%g" class="%s"/>`, x, y, radius, class)
}

func (p *drawing) String() string {
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%[1]d\" height=\"%[2]d\" role=\"img\" aria-label=%[3]q>\n<!-- made by lab/figures -->\n<title>%[3]s</title>\n%[4]s<rect x=\"0.5\" y=\"0.5\" width=\"%[5]d\" height=\"%[6]d\" rx=\"6\" class=\"bg\"/>\n%[7]s</svg>\n",
		p.width, p.height, html.EscapeString(p.title), style, p.width-1, p.height-1, p.Builder.String())
}
