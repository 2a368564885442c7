package kubernetes

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// A transport makes requests with what is in the files of the Options. The client library reads some of them once: a
// kubeconfig, and the authorities. So they are read again when the API server refuses the token or the certificate, or is not
// trusted itself: somebody may have replaced them. A Config of the program's stays as it is.
type transport struct {
	options Options
	host    string // of the API server, which stays the same

	mu      sync.Mutex
	now     http.RoundTripper
	secrets []string // that it has used, for errors
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.WrappedRoundTripper().RoundTrip(r)
	refused := err == nil && answer.StatusCode == http.StatusUnauthorized || err != nil && strings.Contains(err.Error(), "x509: ")
	if refused && t.options.Config == nil {
		if at, err := t.options.place(); err == nil && at.config.Host == t.host {
			t.use(at.config) // for the next request; if it fails, the last one stays
		}
	}
	return answer, err
}

// WrappedRoundTripper returns what makes requests now. With it, the library finds the connections.
func (t *transport) WrappedRoundTripper() http.RoundTripper {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}

func (t *transport) use(config *rest.Config) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, secret := range []string{config.BearerToken, config.Password} {
		if !slices.Contains(t.secrets, secret) {
			t.secrets = append(t.secrets, secret)
		}
	}
	next, err := rest.TransportFor(config)
	if err == nil {
		t.now = next
	}
	return err
}

// all returns the tokens and passwords that errors must not contain.
func (t *transport) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.secrets)
}
