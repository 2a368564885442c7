package mysql

import (
	"testing"

	"github.com/go-election/go-election/internal/testbed"
)

// Many leases take several statements. If the context ends between two of them, the rest is
// still held, and Release must not return nil.
func TestAReleaseThatIsCutShortIsAnError(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		a, b := l.node(t, "a"), l.node(t, "b")
		testbed.ReleaseCutShort(t, a, a.me, 8*grantChunk, func(election string) bool { return b.observe(election).Vacant() })
	})
}
