package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/go-election/go-election/internal/client"
)

// hedged runs f, which is one call to the cluster. It is also sent to a second and a third member
// if the first does not answer.
func hedged[R any](ctx context.Context, d *driver, f func(context.Context) (R, error)) (r R, err error) {
	err = d.withToken(ctx, func() (err error) {
		r, err = firstAnswer(ctx, worthRetrying, f)
		return err
	})
	return r, err
}

// withToken runs f with a token, and with a new one if the token was refused. A refused
// call has changed nothing.
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

// failFast makes a call fail, with the reason, when no member can be reached. By default the
// client waits until the call's deadline.
func failFast(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return next(ctx, method, req, reply, cc, append(opts, grpc.WaitForReady(false))...)
}

func failFastStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return next(ctx, desc, cc, method, append(opts, grpc.WaitForReady(false))...)
}

// A login holds the user's token and gets a new one when the server refuses it. The client
// library would log in for every stream, which costs the server a password hash each time,
// and would need the server to be up when the client is created.
type login struct {
	username, password string
	token              client.Secret
	mutex              chan struct{} // held while a new token is fetched
}

// GetRequestMetadata attaches the token to a call, as credentials.PerRPCCredentials.
func (l *login) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if token := l.token.Get(); token != "" {
		return map[string]string{rpctypes.TokenFieldNameGRPC: token}, nil
	}
	return nil, nil
}

// RequireTransportSecurity returns false: with http endpoints tokens are sent unencrypted.
func (l *login) RequireTransportSecurity() bool { return false }

// refresh replaces the token old, unless another call has just done so.
func (l *login) refresh(ctx context.Context, c *clientv3.Client, old string) error {
	select {
	case l.mutex <- struct{}{}:
		defer func() { <-l.mutex }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if now := l.token.Get(); now != "" && now != old {
		return nil
	}
	l.token.Set("")
	resp, err := firstAnswer(ctx, worthRetrying, func(ctx context.Context) (*clientv3.AuthenticateResponse, error) {
		return c.Authenticate(ctx, l.username, l.password)
	})
	if err == nil {
		l.token.Set(resp.Token)
	}
	if errors.Is(err, rpctypes.ErrAuthNotEnabled) {
		return nil
	}
	return err
}
