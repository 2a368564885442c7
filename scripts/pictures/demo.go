package main

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// lastScreen returns the last picture that the demo drew, with what it printed below.
func lastScreen(output string) string {
	output = strings.ReplaceAll(output, "\r\n", "\n")
	if at := strings.LastIndex(output, "\x1b[H"); at >= 0 {
		output = output[at:]
	}
	return escapes.ReplaceAllString(output, "")
}

var row = regexp.MustCompile(`^  (\w+) +([█·]+)$`)

// demo draws a screen of the demo: a row for each process, and the lines below.
func demo(screen string) string {
	const left, top, cell, lineHeight = 16.0, 26.0, 7.9, 18.0
	lines := strings.Split(strings.TrimRight(screen, "\n"), "\n")
	p := newPicture(800, int(top+lineHeight*float64(len(lines))), "elect demo: five processes, one election. The leader is killed every two seconds, and another one leads within a fraction of a second.")
	for i, line := range lines {
		y := top + lineHeight*float64(i)
		if m := row.FindStringSubmatch(line); m != nil {
			p.text(left, y, "mono", "start", "%s", m[1])
			x := left + 60
			for len(m[2]) > 0 { // runs of one rune
				first, size := utf8.DecodeRuneInString(m[2])
				rest := strings.TrimLeft(m[2], string(first))
				width := float64((len(m[2])-len(rest))/size) * cell
				if first == '█' {
					p.shape(`<rect x="%.1f" y="%.1f" width="%.1f" height="12" rx="2" class="a"/>`, x, y-10, width)
				} else {
					p.line(x+2, y-4, x+width-2, y-4, "c")
				}
				x, m[2] = x+width, rest
			}
			continue
		}
		class := "mono"
		switch {
		case strings.Contains(line, "kill -9 of"), strings.Contains(line, "SIGTERM"):
			class += " end"
		case strings.Contains(line, " leads, term "):
			class += " a"
		case i == 0, i == len(lines)-1:
			class += " h"
		}
		p.text(left, y, class, "start", "%s", line)
	}
	return p.String()
}
