package elect

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// A table is text in columns that are two cells apart. Package text/tabwriter does not do
// here: it counts characters, but East Asian characters take two cells of a terminal.
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
			widths[i] = max(widths[i], textWidth(c))
		}
	}
	var b strings.Builder
	for _, row := range t {
		for i, c := range row {
			b.WriteString(c)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-textWidth(c)+2))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// textWidth returns how many cells of a terminal s takes.
func textWidth(s string) (n int) {
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// runeWidth returns how many cells of a terminal r takes (unicode.org/reports/tr11).
func runeWidth(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}
