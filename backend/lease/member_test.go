package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// requests counts the requests of a process.
type requests struct {
	lease.Driver
	reads, writes, both int
}

func (d *requests) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	d.reads++
	return d.Driver.Read(ctx, keys)
}

func (d *requests) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	if d.writes++; len(changes) == 1 && changes[0].Read != nil {
		d.both++
	}
	return d.Driver.Write(ctx, epoch, wentBack, changes, verify)
}

// follows does for ten TTLs what the manager of a follower does, and returns the greatest age of the member that another
// process sees.
func (p *process) follows(leader *process, l backend.Lease) (oldest time.Duration) {
	p.w.Helper()
	for n := range 10 {
		if err := p.b.Announce(p.w.Context(), backend.Member{Candidate: p.me, TTL: ttl}); err != nil {
			p.w.Error(err)
		}
		for range 3 {
			leader.renews(l)
			time.Sleep(ttl / 6)
			if seen := p.sees("jobs"); seen.Holder.ID != leader.me.ID {
				p.w.Errorf("round %d: %+v", n, seen)
			}
			time.Sleep(ttl / 6)
		}
		members, err := leader.b.Members(p.w.Context(), "", 10)
		age := 5 * ttl
		for _, m := range members {
			if m.ID == p.me.ID {
				age = m.Age
			}
		}
		if oldest = max(oldest, age); err != nil {
			p.w.Error(err)
		}
	}
	return oldest
}

func TestAReadingAnnouncesAFollower(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		sent := &requests{Driver: b.wire}
		b.b = lease.New(sent)
		oldest := b.follows(a, l)
		w.want(sent.both >= 9 && sent.writes-sent.both <= 2, "%d of %d writes of ten TTLs read, too", sent.both, sent.writes)
		w.want(sent.reads+sent.writes <= 34, "30 readings have taken %d requests", sent.reads+sent.writes)
		w.want(oldest <= ttl*5/4, "the member looked as if it had been silent for %v", oldest)
	})
}

func TestAFollowerReadsThoughItCannotAnnounceItself(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		if err := b.b.Announce(w.Context(), backend.Member{Candidate: b.me, TTL: ttl}); err != nil {
			w.Fatal(err)
		}
		last, before := "", len(b.wire.history)
		b.wire.loses = request
		for range 9 {
			time.Sleep(ttl / 3)
			a.renews(l)
			now := b.sees("jobs").Version
			w.want(now != last, "a renewal was not read")
			last = now
		}
		w.want(len(b.wire.history) == before+1, "a reading has tried to write %d times", len(b.wire.history)-before)
		w.want(b.b.Announce(w.Context(), backend.Member{Candidate: b.me, TTL: ttl}) == nil, "Announce fails after the faults")
	})
}
