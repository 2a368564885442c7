package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/page"
)

// Records ranges over the store's records of all elections, joined or not, in byte order of names.
// Retired elections are among them: see [backend.Record.Forgotten]. Each call of the store takes
// CallTimeout at most. After an error the range ends.
func (m *Manager) Records(ctx context.Context) iter.Seq2[backend.Record, error] {
	return page.Records(ctx, m.callStore, m.backend)
}

// Members returns the processes that have announced themselves on this store, leaders or not, for
// any election. Each call of the store takes CallTimeout at most. The error is the store's, ctx's,
// or [ErrClosed].
func (m *Manager) Members(ctx context.Context) ([]backend.Member, error) {
	return page.Members(ctx, m.callStore, m.backend)
}

// callStore makes a call of the store for a waiting caller. It keeps two promises to the backend:
// each call has a deadline, and none is made after Close.
func (m *Manager) callStore(ctx context.Context, call func(context.Context) error) error {
	m.mu.Lock()
	closed := m.elections == nil
	if !closed {
		m.calls.Add(1)
	}
	m.mu.Unlock()
	if closed {
		return ErrClosed
	}
	defer m.calls.Done()
	ctx, cancel := context.WithTimeout(ctx, m.opts.CallTimeout)
	defer cancel()
	return call(ctx)
}

// prepare has the store made ready for candidates, once. Only one caller at a time does it;
// others wait for the outcome, until ctx ends.
func (m *Manager) prepare(ctx context.Context) error {
	p, ok := m.backend.(backend.Preparer)
	if !ok || m.opts.Observer {
		return nil
	}
	select {
	case _, unprepared := <-m.unprepared:
		if !unprepared {
			return nil
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := p.Prepare(ctx); err != nil {
		m.unprepared <- struct{}{}
		return fmt.Errorf("election: prepare the store: %w", err)
	}
	close(m.unprepared)
	return nil
}

// Check asks the store once whether this process may take part. It reads a record. Unless the
// manager only observes, it also announces this process, and asks a [backend.Preflighter] whether
// bids for the joined elections would be allowed. It takes three times CallTimeout at most. After
// an error of class backend.ErrDenied an operator must correct something; backend.ErrUnavailable
// may pass by itself. The manager continues to work in either case.
func (m *Manager) Check(ctx context.Context) error {
	err := m.callStore(ctx, func(ctx context.Context) error {
		if err := m.prepare(ctx); err != nil {
			return err
		}
		_, err := m.backend.List(ctx, "", 1)
		return err
	})
	if err != nil || m.opts.Observer {
		return err
	}
	var campaigns string
	m.ask(func(time.Duration) (input, error) {
		campaigns = m.machine.announcement()
		return nil, nil
	})
	err = m.callStore(ctx, func(ctx context.Context) error { return m.announce(ctx, campaigns) })
	if err != nil {
		return err
	}
	bid := backend.Bid{Candidate: m.me, TTL: m.opts.TTL, Renew: m.opts.RenewEvery}
	var bids []backend.Bid
	for _, e := range m.Elections() {
		bid.Election = e.Name()
		bids = append(bids, bid)
	}
	p, ok := m.backend.(backend.Preflighter)
	if !ok || len(bids) == 0 {
		return nil
	}
	return m.callStore(ctx, func(ctx context.Context) error { return errors.Join(p.Preflight(ctx, bids)...) })
}

func (m *Manager) announce(ctx context.Context, elections string) error {
	return m.backend.Announce(ctx, backend.Member{Candidate: m.me, TTL: m.opts.TTL, Elections: elections})
}

// callContext returns the context of a call. Listen has no deadline: the machine cancels it.
func (m *Manager) callContext(c *call) (ctx context.Context, cancel context.CancelFunc) {
	if c.timeout > 0 {
		return context.WithTimeout(m.ctx, c.timeout)
	}
	ctx, m.unlisten = context.WithCancel(m.ctx)
	return ctx, m.unlisten
}

// makeCall makes one call of the store, or of the health check.
func (m *Manager) makeCall(ctx context.Context, c *call, r *reply) {
	if c.kind != callHealth {
		r.err = m.prepare(ctx)
	}
	if r.err != nil {
		return
	}
	switch c.kind {
	case callAcquire:
		m.opts.Guard.Bidding(c.bids)
		r.answers, r.err = m.backend.Acquire(ctx, c.bids)
		m.opts.Guard.Answered(c.bids, r.answers)
	case callRenew:
		r.answers, r.err = m.backend.Renew(ctx, c.held)
	case callRelease:
		if r.err = m.backend.Release(ctx, c.held); r.err == nil {
			m.opts.Guard.Released(c.held)
		}
	case callObserve:
		r.changed, r.err = m.backend.Observe(ctx, c.leases)
	case callRequest:
		r.err = m.backend.Request(ctx, c.requests)
	case callAnnounce:
		r.err = m.announce(ctx, c.names)
	case callMembers:
		r.members, r.err = m.Members(ctx)
	case callListen:
		r.err = m.backend.Listen(ctx, c.leases)
	case callHealth:
		r.err = cmp.Or(m.opts.Health(ctx), ctx.Err()) // a check that is too slow has failed
	}
}

// call makes one call and sends its reply to the loop.
func (m *Manager) call(ctx context.Context, c *call) {
	r, began := reply{call: c}, m.clock.now()
	m.makeCall(ctx, c, &r)
	took := m.clock.now() - began
	m.send(func(now time.Duration) input {
		m.counters.countCall(&r, took)
		if c.kind == callRelease && r.err == nil {
			m.releasedAt = now
		}
		return r
	})
}
