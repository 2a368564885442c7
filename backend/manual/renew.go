package manual

import (
	"context"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// Renew extends leases if their holder is still named. It reads the file again.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if err := b.enter(ctx, held[0].Holder); err != nil {
		return nil, fail("renew", err)
	}
	a, err := b.assignment()
	if err != nil {
		return nil, fail("renew", err)
	}
	answers := make([]backend.Answer, len(held))
	var named []backend.Held
	var places []int // of named, in held
	for i, h := range held {
		id := a.named(h.Election)
		if b.isMe(id) {
			named, places = append(named, h), append(places, i)
			continue
		}
		now, err := b.readInner(ctx, h.Election)
		if err != nil {
			return answers, fail("renew", err)
		}
		answers[i] = backend.Answer{Lease: b.lease(now[0], a), Outcome: backend.Refused,
			Err: fmt.Errorf("manual: renew %q: version %d of the configuration names %q", h.Election, a.Version, id)}
	}
	if len(named) == 0 {
		return answers, nil
	}
	got, err := b.inner.Renew(ctx, named)
	for i, answer := range got {
		if answer.Outcome != backend.Unknown {
			answer.Lease = b.lease(answer.Lease, a)
		}
		answers[places[i]] = answer
	}
	return answers, fail("renew", err)
}
