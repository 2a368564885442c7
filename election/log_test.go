package election

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
)

type hangingLog struct {
	slog.Handler
	resume  chan struct{}
	handled atomic.Int64
}

func (h *hangingLog) Enabled(context.Context, slog.Level) bool { return true }
func (h *hangingLog) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *hangingLog) Handle(context.Context, slog.Record) error {
	<-h.resume
	h.handled.Add(1)
	return nil
}

// A hanging handler costs no lease, and does not delay the end of a leadership.
func TestAHangingLoggerDelaysNoLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &hangingLog{resume: make(chan struct{})}
		s := scripted()
		e := alone(t, s, Options{Logger: slog.New(log)})
		var ended atomic.Int64
		e.Lead(func(ctx context.Context, _ *Leadership) error {
			<-ctx.Done()
			ended.Add(1)
			return nil
		})
		time.Sleep(time.Minute)
		if !e.Leading() {
			t.Error("does not lead while its log hangs")
		}
		s.fail(backend.ErrUnavailable, callRenew)
		time.Sleep(2 * DefaultTTL)
		if ended.Load() == 0 {
			t.Error("the lease has expired, and the lead function is still running")
		}
		s.heal()
		for range maxQueuedRecords / 2 {
			e.Resign(t.Context())
			time.Sleep(DefaultTTL)
		}
		before := log.handled.Load()
		close(log.resume)
		closes(t, e.manager)
		if said := log.handled.Load() - before; said < 10 || said > maxQueuedRecords+20 {
			t.Errorf("%d messages came late; want the first ones, and that the others were lost", said)
		}
	})
}

// A notice without an error is logged without one.
func TestALineHasNoErrorThatIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text, logger := warned()
		e := alone(t, scripted(), Options{Logger: logger})
		synctest.Wait()
		e.publish(&state{kind: Notice, reason: ReasonWentBack})
		e.publish(&state{kind: Notice, reason: ReasonInvalid, err: backend.ErrDenied})
		e.manager.writeLines()
		synctest.Wait()
		if got := text.String(); !strings.Contains(got, `msg="store went back"`) || strings.Contains(got, "<nil>") || !strings.Contains(got, `error="store denied"`) {
			t.Errorf("the log is:\n%s", got)
		}
	})
}
