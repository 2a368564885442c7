package etcd

import (
	"context"
	"sync"
	"time"
)

// firstAnswer runs f, a second time if it has not returned after a quarter of the call's time, and a
// third time. It returns the first result without an error, so that a server that hangs costs
// nobody a lease. An error is final if retry says so. All runs of f have ended when firstAnswer returns.
func firstAnswer[R any](ctx context.Context, retry func(error) bool, f func(context.Context) (R, error)) (R, error) {
	const most = 3
	type result struct {
		r   R
		err error
	}
	inner, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	results := make(chan result, most)
	wait := time.Second
	if by, ok := ctx.Deadline(); ok {
		wait = max(time.Until(by)/4, time.Millisecond)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	started, finished := 0, 0
	for {
		select {
		case <-timer.C:
			if started == most {
				continue
			}
			started++
			all.Go(func() {
				r, err := f(inner)
				results <- result{r, err}
			})
			timer.Reset(wait)
		case got := <-results:
			if finished++; got.err == nil || ctx.Err() != nil || finished == most || !retry(got.err) {
				return got.r, got.err
			}
			if finished == started {
				timer.Reset(wait / 8)
			}
		case <-ctx.Done():
			var none R
			return none, ctx.Err()
		}
	}
}
