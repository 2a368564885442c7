package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// show puts text where the last one stood on a terminal, as much of it as there is
// room for.
func show(out io.Writer, text string) {
	columns, rows := 80, 24
	if f, ok := out.(*os.File); ok {
		if c, r, err := term.GetSize(int(f.Fd())); err == nil && c > 0 && r > 1 {
			columns, rows = c, r
		}
	}
	// Home, each line to its end, and what is below: nothing is blank in between.
	fmt.Fprint(out, "\x1b[H", strings.ReplaceAll(fit(text, columns, rows-1), "\n", "\x1b[K\n"), "\x1b[J")
}

// fit cuts text, all of whose lines end, to a number of columns and of rows.
func fit(text string, columns, rows int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if more := len(lines) - rows; more > 0 {
		lines = append(lines[:rows-1], fmt.Sprintf("… %d more lines", more+1))
	}
	for i, line := range lines {
		taken := 0
		for at, r := range line {
			if taken += places(r); taken > columns || taken == columns && extent(line[at:]) > places(r) {
				lines[i] = line[:at] + "…"
				break
			}
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// A table is text in columns, two places apart. Package text/tabwriter counts
// characters, but East Asian ones take two places of a terminal.
type table [][]string

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	*t = append(*t, row)
}

func (t table) String() string {
	var widths []int
	for _, row := range t {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], extent(c))
		}
	}
	var b strings.Builder
	for _, row := range t {
		for i, c := range row {
			b.WriteString(c)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-extent(c)+2))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// extent is how many places text takes.
func extent(s string) (n int) {
	for _, r := range s {
		n += places(r)
	}
	return n
}

// places is how many places of a terminal a character takes (unicode.org/reports/tr11).
func places(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}
