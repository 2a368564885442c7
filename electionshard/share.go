package electionshard

import (
	"cmp"
	"slices"
)

// A Member is a process that takes part.
type Member struct {
	ID     string
	Weight int // 1 to 1000
	Leads  int // shards that it leads, as far as this process knows
	Share  int // shards that it should lead; the shares of all members add up to the number of shards
}

// maxWeight limits what Options.Weight returns, which may come from another process's metadata.
const maxWeight = 1000

// setShares divides n shards among the members in proportion to their weights. Each share is the
// exact quotient rounded down or up. It is rounded up first for members who lead more than the
// quotient already, so that few shards move, then by the greatest remainder, then by id. All
// processes that see the same compute the same.
func setShares(members []Member, n int) {
	total, left := totalWeight(members), n
	order := make([]*Member, len(members))
	for i := range members {
		m := &members[i]
		m.Share = n * m.Weight / total
		left -= m.Share
		order[i] = m
	}

	slices.SortFunc(order, func(a, b *Member) int {
		return cmp.Or(
			cmp.Compare(keepsOne(b, n, total), keepsOne(a, n, total)),
			cmp.Compare(n*b.Weight%total, n*a.Weight%total),
			cmp.Compare(a.ID, b.ID),
		)
	})
	for _, m := range order[:left] {
		m.Share++
	}
}

// keepsOne is 1 if m, whose share is rounded down, leads more and its quotient is not exact; else 0.
func keepsOne(m *Member, n, total int) int {
	if m.Leads > m.Share && n*m.Weight%total > 0 {
		return 1
	}
	return 0
}

func totalWeight(members []Member) (total int) {
	for _, m := range members {
		total += m.Weight
	}
	return total
}
