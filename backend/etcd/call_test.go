package etcd

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
)

// A server that hangs costs a quarter of the call's time.
func TestAServerThatHangsIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		var runs atomic.Int32
		began := time.Now()
		got, err := firstAnswer(ctx, func(ctx context.Context) (int32, error) {
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

func TestAFinalErrorEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		final, runs := fmt.Errorf("%w: final", backend.ErrDenied), 0
		_, err := firstAnswer(t.Context(), func(context.Context) (int, error) { runs++; return 0, final })
		if err != final || runs != 1 {
			t.Errorf("%v after %d runs; want one", err, runs)
		}
	})
}
