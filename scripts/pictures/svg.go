package main

import (
	"fmt"
	"html"
	"strings"
)

// A picture is an SVG in the making. Its colors follow the reader's scheme.
type picture struct {
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

func newPicture(width, height int, title string) *picture {
	return &picture{width: width, height: height, title: title}
}

func (p *picture) shape(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// text writes a text whose baseline is at y. anchor is start, middle or end.
func (p *picture) text(x, y float64, class, anchor, format string, args ...any) {
	p.shape(`<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, html.EscapeString(fmt.Sprintf(format, args...)))
}

func (p *picture) line(x1, y1, x2, y2 float64, class string) {
	p.shape(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

func (p *picture) dot(x, y, radius float64, class string) {
	p.shape(`<circle cx="%.1f" cy="%.1f" r="%g" class="%s"/>`, x, y, radius, class)
}

func (p *picture) String() string {
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%[1]d\" height=\"%[2]d\" role=\"img\" aria-label=%[3]q>\n<!-- made by scripts/pictures -->\n<title>%[3]s</title>\n%[4]s<rect x=\"0.5\" y=\"0.5\" width=\"%[5]d\" height=\"%[6]d\" rx=\"6\" class=\"bg\"/>\n%[7]s</svg>\n",
		p.width, p.height, html.EscapeString(p.title), style, p.width-1, p.height-1, p.Builder.String())
}
