package client

import (
	"context"
	"sync"
	"time"
)

// InParallel calls f for 0 to n−1, a number of them at once.
func InParallel(n, atOnce int, f func(i int)) {
	var all sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			f(i)
		})
	}
	all.Wait()
}

// Pause waits. It returns false if ctx has ended.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
