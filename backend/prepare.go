package backend

import "context"

// A Preparer is a Backend whose store needs something before the first candidate can bid,
// such as tables. A manager that campaigns calls Prepare before its first other call, and
// after an error before the next one. A manager that only observes never calls it.
type Preparer interface {
	// Prepare makes what is missing, if the account may make it. If it may not, Prepare
	// returns nil: the calls that follow say what an operator must do. An error is classed
	// like any other.
	Prepare(ctx context.Context) error
}
