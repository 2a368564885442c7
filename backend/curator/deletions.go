package curator

import (
	"cmp"
	"context"
	"fmt"

	"github.com/go-election/go-election/internal/ensemble"
)

// deletionCounts tell which records were ever deleted. An operator may have deleted the
// records' parent with all of them, and the parent may have been created again. So the
// counts include which parent it is and how many children its own parent, the root, has
// lost.
type deletionCounts struct {
	parent           int64 // its czxid
	records, parents int
}

// any reports whether any record was ever deleted, or may have been.
func (counts deletionCounts) any() bool { return counts.records+counts.parents > 0 }

func (counts deletionCounts) String() string {
	return fmt.Sprintf("%x-%d", counts.parent, counts.records)
}

func (b *Backend) readDeletions(ctx context.Context, s *session) (counts deletionCounts, err error) {
	of := [...]string{b.layout.recordParent, b.layout.root}
	var found [len(of)]ensemble.Node
	var errs [len(of)]error
	ensemble.InParallel(len(of), func(i int) { found[i], errs[i] = s.ReadNode(ctx, ensemble.Data, of[i]) })
	lost := func(r ensemble.Node) int { return int(r.Stat.Cversion-r.Stat.NumChildren) / 2 }
	return deletionCounts{found[0].Stat.Czxid, lost(found[0]), lost(found[1])}, cmp.Or(errs[:]...)
}
