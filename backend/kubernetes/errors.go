package kubernetes

import (
	"errors"
	"fmt"
	"strings"

	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

var (
	// errBack says that the store of the API server was taken back to an earlier state.
	errBack = fmt.Errorf("%w: the cluster's store went back to an earlier state; every lease is watched anew", backend.ErrUnavailable)

	errBusy = fmt.Errorf("%w: other processes kept changing the same Lease", backend.ErrUnavailable)
)

// conflict reports whether a write was refused because the Lease is not as it was read.
func conflict(err error) bool {
	return api.IsConflict(err) || api.IsAlreadyExists(err) || errors.Is(err, errLed)
}

// fullEtcd is how the API server passes on that its etcd takes no more writes.
const fullEtcd = "database space exceeded"

// class returns the class of an error of the client.
func class(err error) error {
	text := err.Error()
	switch {
	case api.IsForbidden(err), api.IsUnauthorized(err), api.IsInvalid(err), api.IsBadRequest(err), api.IsMethodNotSupported(err), api.IsRequestEntityTooLargeError(err),
		api.IsNotFound(err), api.IsNotAcceptable(err), api.IsUnsupportedMediaType(err), strings.Contains(text, "x509: "), strings.Contains(text, "tls: "), strings.Contains(text, fullEtcd):
		return backend.ErrDenied
	}
	return backend.ErrUnavailable
}

// fail adds to an error of the client its class and what an operator must do, and removes secrets. An error
// that has a class is one of this package, or was here before.
func (b *Backend) fail(err error) error {
	if err == nil || errors.Is(err, backend.Class(err)) {
		return err
	}
	c, hint := class(err), ""
	switch {
	case api.IsForbidden(err) && strings.Contains(err.Error(), " cannot "): // otherwise by a quota, say
		hint = "; an administrator can grant what is needed: kubectl create role election -n " + b.namespace + " --resource=leases.coordination.k8s.io --verb=get,list,watch,create,update,delete"
	case strings.Contains(err.Error(), fullEtcd):
		hint = "; compact and defragment the cluster's etcd, then: etcdctl alarm disarm"
	case api.ReasonForError(err) == meta.StatusReasonUnknown:
		hint = b.proxy
	case api.IsUnauthorized(err):
		hint = "; the token or certificate is not valid, or has expired"
	case api.IsNotFound(err) && strings.Contains(err.Error(), "namespaces "):
		hint = fmt.Sprintf("; does the namespace %q exist?", b.namespace)
	}
	return fmt.Errorf("%w: %w%s", c, clean.Secrets(err, b.transport.all()...), hint)
}

// wrap says what was done when err came. err is classed.
func wrap(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, backend.Class(err)): // of no class, such as a context's
		return fmt.Errorf("kubernetes: %s: %w: %w", what, backend.Class(err), err)
	}
	return fmt.Errorf("kubernetes: %s: %w", what, err)
}

// about describes a call in errors.
func about(verb string, n int, first string) string {
	if n == 1 {
		return fmt.Sprintf("%s %q", verb, first)
	}
	return fmt.Sprintf("%s %d leases", verb, n)
}

// allFailed returns the first error if none of the answers has an outcome.
func allFailed(answers []backend.Answer) error {
	for i := range answers {
		if answers[i].Outcome != backend.Unknown {
			return nil
		}
	}
	return answers[0].Err
}
