package elect

import "testing"

func TestTableColumnsAreAligned(t *testing.T) {
	var w table
	w.row("ELECTION", "LEADER", "TERM")
	w.row("billing", "host-2", 7)
	w.row("选主", "主机-甲", 12)
	w.row("élection", "", 3)
	const want = `ELECTION  LEADER   TERM
billing   host-2   7
选主      主机-甲  12
élection           3
`
	if got := w.String(); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestAViewFitsTheTerminal(t *testing.T) {
	for _, c := range []struct {
		text          string
		columns, rows int
		want          string
	}{
		{"one\ntwo\n", 3, 2, "one\ntwo\n"},
		{"one\ntwo\nthree\nfour\n", 14, 3, "one\ntwo\n… 2 more lines\n"},
		{"abcdef\n", 5, 1, "abcd…\n"},
		{"abcdef\n", 6, 1, "abcdef\n"},
		{"选主选主\n", 7, 1, "选主选…\n"},
		{"选主选主\n", 6, 1, "选主…\n"},
		{"选主选主\n", 8, 1, "选主选主\n"},
		{"e\u0301e\u0301\n", 2, 1, "e\u0301e\u0301\n"},
		{"", 5, 5, "\n"},
	} {
		if got := fit(c.text, c.columns, c.rows); got != c.want {
			t.Errorf("%q in %d columns and %d rows: %q; want %q", c.text, c.columns, c.rows, got, c.want)
		}
	}
}
