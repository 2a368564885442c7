package lease

import (
	"context"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// listedTTLs is for how many TTLs a member is listed after its session was written. Where only the clocks of
// members and readers tell when that was, they may differ by most of a TTL: a session is written at
// least every 5/4 TTL.
const listedTTLs = 2

// Announce implements [backend.Backend]. The session is the member's record: so a renewal that
// was written not long ago has announced it, too.
func (b *Backend) Announce(ctx context.Context, m backend.Member) error {
	if err := b.Enter(m.Nonce); err != nil {
		return err
	}
	unlock, err := b.lockSession(ctx)
	if err != nil {
		return b.fail("announce", err)
	}
	defer unlock()
	s := b.currentSession()
	first := s == nil || s.value.TTL == 0
	if err = b.announce(ctx, m); err == nil && first && b.keeper == nil {
		b.cleanUp(ctx)
	}
	return b.fail("announce", err)
}

// goneAfter is how long a process that is taken for gone has not written its session, by its own clock.
const goneAfter = time.Hour

// cleanUp deletes sessions of processes that are gone. One that was only cut off makes its session
// again. If cleanUp fails, the next process does it.
func (b *Backend) cleanUp(ctx context.Context) {
	page, err := b.driver.List(ctx, Sessions, "", 1000)
	if err != nil {
		return
	}

	var changes []Change
	for i := range page.Items {
		it := &page.Items[i]
		if s, ok := it.Value.(*Session); ok && b.age(it, s.At) > goneAfter && len(changes) < b.limits.Batch {
			changes = append(changes, Change{Put: []Put{{Over: *it}}})
		}
	}
	if changes != nil {
		b.driver.Write(ctx, page.Epoch, page.WentBack, changes, nil)
	}
}

func (b *Backend) announce(ctx context.Context, m backend.Member) error {
	stage := clean.Text(m.Stage, backend.MaxStage, false)
	for range rounds {
		s := b.currentSession()
		if s == nil {
			var err error
			if s, err = b.makeSession(ctx, m.Candidate); err != nil {
				return err
			}
		}
		next := s.value
		next.Address, next.Metadata = m.Address, m.Metadata
		next.Stage, next.Elections, next.TTL = stage, m.Elections, Span(m.TTL)
		if next.sameMember(&s.value) && !s.at.IsZero() && !b.due(s, m.TTL) {
			return nil
		}
		if written, _, err := b.writeSession(ctx, s, next, nil); written || err != nil {
			return err
		}
	}
	return errBusy
}

// due reports whether the session must be written again, by a renewal or by itself: the member is there.
func (b *Backend) due(s *session, ttl time.Duration) bool {
	age := b.limits.Now().Sub(s.at)
	return (age < 0 || age >= ttl/2) && (b.keeper == nil || !b.keeper.Kept())
}

func (s *Session) sameMember(o *Session) bool {
	return s.Address == o.Address && s.Metadata == o.Metadata &&
		s.Stage == o.Stage && s.Elections == o.Elections && s.TTL == o.TTL
}

// Ages are those of sessions whose age no store tells. Clocks show any time of day: that of the writer counts
// at the first reading. What has changed since another one is no older than that, and from then on this
// process measures. The zero value is ready.
type Ages struct {
	mu   sync.Mutex
	seen map[string]written
}

// written is when a session was, by its writer's clock and by that of this process, which has read it then.
type written struct{ there, here, read time.Time }

// Of returns the age of the session of this name, which says when it was written: that is ago by this clock.
func (a *Ages) Of(name string, there time.Time, ago time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == nil || len(a.seen) > 10_000 { // most are gone
		a.seen = make(map[string]written)
	}
	now, w := time.Now(), a.seen[name]
	if !w.there.Equal(there) {
		w.there, w.here = there, now.Add(-min(ago, now.Sub(w.read)))
	}
	w.read = now
	a.seen[name] = w
	return now.Sub(w.here)
}

// Members implements [backend.Backend].
func (b *Backend) Members(ctx context.Context, from string, limit int) (list []backend.Member, err error) {
	if err := b.Enter(""); err != nil {
		return nil, err
	}
	for len(list) < limit {
		page, err := b.driver.List(ctx, Sessions, from, limit)
		if err != nil {
			return nil, b.fail("members", err)
		}
		for i := range page.Items {
			it := &page.Items[i]
			from = it.Name + "\x00"
			s, ok := it.Value.(*Session)
			passable := clean.Text(it.Name, 64, false) == it.Name // as from of the next call
			if !ok || s.TTL == 0 || !passable {
				continue
			}
			nonce := backend.Nonce(it.Name)
			c := backend.Candidate{ID: s.ID, Nonce: nonce, Address: s.Address, Metadata: s.Metadata}
			m := clean.Member(backend.Member{
				Candidate: c, Stage: s.Stage, Elections: s.Elections,
				TTL: min(time.Duration(s.TTL), b.limits.MaxTTL), Age: b.age(it, s.At),
			})
			switch {
			case b.keeper != nil:
				m.Age = 0
			case it.Age < 0:
				m.Age = b.ages.Of(it.Name, s.At, m.Age)
			}
			if m.Age <= listedTTLs*max(m.TTL, b.limits.MinTTL) && len(list) < limit {
				list = append(list, m)
			}
		}
		if len(page.Items) < limit {
			break
		}
	}
	return list, nil
}
