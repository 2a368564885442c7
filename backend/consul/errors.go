package consul

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

var (
	errConflict = fmt.Errorf("%w: the key has changed meanwhile", backend.ErrUnavailable)
	errDelayed  = fmt.Errorf("%w: Consul's lock-delay has not passed, since a session that held the key ended early", backend.ErrUnavailable)
	errFiltered = errors.New("permission denied: keys are missing in the answer") // see wrap
)

// policy returns the rights that the token needs, on one line for logs.
func (b *Backend) policy() string {
	text := fmt.Sprintf("key_prefix %q { policy = \"write\" } session_prefix \"\" { policy = \"write\" }", b.keys.prefix+"/")
	if !strings.HasPrefix(b.keys.leases, b.keys.prefix+"/") { // layout firefly
		text += fmt.Sprintf(" key_prefix %q { policy = \"write\" }", b.keys.leases)
	}
	return text
}

// wrap adds to err the operation, the class, and what an operator can do.
func (b *Backend) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrDenied) || errors.Is(err, backend.ErrInvalid) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		if backend.Class(err) == backend.ErrDenied {
			b.reloadToken()
		}
		return b.redact(fmt.Errorf("consul: %s: %w", what, err))
	}
	class, hint := backend.ErrUnavailable, ""
	text, code := err.Error(), 0
	if s, ok := errors.AsType[api.StatusError](err); ok {
		code = s.Code
	}
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		class, hint = backend.ErrDenied, "; this process lacks permission to open the agent's socket"
	case has("ermission denied"):
		class, hint = backend.ErrDenied, "; the token must be allowed this: "+b.policy()
	case has("ACL not found", "ACL support disabled", "response code: 403", "response code: 401", "invalid header field"), code == 401, code == 403:
		class = backend.ErrDenied
	case has("No path to datacenter", "Enterprise feature", "Missing check"):
		class, hint = backend.ErrDenied, "; correct the option that names it"
	case has("Missing node registration"):
		class, hint = backend.ErrDenied, "; sessions are made on the agent's node: Datacenter must be the agent's own, and the node must be registered there"
	case has("x509: ", "tls: ", "HTTP request to an HTTPS server", "server gave HTTP response to HTTPS client"):
		class = backend.ErrDenied
	case has("Invalid Session TTL"):
		class, hint = backend.ErrDenied, "; lower session_ttl_min of the servers"
	case has("unknown KV operation", "unknown KV verb", "Failed to parse body"):
		class, hint = backend.ErrDenied, "; Consul 1.14 or later is needed"
	case code == 404, code >= 300 && code < 400:
		class, hint = backend.ErrDenied, "; is this the address of a Consul agent?"
	}
	if class == backend.ErrDenied {
		b.reloadToken()
	}
	return b.redact(fmt.Errorf("consul: %s: %w: %w%s", what, class, err, hint))
}

// reloadToken reads the token's file again for the next request. Not only status 403 shows
// that a right is missing: answers to transactions say it, and lists lack keys.
func (b *Backend) reloadToken() {
	if b.secret != nil && b.secret.file != "" {
		b.secret.reload()
	}
}

// redact removes the token and its predecessors from the text.
func (b *Backend) redact(err error) error {
	if b.secret == nil {
		return err
	}
	return clean.Secrets(err, b.secret.all()...)
}

// describe names a call and its election or the number of leases, for errors.
func describe(verb string, n int, first string) string {
	if n == 1 {
		return fmt.Sprintf("%s %q", verb, first)
	}
	return fmt.Sprintf("%s %d leases", verb, n)
}
