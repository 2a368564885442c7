package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/client"
)

// hedged runs f, which is one call to the cluster. It is also sent to a second and a third member if the
// first does not answer, and once more with a new token if one was refused: it has changed nothing then. If
// none has answered, connections that stay silent are closed: gRPC would take 12 s to find them dead. All are
// if no other call is answered either: a balancer may lead to a member that is cut off, and answers pings.
func hedged[R any](ctx context.Context, d *driver, f func(context.Context) (R, error)) (R, error) {
	began, answered := time.Now(), d.answered.Load()
	r, err := firstAnswer(ctx, f)
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	switch {
	case err == nil:
		d.answered.Add(1)
	case d.dialer != nil && (late || is(err, rpctypes.ErrTimeout, rpctypes.ErrNoLeader)):
		d.dialer.CloseSilent(began, func() bool { return d.answered.Load() == answered })
	}
	if d.login != nil && tokenRefused(err) {
		if err = d.login.refresh(ctx, d.client); err == nil {
			r, err = firstAnswer(ctx, f)
		}
	}
	return r, err
}

// firstAnswer runs f, and again when that has failed or a quarter of the call's time is over, three times
// in all. It returns the first result without an error, so that a server that hangs costs nobody a lease.
// An error is final if another member cannot do better. All runs of f have ended when firstAnswer returns.
func firstAnswer[R any](ctx context.Context, f func(context.Context) (R, error)) (none R, err error) {
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
	for started, finished := 0, 0; ; {
		if started < most {
			started++
			all.Go(func() {
				r, err := f(inner)
				results <- result{r, err}
			})
		}
		select {
		case got := <-results:
			finished++
			final := finished == most || ctx.Err() != nil || class(got.err) != backend.ErrUnavailable
			if got.err == nil || final {
				return got.r, got.err
			}
		case <-time.After(wait):
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// failFast makes a call fail, with the reason, when no member can be reached. By default the client waits.
func failFast(
	ctx context.Context, method string, req, reply any,
	cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	return next(ctx, method, req, reply, cc, append(opts, grpc.WaitForReady(false))...)
}

// A login holds the user's token and gets a new one when the server refuses it. The client library would log
// in for every stream, which costs a password hash each time, and needs a server when it is created.
type login struct {
	username        string
	password, token client.Secret
	passwordFile    string
}

// anew marks the context of a login, which has no token: servers before 3.5 refuse one with an old token.
type anew struct{}

// GetRequestMetadata attaches the token to a call, as credentials.PerRPCCredentials.
func (l *login) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	if token := l.token.Get(); token != "" && ctx.Value(anew{}) == nil {
		return map[string]string{rpctypes.TokenFieldNameGRPC: token}, nil
	}
	return nil, nil
}

// RequireTransportSecurity returns false: with http endpoints tokens are sent unencrypted.
func (l *login) RequireTransportSecurity() bool { return false }

// refresh gets a new token. If several calls do so at the same time, each of them logs in.
func (l *login) refresh(ctx context.Context, c *clientv3.Client) error {
	ctx = context.WithValue(ctx, anew{}, true)
	try := func() (*clientv3.AuthenticateResponse, error) {
		return firstAnswer(ctx, func(ctx context.Context) (*clientv3.AuthenticateResponse, error) {
			return c.Authenticate(ctx, l.username, l.password.Get())
		})
	}
	resp, err := try()
	if is(err, rpctypes.ErrAuthFailed) && l.password.ReadAgain(l.passwordFile) {
		resp, err = try()
	}
	if errors.Is(err, rpctypes.ErrAuthNotEnabled) {
		resp, err = &clientv3.AuthenticateResponse{}, nil
	}
	if err == nil {
		l.token.Set(resp.Token)
	}
	return err
}

// is reports whether err is one of etcd's own errors, which the client returns as values or as text.
func is(err error, wanted ...error) bool {
	return err != nil && slices.ContainsFunc(wanted, func(w error) bool {
		return errors.Is(err, w) || strings.Contains(err.Error(), rpctypes.ErrorDesc(w))
	})
}

// tokenRefused reports whether a token was refused; then the call has changed nothing.
func tokenRefused(err error) bool {
	return is(err, rpctypes.ErrInvalidAuthToken, rpctypes.ErrUserEmpty, rpctypes.ErrAuthOldRevision)
}

// class returns the class of err, as package backend defines it.
func class(err error) error {
	if c := backend.Class(err); c != backend.ErrUnavailable || errors.Is(err, backend.ErrUnavailable) {
		return c
	}
	switch status.Code(err) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented, codes.DataLoss:
		return backend.ErrDenied
	}
	if client.RefusesTLS(err.Error()) || tooLarge(err) || // the library calls it a failed connection
		is(err, rpctypes.ErrPermissionDenied, rpctypes.ErrAuthFailed, rpctypes.ErrAuthNotEnabled,
			rpctypes.ErrUserNotFound, rpctypes.ErrUserEmpty, rpctypes.ErrInvalidAuthToken,
			rpctypes.ErrNoSpace, rpctypes.ErrTooManyOps, rpctypes.ErrClusterIDMismatch, rpctypes.ErrCorrupt) {
		return backend.ErrDenied
	}
	return backend.ErrUnavailable
}

// tooLarge reports whether the server, or the client, has refused a request for its size.
func tooLarge(err error) bool {
	return is(err, rpctypes.ErrRequestTooLarge, errors.New("larger than max"))
}

// fail adds to err its class and what an operator must do, and removes secrets.
func (d *driver) fail(err error) error {
	if err == nil {
		return nil
	}
	c, hint, text := class(err), d.proxy, err.Error()
	begins := strings.Contains(text, "server preface: ") || strings.Contains(text, "handshake failed: ")
	switch {
	case is(err, rpctypes.ErrPermissionDenied):
		hint = "; an administrator can grant what is needed: " +
			"etcdctl role grant-permission ROLE readwrite --prefix=true " + string(d.keys)
	case is(err, rpctypes.ErrUserEmpty):
		hint = "; the cluster has users: set username and password"
	case is(err, rpctypes.ErrNoSpace):
		hint = "; compact and defragment the cluster, then: etcdctl alarm disarm"
	case status.Code(err) == codes.Unimplemented, strings.Contains(text, "frame too large"),
		begins && (strings.Contains(text, ": EOF") || strings.Contains(text, "connection reset by peer")):
		hint = "; is this the address of an etcd 3.4 or later, and is it http or https as it is named?"
	}
	if d.login != nil {
		err = clean.Secrets(err, append(d.login.token.All(), d.login.password.All()...)...)
	}
	if errors.Is(err, c) {
		return fmt.Errorf("%w%s", err, hint)
	}
	return fmt.Errorf("%w: %w%s", c, err, hint)
}
