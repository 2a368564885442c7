package etcd

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A server that hangs costs a quarter of the call's time.
func TestAHangingServerIsfirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		var runs atomic.Int32
		began := time.Now()
		got, err := firstAnswer(ctx, func(error) bool { return true }, func(ctx context.Context) (int32, error) {
			run := runs.Add(1)
			if run == 1 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return run, nil
		})
		if took := time.Since(began); got != 2 || err != nil || took != 2*time.Second {
			t.Errorf("%d, %v after %v; want the second answer after 2s", got, err, took)
		}
	})
}

func TestAFinalErrorEndsAfirstAnswerCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		final, runs := errors.New("final"), 0
		_, err := firstAnswer(t.Context(), func(error) bool { return false }, func(context.Context) (int, error) { runs++; return 0, final })
		if err != final || runs != 1 {
			t.Errorf("%v after %d runs; want one", err, runs)
		}
	})
}
