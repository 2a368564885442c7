package curator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-election/go-election/backend"
	"github.com/go-zookeeper/zk"
)

// Classes of the library's errors. All others are ErrUnavailable.
var (
	deniedErrors = []error{zk.ErrNoAuth, zk.ErrAuthFailed, zk.ErrInvalidACL, zk.ErrNoChildrenForEphemerals}

	// opErrors are the errors of single writes of a multi. The other writes of a failed
	// multi have one that only says that the multi has failed.
	opErrors = []error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNoAuth, zk.ErrNotEmpty, zk.ErrInvalidACL, zk.ErrNoChildrenForEphemerals}
)

func isOpError(err error) bool { return slices.Contains(opErrors, err) }

func isTLS(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok { // from the server: it may require another client certificate
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok
}

// hints say what to do about error codes that the library does not know.
var hints = map[string]string{
	"unknown error: -124": "the servers require clients to authenticate (enforce.auth.enabled, sessionRequireClientSASLAuth): set a user, or another scheme there; SASL is not supported",
	"unknown error: -125": "a quota is exceeded: raise it (zkCli.sh: listquota, setquota)",
}

// wrap wraps err for the caller: what was done, and the class.
func (b *Backend) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrDenied) || errors.Is(err, backend.ErrInvalid) {
		return fmt.Errorf("curator: %s: %w", what, err) // already has its class
	}
	class, hint := backend.ErrUnavailable, ""
	for text, hint := range hints {
		if strings.Contains(err.Error(), text) {
			return fmt.Errorf("curator: %s: %w: %w; %s", what, backend.ErrDenied, err, hint)
		}
	}
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		class, hint = backend.ErrDenied, fmt.Sprintf("; %s needs read, write, create and delete below %s and at %s (zkCli.sh: getAcl -R %s)",
			b.userName(), b.options.Root, b.layout.pathTemplate, b.options.Root)
	case slices.ContainsFunc(deniedErrors, func(e error) bool { return errors.Is(err, e) }):
		class = backend.ErrDenied
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("curator: %s: %w: %w", what, class, err)
	}
	return fmt.Errorf("curator: %s: %w: %w%s", what, class, err, hint)
}

// userName names the configured user, without a secret.
func (b *Backend) userName() string {
	if b.options.User == "" {
		return "everybody (no user is configured)"
	}
	return fmt.Sprintf("user %.80q", b.options.User)
}
