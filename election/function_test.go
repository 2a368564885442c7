package election

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend/memory"
)

// The error of a function that returns by itself is in the event and in the default log.
func TestAFunctionsErrorIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		m := manage(t, memory.New().Backend(), Options{})
		slog.SetDefault(before)
		e := joined(t, m, "x")
		var ended []Event
		e.Watch(func(ev Event) {
			if ev.Reason == ReasonReturned {
				ended = append(ended, ev)
			}
		})
		broken := errors.New("the printer is out of paper")
		returns := []error{broken, nil}
		e.Lead(func(ctx context.Context, l *Leadership) error {
			if len(returns) == 0 {
				<-ctx.Done()
				return errors.New("returned after the leadership ended, so not its reason")
			}
			err := returns[0]
			returns = returns[1:]
			return err
		})
		time.Sleep(time.Minute)
		closes(t, m)
		if len(ended) != 2 || !errors.Is(ended[0].Err, broken) || ended[1].Err != nil {
			t.Errorf("events of functions that returned %v and nil: %v", broken, ended)
		}
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=ERROR") || !strings.Contains(text, broken.Error()) {
			t.Errorf("the default log should have one line, with the error:\n%s", text)
		}
	})
}
