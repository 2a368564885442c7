package election

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// hung is a log that hangs until it is told to go on.
type hung struct {
	slog.Handler
	on   chan struct{}
	said atomic.Int64
}

// A log that hangs costs no lease, and keeps nobody leading.
func TestAHangingLoggerDelaysNoLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &hung{on: make(chan struct{})}
		s := &script{Backend: memory.New().Backend()}
		m := manage(t, s, Options{Logger: slog.New(log)})
		var ended atomic.Int64
		e := joined(t, m, "x")
		e.Lead(func(ctx context.Context, _ *Leadership) error {
			<-ctx.Done()
			ended.Add(1)
			return nil
		})
		time.Sleep(time.Minute)
		if !e.Leading() {
			t.Error("does not lead, since its log hangs")
		}
		s.set(func() {
			s.renew = func(context.Context, []backend.Held) ([]backend.Answer, error) { return nil, backend.ErrUnavailable }
		})
		time.Sleep(2 * DefaultTTL)
		if ended.Load() == 0 {
			t.Error("the lease has run out, and the lead function was not told")
		}
		s.set(func() { s.renew = nil })
		for range maxQueuedRecords / 2 {
			e.Resign(t.Context())
			time.Sleep(DefaultTTL)
		}
		before := log.said.Load()
		close(log.on)
		closes(t, m)
		if said := log.said.Load() - before; said < 10 || said > maxQueuedRecords+20 {
			t.Errorf("%d messages came late; want the first ones, and that the others were lost", said)
		}
	})
}

func (h *hung) Enabled(context.Context, slog.Level) bool { return true }
func (h *hung) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *hung) Handle(_ context.Context, r slog.Record) error {
	<-h.on
	h.said.Add(1)
	return nil
}
