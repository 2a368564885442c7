package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/election"
)

// stalls is a log handler that stops the manager's own loop for a while, as a
// long garbage collection, a debugger or a starved machine would. Whether something is
// to be logged is all that the loop itself asks it.
type blockingLogger struct {
	armed   *atomic.Bool
	blocked *atomic.Bool
	length  time.Duration
}

func (s blockingLogger) Enabled(context.Context, slog.Level) bool {
	if s.armed.CompareAndSwap(true, false) {
		s.blocked.Store(true)
		time.Sleep(s.length)
	}
	return true
}

func (s blockingLogger) Handle(context.Context, slog.Record) error { return nil }

func (s blockingLogger) WithAttrs([]slog.Attr) slog.Handler { return s }

func (s blockingLogger) WithGroup(string) slog.Handler { return s }

func safeStall(t *Trial) error {
	var armed, hit atomic.Bool
	a, err := t.participant("a", "jobs", func(o *election.Options) {
		o.Logger = slog.New(blockingLogger{&armed, &hit, 3*t.TTL + 2*t.takeoverBound()})
	})
	if err != nil {
		return err
	}
	if err := a.lead(); err != nil {
		return err
	}
	if _, _, err := t.waitForLeader(2*t.takeoverBound(), a); err != nil {
		return err
	}
	b, err := t.participant("b", "jobs", nil)
	if err != nil {
		return err
	}
	if err := b.lead(); err != nil {
		return err
	}
	t.sleep(t.TTL)
	other, err := a.node.join("other")
	if err != nil {
		return err
	}
	old, err := t.waitForLeadership(t.takeoverBound(), a)
	if err != nil {
		return err
	}
	armed.Store(true)
	if err := other.lead(); err != nil { // its bid is logged by the loop, which is where the loop stops
		return err
	}
	if err := t.waitUntil(t.takeoverBound(), "the manager to be stopped", hit.Load); err != nil {
		return err
	}
	t.waitForDeadline(a.node, "jobs")
	if err := errors.Join(expect(!a.Leading(), "Leading() false past the deadline while the manager is stopped", a.Leading()),
		expect(a.Leadership() == nil, "no Leadership past the deadline", a.Leadership()),
		equal("Remaining past the deadline", old.Remaining(), 0),
		expect(a.Current().Kind != election.Elected, "a current state that names no leader", a.Current())); err != nil {
		return err
	}
	// Where a lease lasts as long as its process, the successor must wait for the
	// manager to go on.
	if !t.lastsWithProcess() {
		if _, _, err := t.waitForLeader(t.takeoverBound(), b); err != nil {
			return fmt.Errorf("successor of a stopped manager: %w", err)
		}
	}
	return t.waitUntil(5*t.takeoverBound(), "the stopped manager to tell that it lost the leadership", func() bool {
		return a.hasEvent(func(e election.Event) bool { return e.Kind == election.Elected && e.Leading }) &&
			a.hasEvent(func(e election.Event) bool { return e.Reason == election.ReasonDeadline }) && old.Context().Err() != nil
	})
}
