package zookeeper

import (
	"context"
	"fmt"
)

// losses tell which records were ever deleted. Somebody may have deleted their parent
// with all of them, and it may have been made again since: so they tell which parent it
// is that the records were deleted of, and what its own parent, the root, has lost.
type deletionCounts struct {
	parent           int64 // its czxid
	records, parents int
}

// any reports whether any record was ever deleted, or may have been.
func (l deletionCounts) any() bool { return l.records+l.parents > 0 }

func (l deletionCounts) String() string { return fmt.Sprintf("%x-%d", l.parent, l.records) }

func (b *Backend) readDeletions(ctx context.Context, s *session) (l deletionCounts, err error) {
	of := [...]string{b.layout.recordParent, b.layout.root}
	var found [len(of)]reading
	var errs [len(of)]error
	inParallel(len(of), func(i int) { found[i], errs[i] = s.cache.readPlain(ctx, nodeData, of[i]) })
	lost := func(r reading) int { return int(r.stat.Cversion-r.stat.NumChildren) / 2 }
	return deletionCounts{found[0].stat.Czxid, lost(found[0]), lost(found[1])}, firstError(errs[:])
}
