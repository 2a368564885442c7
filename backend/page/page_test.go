package page_test

import (
	"slices"
	"testing"

	"github.com/go-election/go-election/backend/page"
)

func TestAPageBeginsAtAKeyAndEndsAtALimit(t *testing.T) {
	for _, c := range []struct {
		from  string
		limit int
		want  []string
	}{
		{"", 9, []string{"B", "a", "a ", "aa", "é"}},
		{"a", 2, []string{"a", "a "}},
		{"a\x00", 2, []string{"a ", "aa"}},
		{"é", 1, []string{"é"}},
		{"ê", 1, nil},
		{"", 0, nil},
	} {
		all := []string{"aa", "é", "B", "a ", "a"}
		if got := page.Cut(all, c.from, c.limit, func(s string) string { return s }); !slices.Equal(got, c.want) {
			t.Errorf("up to %d from %q on: %q, want %q", c.limit, c.from, got, c.want)
		}
	}
}
