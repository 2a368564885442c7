package kubernetes

import (
	gonet "net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/go-election/go-election/internal/client"
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
	next, err := connections(config)
	if err != nil {
		return err
	}
	if t.now != nil {
		net.CloseIdleConnectionsFor(t.now)
	}
	t.now = next
	return nil
}

// connections returns what makes requests by a configuration. The library's own dials take half a minute if the first
// of several addresses of the API server drops packets.
func connections(config *rest.Config) (http.RoundTripper, error) {
	if config.Transport != nil {
		return rest.TransportFor(config)
	}
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	dialer := &client.Dialer{Dialer: gonet.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}}
	own := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext,
		TLSClientConfig: secure, TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 2 * maxRequests, IdleConnTimeout: 90 * time.Second,
		DisableCompression: config.DisableCompression,
	}
	if config.Proxy != nil {
		own.Proxy = config.Proxy
	}
	if config.Dial != nil {
		own.DialContext = config.Dial
	}
	return rest.HTTPWrappersForConfig(config, own)
}

// all returns the tokens and passwords that errors must not contain.
func (t *transport) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.secrets)
}
