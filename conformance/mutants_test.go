package conformance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// A mutant is memory with one mistake, and the case that must find the mistake.
type mutant struct {
	name   string
	mutate func(*faulty)
	killer string // title of a case
}

var mutants = []mutant{
	{name: "the id identifies the holder", killer: "A2 a held lease is its holder's alone",
		mutate: bids(func(f *faulty, b *backend.Bid) {
			if now := f.now(b.Election); now.Holder.ID == b.Candidate.ID {
				b.Expected = now
			}
		})},
	{name: "a record that names the bidder is a grant", killer: "A5 the bidder's own leftover is granted again", mutate: func(f *faulty) {
		f.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
			if now := f.now(bids[0].Election); now.Holder.Nonce == bids[0].Candidate.Nonce {
				return []backend.Answer{{Lease: now, Outcome: backend.Granted, ValidFor: bids[0].TTL}}, nil
			}
			return f.Backend.Acquire(ctx, bids)
		}
	}},
	{name: "a bid ignores Expected", killer: "A3 a bid succeeds only on the expected lease",
		mutate: bids(func(f *faulty, b *backend.Bid) { b.Expected = f.now(b.Election) })},
	{name: "a bid compares only the term", killer: "A3 a bid succeeds only on the expected lease",
		mutate: bids(func(f *faulty, b *backend.Bid) {
			if now := f.now(b.Election); now.Term == b.Expected.Term {
				b.Expected = now
			}
		})},
	{name: "MinTerm is ignored", killer: "S4 terms exceed MinTerm",
		mutate: bids(func(_ *faulty, b *backend.Bid) { b.MinTerm = 0 })},
	{name: "terms are a year ahead of the clock", killer: "S4 terms grow through a thousand leaderships",
		mutate: bids(func(_ *faulty, b *backend.Bid) {
			b.MinTerm = max(b.MinTerm, uint64(time.Now().AddDate(1, 0, 0).UnixMicro()))
		})},
	{name: "answers are in another order", killer: "A8 answers are in the order of the bids", mutate: func(f *faulty) {
		f.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
			answers, err := f.Backend.Acquire(ctx, bids)
			slices.Reverse(answers)
			return answers, err
		}
	}},
	{name: "answers to renewals are in another order", killer: "A8 answers are in the order of the bids", mutate: func(f *faulty) {
		f.renew = func(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
			answers, err := f.Backend.Renew(ctx, held)
			slices.SortFunc(answers, func(a, b backend.Answer) int { return cmp.Compare(a.Election, b.Election) })
			return answers, err
		}
	}},
	{name: "a renewal only reads", killer: "R1 a renewal is a write with a fresh heartbeat", mutate: func(f *faulty) {
		f.renew = func(ctx context.Context, held []backend.Held) (answers []backend.Answer, err error) {
			for _, l := range held {
				a := backend.Answer{Lease: f.now(l.Election), Outcome: backend.Refused}
				if a.Holder.Nonce == l.Holder.Nonce && a.Term == l.Term {
					a.Outcome, a.ValidFor = backend.Granted, l.TTL
				}
				answers = append(answers, a)
			}
			return answers, nil
		}
	}},
	{name: "readers see another Version than the holder", killer: "R1 a renewal is a write with a fresh heartbeat",
		mutate: readings(func(l *backend.Lease) {
			if !l.Vacant() {
				l.Version = "read " + l.Version
			}
		})},
	{name: "a renewal revives a released lease", killer: "R2 a renewal in another term is refused", mutate: func(f *faulty) {
		f.renew = func(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
			for _, l := range held {
				if now := f.now(l.Election); now.Vacant() && now.Term == l.Term {
					f.Backend.Acquire(ctx, []backend.Bid{{Election: l.Election, Candidate: l.Holder, TTL: l.TTL, Renew: l.Renew, Expected: now}})
				}
			}
			answers, err := f.Backend.Renew(ctx, held)
			for i := range answers {
				if answers[i].Holder.Nonce == held[i].Holder.Nonce {
					answers[i].Outcome, answers[i].ValidFor = backend.Granted, held[i].TTL
				}
			}
			return answers, err
		}
	}},
	{name: "a renewal ignores the term", killer: "R2 a renewal in another term is refused",
		mutate: renewals(func(f *faulty, h *backend.Held) { h.Term = f.now(h.Election).Term })},
	{name: "a deposition is ignored", killer: "R5 a renewal is refused after a deposition",
		mutate: renewals(func(f *faulty, h *backend.Held) {
			if now := f.now(h.Election); now.Request.Kind == backend.Depose {
				f.Backend.Request(context.Background(), []backend.Request{{Election: h.Election, Term: now.Term}})
			}
		})},
	{name: "a release ignores the term", killer: "X2 a release ends only its own term",
		mutate: releases(ignoreTerm)},
	{name: "a release with term 0 ends a later grant", killer: "X4 term 0 releases the caller's lease only",
		mutate: releases(func(f *faulty, h *backend.Held) {
			if now := f.now(h.Election); h.Term == 0 && !now.Vacant() {
				f.clientOf(now).Release(context.Background(), []backend.Held{now.Held()})
			}
		})},
	{name: "terms start again after a release", killer: "S4 terms grow through a thousand leaderships", mutate: func(f *faulty) {
		f.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
			answers, err := f.Backend.Acquire(ctx, bids)
			for i := range answers {
				answers[i].Term = 1
			}
			return answers, err
		}
		releases(ignoreTerm)(f)
	}},
	{name: "the release of a free lease is an error", killer: "X2 a release ends only its own term", mutate: func(f *faulty) {
		f.release = func(ctx context.Context, held []backend.Held) error {
			for _, l := range held {
				if f.now(l.Election).Vacant() {
					return backend.ErrInvalid
				}
			}
			return f.Backend.Release(ctx, held)
		}
	}},
	{name: "the reason of a release is lost", killer: "X1 a release frees the lease at once",
		mutate: releases(func(_ *faulty, h *backend.Held) { h.End = backend.Released })},
	{name: "names are changed to lower case", killer: "S15 different names are different elections", mutate: func(f *faulty) {
		f.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
			bids, names := slices.Clone(bids), []string{}
			for i := range bids {
				names = append(names, bids[i].Election)
				bids[i].Election, bids[i].Expected.Election = fold(bids[i].Election), fold(bids[i].Expected.Election)
			}
			answers, err := f.Backend.Acquire(ctx, bids)
			for i := range answers {
				answers[i].Election = names[i]
			}
			return answers, err
		}
		f.observe = func(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
			for _, l := range seen {
				name := l.Election
				l.Election = fold(name)
				some, err := f.Backend.Observe(ctx, []backend.Lease{l})
				if err != nil {
					return nil, err
				}
				for _, l := range some {
					l.Election = name
					changed = append(changed, l)
				}
			}
			return changed, nil
		}
	}},
	{name: "an unknown election is not returned", killer: "O1 a zero lease is always returned", mutate: func(f *faulty) {
		f.observe = func(ctx context.Context, seen []backend.Lease) ([]backend.Lease, error) {
			changed, err := f.Backend.Observe(ctx, seen)
			return slices.DeleteFunc(changed, func(l backend.Lease) bool { return l.Term == 0 }), err
		}
	}},
	{name: "a lease is observed for less time the older it is", killer: "R8 a renewal does not shorten the observation time",
		mutate: readings(func(l *backend.Lease) { l.ObserveFor -= l.Age })},
	{name: "unchanged leases are returned", killer: "O2 only changed leases are returned", mutate: func(f *faulty) {
		f.observe = func(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
			return f.current(seen), nil
		}
	}},
	{name: "a request is no change", killer: "O3 every kind of change is returned", mutate: func(f *faulty) {
		f.observe = func(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
			all, err := f.Backend.Observe(ctx, seen)
			for _, l := range all {
				if !slices.ContainsFunc(seen, func(s backend.Lease) bool { return s.Version != "" && s.Unchanged(l) }) {
					changed = append(changed, l)
				}
			}
			return changed, err
		}
	}},
	{name: "Listen returns all the time", killer: "N1 Listen does not return again and again", mutate: func(f *faulty) {
		f.listen = func(ctx context.Context, _ []backend.Lease) error {
			select {
			case <-time.After(time.Millisecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}},
	{name: "Listen waits for the next change only", killer: "N2 Listen returns at every change", mutate: func(f *faulty) {
		f.listen = func(ctx context.Context, seen []backend.Lease) error {
			return f.Backend.Listen(ctx, f.current(seen))
		}
	}},
	{name: "Listen misses releases", killer: "L2 a handover after a resignation is fast", mutate: func(f *faulty) {
		f.listen = func(ctx context.Context, _ []backend.Lease) error { <-ctx.Done(); return ctx.Err() }
	}},
	{name: "Listen tells only of vacancies", killer: "L2 a handover after a resignation is fast", mutate: func(f *faulty) {
		f.listen = func(ctx context.Context, seen []backend.Lease) error {
			for {
				err := f.Backend.Listen(ctx, seen)
				seen = f.current(seen)
				if err != nil || slices.ContainsFunc(seen, backend.Lease.Vacant) {
					return err
				}
			}
		}
	}},
	{name: "Listen ignores its context", killer: "G4 calls end with their context", mutate: func(f *faulty) {
		f.listen = func(context.Context, []backend.Lease) error { <-f.closed; return backend.ErrClosed }
	}},
	{name: "Observe ignores its context", killer: "G4 calls end with their context", mutate: func(f *faulty) {
		f.observe = func(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
			if ctx.Err() != nil {
				<-f.closed
			}
			return f.Backend.Observe(ctx, seen)
		}
	}},
	{name: "a request changes the heartbeat", killer: "W1 a request does not change the lease", mutate: func(f *faulty) {
		f.request = func(ctx context.Context, requests []backend.Request) error {
			err := f.Backend.Request(ctx, requests)
			for _, request := range requests { // like a careless UPDATE, it writes the lease again
				l := f.now(request.Election)
				f.clientOf(l).Renew(ctx, []backend.Held{l.Held()})
			}
			return err
		}
	}},
	{name: "a stale request returns no error", killer: "W2 a stale request is not written", mutate: func(f *faulty) {
		f.request = func(ctx context.Context, requests []backend.Request) error {
			f.Backend.Request(ctx, requests)
			return nil
		}
	}},
	{name: "a nomination deposes", killer: "P12 an absent nominee changes nothing", mutate: func(f *faulty) {
		f.request = func(ctx context.Context, requests []backend.Request) error {
			requests = slices.Clone(requests)
			for i := range requests {
				requests[i].Kind = backend.Depose
			}
			return f.Backend.Request(ctx, requests)
		}
	}},
	{name: "Push is claimed, but Listen never returns", killer: "N2 Listen returns at every change", mutate: func(f *faulty) {
		f.listen = func(ctx context.Context, _ []backend.Lease) error { <-ctx.Done(); return ctx.Err() }
	}},
	{name: "Push is claimed beside Poll, but Listen never returns", killer: "L2 a handover after a resignation is fast", mutate: func(f *faulty) {
		f.claims = func(g backend.Guarantees) backend.Guarantees { g.Poll = true; return g }
		f.listen = func(ctx context.Context, _ []backend.Lease) error { <-ctx.Done(); return ctx.Err() }
	}},
	{name: "neither Push nor Poll is claimed", killer: "G5 guarantees are constant and consistent", mutate: func(f *faulty) {
		f.claims = func(g backend.Guarantees) backend.Guarantees { g.Push, g.Poll = false, false; return g }
	}},
}

// TestEachMutantIsKilledByItsCase runs each case on memory, where it must pass, and on the broken backend that it must find.
func TestEachMutantIsKilledByItsCase(t *testing.T) {
	killed := 0
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			all := slices.Concat(Cases(), managerCases())
			i := slices.IndexFunc(all, func(c Case) bool { return c.Title() == m.killer })
			if i < 0 {
				t.Fatalf("no case is called %q", m.killer)
			}
			c := all[i]
			harness := func(mutate func(*faulty)) Harness {
				return Harness{Virtual: true, Short: true, NewStore: inMemory(func(s *memory.Store) backend.Backend {
					f := newFaulty(s)
					mutate(f)
					return f
				})}
			}
			if err := c.Try(t, harness(func(*faulty) {})); err != nil {
				t.Fatalf("%s fails on memory itself: %v", c.Title(), err)
			}
			err := c.Try(t, harness(m.mutate))
			if err == nil {
				t.Fatalf("%s does not find: %s", c.Title(), m.name)
			}
			killed++
			fmt.Printf("mutant %-62s killed by %s\n", m.name+":", c.Title())
		})
	}
	fmt.Printf("%d/%d broken backends killed\n", killed, len(mutants))
}

// A client that is closed and leaves a goroutine behind fails its case, with what the goroutine waits for.
func TestAGoroutineThatIsLeftBehindIsShown(t *testing.T) {
	c := Cases()[0]
	err := c.Try(t, Harness{Virtual: true, NewStore: inMemory(func(s *memory.Store) backend.Backend {
		go waitForNobody(make(chan bool))
		return s.Backend()
	})})
	if err == nil || !strings.Contains(err.Error(), "deadlock") || !strings.Contains(err.Error(), "waitForNobody") {
		t.Errorf("got %v, want the deadlock and the name of the function that waits", err)
	}
}

func waitForNobody(c chan bool) { <-c }
