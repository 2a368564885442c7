package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

var errBusy = fmt.Errorf("%w: other processes kept changing the same keys", backend.ErrUnavailable)

// about describes a call in errors.
func about(verb string, n int, first string) string {
	if n == 1 {
		return fmt.Sprintf("%s %q", verb, first)
	}
	return fmt.Sprintf("%s %d leases", verb, n)
}

// code returns the gRPC code of err.
func code(err error) codes.Code {
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return e.Code()
	}
	return status.Code(err)
}

// is reports whether err is one of etcd's own errors. Depending on the call, the client
// returns them as values or as text.
func is(err error, wanted ...error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	for _, w := range wanted {
		if errors.Is(err, w) || strings.Contains(text, rpctypes.ErrorDesc(w)) {
			return true
		}
	}
	return false
}

// tokenRefused reports whether a token was refused; then the call has changed nothing.
func tokenRefused(err error) bool {
	return is(err, rpctypes.ErrInvalidAuthToken, rpctypes.ErrUserEmpty, rpctypes.ErrAuthOldRevision)
}

// worthRetrying reports whether another member may succeed. An etcd lease that has ended
// at one member has ended at all.
func worthRetrying(err error) bool {
	return class(err) == backend.ErrUnavailable && !errors.Is(err, errLeaseEnded)
}

// class returns the class of err, as package backend defines it.
func class(err error) error {
	if err == nil {
		return nil
	}
	if c := backend.Class(err); c != backend.ErrUnavailable || errors.Is(err, backend.ErrUnavailable) {
		return c
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return backend.ErrUnavailable
	}
	switch {
	case is(err, rpctypes.ErrLeaseTTLTooLarge):
		return backend.ErrInvalid
	case is(err, rpctypes.ErrPermissionDenied, rpctypes.ErrAuthFailed, rpctypes.ErrUserNotFound, rpctypes.ErrUserEmpty, rpctypes.ErrInvalidAuthToken,
		rpctypes.ErrAuthNotEnabled, rpctypes.ErrNoSpace, rpctypes.ErrTooManyOps, rpctypes.ErrRequestTooLarge, rpctypes.ErrClusterIDMismatch, rpctypes.ErrCorrupt):
		return backend.ErrDenied
	case code(err) == codes.PermissionDenied, code(err) == codes.Unauthenticated:
		return backend.ErrDenied
	}
	// The client reports a failed handshake as a failed connection.
	if text := err.Error(); strings.Contains(text, "x509: ") || strings.Contains(text, "tls: ") {
		return backend.ErrDenied
	}
	return backend.ErrUnavailable
}

// fail wraps err for the caller: what was done, the class, and what an operator must do.
func (b *Backend) fail(what string, err error) error {
	if err == nil {
		return nil
	}
	c := class(err)
	hint := ""
	switch {
	case is(err, rpctypes.ErrPermissionDenied):
		hint = "; an administrator can grant what is needed: etcdctl role grant-permission ROLE readwrite --prefix=true " + string(b.keys)
	case is(err, rpctypes.ErrUserEmpty):
		hint = "; the cluster has users: set username and password"
	case is(err, rpctypes.ErrNoSpace):
		hint = "; compact and defragment the cluster, then: etcdctl alarm disarm"
	case is(err, rpctypes.ErrTooManyOps):
		hint = "; the cluster runs with a --max-txn-ops below its default of 128"
	}
	err = b.redact(err)
	if backend.Class(err) == c && (errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrDenied) || errors.Is(err, backend.ErrInvalid)) {
		return fmt.Errorf("etcd: %s: %w%s", what, err, hint) // err contains its class
	}
	return fmt.Errorf("etcd: %s: %w: %w%s", what, c, err, hint)
}

// redact removes the password and the tokens from the text.
func (b *Backend) redact(err error) error {
	if b.login == nil {
		return err
	}
	return clean.Secrets(err, b.login.secrets()...)
}
