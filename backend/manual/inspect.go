package manual

import (
	"context"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

var _ backend.Inspector = (*Backend)(nil)

// Inspect says who is named and by what, and explains the directory if there is one.
// What is wrong with who is named, [Backend.Check] says.
func (b *Backend) Inspect(ctx context.Context, ttl, renew time.Duration) (list []backend.Diagnostic, err error) {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return nil, fail("inspect", err)
	}
	a, err := b.assignment()
	if err != nil {
		return nil, fail("inspect", err)
	}
	add := func(warning bool, what, format string, args ...any) {
		list = append(list, backend.Diagnosticf(warning, what, format, args...))
	}
	by := "the configuration of this process"
	if b.file != "" {
		by = fmt.Sprintf("%s, version %d", b.file, a.Version)
	}
	switch a.Leader {
	case "":
		add(false, "named", "nobody, by %s", by)
	case Self:
		add(false, "named", "whoever runs with this configuration (%s)", Self)
	default:
		add(false, "named", "%q, by %s", a.Leader, by)
	}
	if n := len(a.Elections); n > 0 {
		add(false, "named", "for %d single elections it is said apart", n)
	}
	dir, ok := b.inner.(backend.Inspector)
	switch {
	case ok:
		found, err := dir.Inspect(ctx, ttl, renew)
		return append(list, found...), fail("inspect", err)
	case b.file != "":
		add(false, "named", "who is newly named watches that for %v before it leads: all processes must read one file, not copies of it", b.maxTTL)
	}
	return list, nil
}
