package etcd

import (
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

// Many leases take several transactions. If the context ends between two of them, the rest is
// still held, and Release must not return nil.
func TestAReleaseThatIsCutShortIsAnError(t *testing.T) {
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	testbed.ReleaseCutShort(t, a, a.me, 10*maxByKey, func(election string) bool { return b.read(election).Vacant() })
}
