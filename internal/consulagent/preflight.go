package consulagent

import (
	"context"
	"errors"
	"math"
	"strings"

	"github.com/hashicorp/consul/api"
)

// TryWrites tells for each set of keys whether the token may write them; nil: it may. It sends
// writes on condition of an index that no key has. Consul checks the rights of all operations
// before it tries any.
func (a *Agent) TryWrites(ctx context.Context, sets [][]string) []error {
	errs := make([]error, len(sets))
	for from := 0; from < len(sets); {
		var ops api.KVTxnOps
		var of []int // set by operation
		to := from
		for ; to < len(sets) && (to == from || len(ops)+len(sets[to]) <= MaxOps); to++ {
			for _, key := range sets[to] {
				ops, of = append(ops, &api.KVTxnOp{Verb: api.KVCAS, Key: key, Index: math.MaxInt64}), append(of, to)
			}
		}
		_, answer, err := a.Txn(ctx, ops)
		for i := from; i < to; i++ {
			errs[i] = err
		}
		if err == nil {
			for _, e := range answer.Errors {
				if strings.Contains(e.What, "ermission denied") && e.OpIndex >= 0 && e.OpIndex < len(of) {
					errs[of[e.OpIndex]] = errors.New(e.What)
				}
			}
		}
		from = to
	}
	return errs
}
