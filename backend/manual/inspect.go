package manual

import (
	"context"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

var _ backend.Inspector = (*Backend)(nil)

// Inspect says who is named and where, and explains the directory if there is one. It does
// not say whether an assignment is wrong: see [Backend.Check].
func (b *Backend) Inspect(ctx context.Context, ttl, renew time.Duration) (list []backend.Diagnostic, err error) {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return nil, fail("inspect", err)
	}
	a, err := b.assignment()
	if err != nil {
		return nil, fail("inspect", err)
	}
	add := func(format string, args ...any) {
		list = append(list, clean.Diagnosticf(false, "named", format, args...))
	}
	by := "the configuration of this process"
	if b.file != "" {
		by = fmt.Sprintf("%s, version %d", b.file, a.Version)
	}
	switch a.Leader {
	case "":
		add("nobody, by %s", by)
	case Self:
		add("every process with this configuration (%s)", Self)
	default:
		add("%q, by %s", a.Leader, by)
	}
	if n := len(a.Elections); n > 0 {
		add("elections with a leader of their own: %d", n)
	}
	dir, ok := b.inner.(backend.Inspector)
	switch {
	case ok:
		more, err := dir.Inspect(ctx, ttl, renew)
		return append(list, more...), fail("inspect", err)
	case b.file != "":
		add("a newly named process waits %v before it leads: all processes must read one file, not copies of it", b.maxTTL)
	}
	return list, nil
}
