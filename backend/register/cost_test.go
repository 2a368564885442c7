package register_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend/register"
	"github.com/go-election/go-election/conformance/registertest"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// distant is a register on a server: a reading takes 20 ms and a swap 40 ms.
type distant struct {
	register.Register
	gets, swaps, collisions, bytes *atomic.Int64
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d/2 + rand.N(d)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r distant) Get(ctx context.Context) ([]byte, string, error) {
	r.gets.Add(1)
	if err := wait(ctx, 10*time.Millisecond); err != nil {
		return nil, "", err
	}
	value, version, err := r.Register.Get(ctx)
	if err == nil {
		err = wait(ctx, 10*time.Millisecond)
	}
	return value, version, err
}

func (r distant) Swap(ctx context.Context, version string, value []byte) (string, error) {
	r.swaps.Add(1)
	r.bytes.Add(int64(len(value)))
	if err := wait(ctx, 20*time.Millisecond); err != nil {
		return "", err
	}
	now, err := r.Register.Swap(ctx, version, value)
	if err != nil {
		r.collisions.Add(1)
	} else {
		err = wait(ctx, 20*time.Millisecond)
	}
	return now, err
}

// Processes that were started at once would announce themselves at the same instants for ever, and most of their swaps
// would meet another's.
func TestProcessesThatStartTogetherDoNotCollideForLong(t *testing.T) {
	const minutes = 5
	for _, processes := range []int{3, 10, 30} {
		synctest.Test(t, func(t *testing.T) {
			store := registertest.NewStore()
			var gets, swaps, collisions, bytes atomic.Int64
			for range processes {
				b := register.New(distant{store.Register(), &gets, &swaps, &collisions, &bytes}, limits)
				m, err := election.New(b, election.Options{TTL: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
				testbed.NoError(t, err)
				t.Cleanup(func() { m.Close(context.Background()) })
				e, err := m.Join("jobs")
				testbed.NoError(t, err)
				testbed.NoError(t, e.Lead(nil))
			}
			time.Sleep(time.Minute)
			for _, n := range []*atomic.Int64{&gets, &swaps, &collisions, &bytes} {
				n.Store(0)
			}
			time.Sleep(minutes * time.Minute)
			t.Logf("%d processes, one election: %d readings and %d swaps a minute, %d of which met another's, %d kB",
				processes, gets.Load()/minutes, swaps.Load()/minutes, collisions.Load()/minutes, bytes.Load()/minutes/1000)
			if collisions.Load() > swaps.Load()/4 {
				t.Errorf("of %d swaps of %d processes %d met another's", swaps.Load(), processes, collisions.Load())
			}
		})
	}
}
