package ensemble

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
)

// hints say what to do about codes that the client library does not know.
var hints = map[string]string{
	"unknown error: -124": "the servers require clients to authenticate (enforce.auth.enabled, sessionRequireClientSASLAuth): set a user, or another scheme there; SASL is not supported",
	"unknown error: -120": "the servers keep sessions to themselves (localSessionsEnabled): set localSessionsUpgradingEnabled",
	"unknown error: -125": "a quota is exceeded: raise it (zkCli.sh: listquota, setquota)",
}

// Fail adds to err its class and what an operator must do. where says at which paths which rights are
// needed.
func (a *Access) Fail(err error, where string) error {
	if err == nil || errors.Is(err, backend.Class(err)) {
		return err
	}
	for text, hint := range hints {
		if strings.Contains(err.Error(), text) {
			return fmt.Errorf("%w: %w; %s", backend.ErrDenied, err, hint)
		}
	}
	if errors.Is(err, zk.ErrNoAuth) {
		return fmt.Errorf("%w: %w; %s needs %s", backend.ErrDenied, err, a.user(), where)
	}
	return fmt.Errorf("%w: %w", Class(err), err)
}

// Class returns the class of an error of the library or of dialling.
func Class(err error) error {
	for _, denied := range []error{zk.ErrNoAuth, zk.ErrAuthFailed, zk.ErrInvalidACL, zk.ErrNoChildrenForEphemerals} {
		if errors.Is(err, denied) {
			return backend.ErrDenied
		}
	}
	if isTLS(err) {
		return backend.ErrDenied
	}
	return backend.Class(err)
}

// isTLS reports whether a handshake has failed in a way that trying again does not mend.
func isTLS(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok { // from the server: it may require another client certificate
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok
}

// user names the configured user, without a secret.
func (a *Access) user() string {
	if a.User == "" {
		return "everybody (no user is configured)"
	}
	return fmt.Sprintf("user %.80q", a.User)
}

// opErrors are the errors of single operations of a multi. The others of a failed multi have one that only
// says that the multi has failed.
var opErrors = []error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNoAuth, zk.ErrNotEmpty, zk.ErrInvalidACL, zk.ErrNoChildrenForEphemerals}

// failedOp says what has become of a multi of so many operations, from its answer. failed is the operation
// because of which it was not made, and why is its error; -1: the multi was made if why is nil, and otherwise
// its outcome is unknown.
func failedOp(operations int, results []zk.MultiResponse, err error) (failed int, why error) {
	if err == nil && len(results) != operations {
		err = fmt.Errorf("%d answers to %d operations", len(results), operations)
	}
	if err == nil {
		return -1, nil
	}
	for i, r := range results {
		if slices.Contains(opErrors, r.Error) {
			return i, r.Error
		}
	}
	return -1, err
}

// IsUnmet reports whether err says that a condition of an operation does not hold.
func IsUnmet(err error) bool {
	return errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists)
}
