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
