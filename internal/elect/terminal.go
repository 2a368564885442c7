package elect

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// show replaces what is on the terminal by text, cut to the size of the terminal.
func show(out io.Writer, text string) {
	columns, rows := 80, 24
	if f, ok := out.(*os.File); ok {
		if c, r, err := term.GetSize(int(f.Fd())); err == nil && c > 0 && r > 1 {
			columns, rows = c, r
		}
	}
	// Move home, erase the rest of each line, then everything below. Erasing the whole screen
	// first would flicker.
	fmt.Fprint(out, "\x1b[H", strings.ReplaceAll(fit(text, columns, rows-1), "\n", "\x1b[K\n"), "\x1b[J")
}

// fit cuts text to a number of columns and rows. Each line of text ends with a newline.
func fit(text string, columns, rows int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if more := len(lines) - rows; more > 0 {
		lines = append(lines[:rows-1], fmt.Sprintf("… %d more lines", more+1))
	}
	for i, line := range lines {
		used := 0
		for at, r := range line {
			if used += runeWidth(r); used > columns || used == columns && textWidth(line[at:]) > runeWidth(r) {
				lines[i] = line[:at] + "…"
				break
			}
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

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
