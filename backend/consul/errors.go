package consul

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/client"
)

var (
	errConflict = fmt.Errorf("%w: the key has changed meanwhile", backend.ErrUnavailable)

	errFiltered = errors.New("permission denied: keys are missing in the answer")

	// errForeign is the answer of who knows nothing of Consul: a gateway, with status 200.
	errForeign = errors.New("the answer does not name what was written")

	errNoIndex = fmt.Errorf("%w: the answer has no X-Consul-Index: let the proxy pass it", backend.ErrDenied)

	// errFull is the answer of Listen while calls need its connection.
	errFull = fmt.Errorf("%w: the agent has no connection left for this process", backend.ErrUnavailable)
)

// tooManyConns is what an agent says that allows this address no more connections.
const tooManyConns = "too many concurrent connections"

// fail adds to err its class and what an operator can do, and removes the token and its predecessors.
func (d *driver) fail(err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, backend.Class(err)) { // it has none
		hint, class := d.classify(err)
		err = fmt.Errorf("%w: %w%s", class, err, hint)
	}
	switch text := err.Error(); {
	case errors.Is(err, backend.ErrDenied): // not only status 403 says so: lists lack keys, too
		d.token.ReadAgain(d.tokenFile)
	case strings.Contains(text, tooManyConns):
		d.full.Store(time.Now().UnixNano())
	}
	return clean.Secrets(err, d.token.All()...)
}

// classify returns a hint about an error, and its class.
func (d *driver) classify(err error) (hint string, class error) {
	text, code := err.Error(), 0
	if s, ok := errors.AsType[api.StatusError](err); ok {
		code = s.Code
	}
	_, page := errors.AsType[*json.SyntaxError](err)         // for people
	_, other := errors.AsType[*json.UnmarshalTypeError](err) // of another program
	again := []int{408, 409, 425, 429}
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	switch {
	case has("'key:read'", "'key:list'") || errors.Is(err, errFiltered):
		hint = fmt.Sprintf("; an observer's token must be allowed this: %s; and a member's: %s",
			d.policy("list"), d.policy("write"))
	case has("ermission denied") && !errors.Is(err, fs.ErrPermission): // of the agent's socket
		hint = "; the token must be allowed this: " + d.policy("write")
	case has("unknown KV operation", "unknown KV verb", "Failed to parse body"):
		hint = "; Consul 1.14 or later is needed"
	case code == 413, has("#txn_max_req_len", "is too large"): // a program's own client may hide the code
		hint = "; raise txn_max_req_len and kv_max_value_size of the agents, and the limit of a proxy"
	case has(tooManyConns):
		return "; raise http_max_conns_per_client of the agent", backend.ErrUnavailable
	case code == 401, code == 403, errors.Is(err, fs.ErrPermission), client.RefusesTLS(text),
		has("ACL not found", "ACL support disabled", "response code: 403", "response code: 401",
			"invalid header field", "No path to datacenter", "Enterprise feature",
			"HTTP request to an HTTPS server", "server gave HTTP response to HTTPS client"):
	case page, other, errors.Is(err, errForeign), code >= 300 && code < 500 && !slices.Contains(again, code):
		hint = "; is this the address of a Consul agent?"
	default:
		return "", backend.ErrUnavailable
	}
	return hint, backend.ErrDenied
}

// policy returns the right to write, or to list.
func (d *driver) policy(may string) string {
	return fmt.Sprintf("key_prefix %q { policy = %q }", d.prefix+"/", may)
}
