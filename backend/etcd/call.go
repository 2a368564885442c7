package etcd

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// suspectAfter is how long a call must have waited without an answer before its
// connections are suspected to be broken.
const suspectAfter = 100 * time.Millisecond

// call runs f, which is one call to the cluster. If no member answers in time, it closes
// all connections.
func (b *Backend) call(ctx context.Context, f func() error) error {
	began := time.Now()
	err := b.withToken(ctx, f)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && time.Since(began) > suspectAfter {
		b.connections.drop()
	}
	return err
}

// withToken runs f with a token, and with a new one if the token was refused. A refused
// call has changed nothing.
func (b *Backend) withToken(ctx context.Context, f func() error) error {
	if b.login == nil {
		return f()
	}
	token := b.login.current()
	if token == "" {
		if err := b.login.refresh(ctx, b.client, ""); err != nil {
			return err
		}
		token = b.login.current()
	}
	err := f()
	if tokenRefused(err) {
		if err := b.login.refresh(ctx, b.client, token); err != nil {
			return err
		}
		err = f()
	}
	return err
}

// hedged sends f to a second and a third member if the first does not answer, and returns
// the first good answer, so that a member that hangs costs no one a lease. f may run more than
// once; all of its runs have ended when hedged returns.
func hedged[R any](ctx context.Context, f func(context.Context) (R, error)) (R, error) {
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
			if finished++; got.err == nil || ctx.Err() != nil || finished == most || !worthRetrying(got.err) {
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

// failFast makes a call fail, with the reason, when no member can be reached. By default the
// client waits until the call's deadline.
func failFast(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return next(ctx, method, req, reply, cc, append(opts, grpc.WaitForReady(false))...)
}

func failFastStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return next(ctx, desc, cc, method, append(opts, grpc.WaitForReady(false))...)
}
