package etcd

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	"github.com/go-election/go-election/backend/internal/client"
)

// call runs f, which is one call to the cluster, with a token, and again with a new one if the
// token was refused: such a call has changed nothing. If no member answers in time, it closes all
// connections.
func (d *driver) call(ctx context.Context, f func() error) error {
	const suspectAfter = 100 * time.Millisecond // without an answer
	began := time.Now()
	err := d.withToken(ctx, f)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && time.Since(began) > suspectAfter {
		d.connections.Drop()
	}
	return err
}

func (d *driver) withToken(ctx context.Context, f func() error) error {
	if d.login == nil {
		return f()
	}
	if d.login.token.Get() == "" {
		if err := d.login.refresh(ctx, d.client, ""); err != nil {
			return err
		}
	}
	token := d.login.token.Get()
	err := f()
	if tokenRefused(err) {
		if err := d.login.refresh(ctx, d.client, token); err != nil {
			return err
		}
		err = f()
	}
	return err
}

// hedged is call for f, which is also sent to a second and a third member if the first does not
// answer.
func hedged[R any](ctx context.Context, d *driver, f func(context.Context) (R, error)) (r R, err error) {
	err = d.call(ctx, func() (err error) {
		r, err = client.Hedged(ctx, worthRetrying, f)
		return err
	})
	return r, err
}

// failFast makes a call fail, with the reason, when no member can be reached. By default the
// client waits until the call's deadline.
func failFast(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return next(ctx, method, req, reply, cc, append(opts, grpc.WaitForReady(false))...)
}

func failFastStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return next(ctx, desc, cc, method, append(opts, grpc.WaitForReady(false))...)
}
