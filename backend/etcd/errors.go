package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/client"
)

// is reports whether err is one of etcd's own errors. Depending on the call, the client
// returns them as values or as text.
func is(err error, wanted ...error) bool {
	for _, w := range wanted {
		if err != nil && (errors.Is(err, w) || strings.Contains(err.Error(), rpctypes.ErrorDesc(w))) {
			return true
		}
	}
	return false
}

// tokenRefused reports whether a token was refused; then the call has changed nothing.
func tokenRefused(err error) bool {
	return is(err, rpctypes.ErrInvalidAuthToken, rpctypes.ErrUserEmpty, rpctypes.ErrAuthOldRevision)
}

// worthRetrying reports whether another member may succeed.
func worthRetrying(err error) bool { return class(err) == backend.ErrUnavailable }

// class returns the class of err, as package backend defines it.
func class(err error) error {
	if c := backend.Class(err); c != backend.ErrUnavailable || errors.Is(err, backend.ErrUnavailable) {
		return c
	}
	code := status.Code(err)
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		code = e.Code()
	}
	text := err.Error() // the client reports a failed handshake as a failed connection
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return backend.ErrUnavailable
	case is(err, rpctypes.ErrPermissionDenied, rpctypes.ErrAuthFailed, rpctypes.ErrUserNotFound, rpctypes.ErrUserEmpty, rpctypes.ErrInvalidAuthToken,
		rpctypes.ErrAuthNotEnabled, rpctypes.ErrNoSpace, rpctypes.ErrTooManyOps, rpctypes.ErrRequestTooLarge, rpctypes.ErrClusterIDMismatch, rpctypes.ErrCorrupt),
		code == codes.PermissionDenied, code == codes.Unauthenticated, code == codes.Unimplemented, code == codes.DataLoss,
		strings.Contains(text, "larger than max"), strings.Contains(text, "x509: "), strings.Contains(text, "tls: "):
		return backend.ErrDenied
	}
	return backend.ErrUnavailable
}

// answered reports whether etcd itself has made the error.
func answered(err error) bool {
	_, ok := errors.AsType[rpctypes.EtcdError](err)
	return ok || strings.Contains(err.Error(), "etcdserver: ")
}

// byProxy names the proxy that connections lead through, if there is one. gRPC takes that of HTTPS.
func byProxy(endpoints []string) string {
	for _, e := range endpoints {
		if u, err := client.URL(e); err == nil {
			if proxy := client.ByProxy(&url.URL{Scheme: "https", Host: u.Host}); proxy != "" {
				return proxy
			}
		}
	}
	return ""
}

// fail adds to err its class and what an operator must do, and removes secrets.
func (d *driver) fail(err error) error {
	if err == nil {
		return nil
	}
	c, hint := class(err), ""
	switch {
	case is(err, rpctypes.ErrPermissionDenied):
		hint = "; an administrator can grant what is needed: etcdctl role grant-permission ROLE readwrite --prefix=true " + string(d.keys)
	case is(err, rpctypes.ErrUserEmpty):
		hint = "; the cluster has users: set username and password"
	case is(err, rpctypes.ErrNoSpace):
		hint = "; compact and defragment the cluster, then: etcdctl alarm disarm"
	case is(err, rpctypes.ErrTooManyOps):
		hint = "; the cluster runs with a --max-txn-ops below its default of 128"
	case is(err, rpctypes.ErrRequestTooLarge):
		hint = "; the cluster runs with a --max-request-bytes below its default of 1.5 MiB"
	case status.Code(err) == codes.Unimplemented:
		hint = "; is this the address of an etcd 3.4 or later?"
	case !answered(err) && d.ownClient: // others may dial as they like
		hint = byProxy(d.client.Endpoints())
	}
	if d.login != nil {
		err = clean.Secrets(err, append(d.login.token.All(), d.login.password.All()...)...)
	}
	if errors.Is(err, c) {
		return fmt.Errorf("%w%s", err, hint)
	}
	return fmt.Errorf("%w: %w%s", c, err, hint)
}
