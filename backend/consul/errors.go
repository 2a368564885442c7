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
	// errConflict says that a transaction was not applied because a key has changed.
	errConflict = fmt.Errorf("%w: the key has changed meanwhile", backend.ErrUnavailable)

	// errFiltered says that the servers have left out keys.
	errFiltered = errors.New("permission denied: keys are missing in the answer")

	errNoIndex = fmt.Errorf("%w: the answer has no X-Consul-Index: let the proxy before the agent pass this header", backend.ErrDenied)
)

// Wrap adds to err the name of the backend and the operation, and what Fail adds.
func (a *agent) Wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("consul: %s: %w", what, a.Fail(err))
}

// Fail adds to err its class and what an operator can do.
func (a *agent) Fail(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrDenied) || errors.Is(err, backend.ErrInvalid) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		if backend.Class(err) == backend.ErrDenied { // not only status 403 says so: lists lack keys, too
			a.token.ReadAgain(a.tokenFile)
		}
		return a.redact(err)
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
	case has("'key:read'", "'key:list'") || errors.Is(err, errFiltered):
		class, hint = backend.ErrDenied, fmt.Sprintf("; an observer's token must be allowed this: key_prefix %q { policy = \"list\" }; and a member's: %s", a.Prefix+"/", a.Policy)
	case has("ermission denied"):
		class, hint = backend.ErrDenied, "; the token must be allowed this: "+a.Policy
	case has("ACL not found", "ACL support disabled", "response code: 403", "response code: 401", "invalid header field"), code == 401, code == 403:
		class = backend.ErrDenied
	case has("No path to datacenter", "Enterprise feature"):
		class, hint = backend.ErrDenied, "; correct the option that names it"
	case has("x509: ", "tls: ", "HTTP request to an HTTPS server", "server gave HTTP response to HTTPS client"):
		class = backend.ErrDenied
	case has("unknown KV operation", "unknown KV verb", "Failed to parse body"):
		class, hint = backend.ErrDenied, "; Consul 1.14 or later is needed"
	case has("#txn_max_req_len"):
		class, hint = backend.ErrDenied, "; raise txn_max_req_len of the agents"
	case code == 413, has("is too large"): // a program's own client keeps the code of a transaction to itself
		class, hint = backend.ErrDenied, "; raise kv_max_value_size of the agents"
	case has(tooManyConns):
		hint = "; the agent allows one address no more (http_max_conns_per_client)"
	case code == 404, code == 405, code == 407, code >= 300 && code < 400:
		class, hint = backend.ErrDenied, "; is this the address of a Consul agent?"
	}
	if class == backend.ErrDenied {
		a.token.ReadAgain(a.tokenFile)
	}
	return a.redact(fmt.Errorf("%w: %w%s", class, err, hint))
}

// redact removes the token and its predecessors from the text.
func (a *agent) redact(err error) error {
	if err == nil {
		return nil
	}
	return clean.Secrets(err, a.token.All()...)
}

// refusal returns why a transaction was not applied.
func refusal(answer *api.KVTxnResponse) error {
	if answer == nil || len(answer.Errors) == 0 {
		return errConflict
	}
	text := answer.Errors[0].What
	if strings.Contains(text, "ermission denied") || strings.Contains(text, "ACL not found") || strings.Contains(text, "unknown KV ") {
		return errors.New(text)
	}
	return fmt.Errorf("%w: %s", errConflict, clean.Text(text, 200, false))
}
