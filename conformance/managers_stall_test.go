package conformance

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/election"
)

// A blockingLogger is a log handler that blocks the manager's loop for a while, like a long garbage collection, a debugger
// or a starved machine. The loop itself calls only Enabled.
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

func safeStall(t *Trial) {
	var armed, hit atomic.Bool
	a := t.participant("a", "jobs", func(o *election.Options) {
		o.Logger = slog.New(blockingLogger{&armed, &hit, 3*t.TTL + 2*t.takeoverBound()})
	})
	a.lead()
	t.waitForLeader(2*t.takeoverBound(), a)
	b := t.candidate("b", "jobs", nil)
	t.sleep(t.TTL)
	other := a.node.join("other")
	old := t.waitForLeadership(t.takeoverBound(), a)
	armed.Store(true)
	other.lead()
	t.waitUntil(t.takeoverBound(), "the manager's loop to block", hit.Load)
	t.waitForDeadline(a.node, "jobs")
	require(expect(!a.Leading(), a.Leading(), "Leading() false after the deadline while the manager's loop is blocked"),
		expect(a.Leadership() == nil, a.Current(), "no Leadership after the deadline"),
		equal(old.Remaining(), 0, "Remaining after the deadline"),
		expect(a.Current().Kind != election.Elected, a.Current(), "a current state that names no leader"))
	t.waitForLeader(t.takeoverBound(), b)
	t.waitUntil(5*t.takeoverBound(), "the blocked manager's event that it lost the leadership", func() bool {
		return a.hasEvent(func(e election.Event) bool { return e.Kind == election.Elected && e.Leading }) &&
			a.told(election.ReasonDeadline) && old.Context().Err() != nil
	})
}
