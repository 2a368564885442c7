package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	gonet "net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/client"
)

// A place is where the Leases are. It is settled when a Backend is opened.
type place struct {
	config    *rest.Config
	namespace string
	origin    string // of the namespace: who has named it
}

// place returns the place that o means, or the reason why o does not name one.
func (o *Options) place() (at place, err error) {
	inPod := os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	switch {
	case o.Config != nil:
		at = place{config: rest.CopyConfig(o.Config), namespace: "default", origin: "by default"}
	case inPod && o.Kubeconfig+o.Context == "":
		at, err = o.pod()
	default:
		at, err = o.load()
	}
	if err != nil {
		return place{}, err
	}
	if o.Namespace != "" {
		at.namespace, at.origin = o.Namespace, "as configured"
	}
	prepare(at.config)
	return at, nil
}

// prepare sets what a client of this package needs.
func prepare(config *rest.Config) {
	config.QPS, config.RateLimiter, config.Timeout = -1, nil, 0
	if config.WarningHandler == nil && config.WarningHandlerWithContext == nil {
		config.WarningHandler = rest.NoWarnings{} // by default they are printed
	}
	config.UserAgent = cmp.Or(config.UserAgent, "go-election")
	if config.Transport == nil {
		// With HTTP/2 all requests share a connection, and all are lost with it until it is
		// found to hang, which takes longer than a TTL.
		config.NextProtos = []string{"http/1.1"}
	}
}

// pod returns the place that the kubelet has put into this pod.
func (o *Options) pod() (at place, err error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return at, fmt.Errorf("service account of this pod: %w", clean.FileError(err))
	}
	text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil && o.Namespace == "" {
		return at, fmt.Errorf("namespace of this pod: %w; set namespace", clean.FileError(err))
	}
	return place{config: config, namespace: strings.TrimSpace(string(text)), origin: "that of this pod"}, nil
}

// load reads a kubeconfig; without a name, those that kubectl would read. Their current context and its namespace are
// for whoever uses kubectl, and change between the starts of two members. So the namespace must be named, and
// the context, too, if there are several.
func (o *Options) load() (at place, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	files, err := rules.Load()
	if err != nil {
		return at, errKubeconfig
	}
	client := clientcmd.NewNonInteractiveClientConfig(*files, o.Context, &clientcmd.ConfigOverrides{}, rules)
	if at.config, err = client.ClientConfig(); err != nil {
		return at, errKubeconfig
	}
	if o.Namespace == "" {
		now, _, _ := client.Namespace()
		return at, fmt.Errorf("namespace is not set, and a kubeconfig has it for kubectl alone, where it may change: set namespace (kubectl uses %.80q now)", now)
	}
	if o.Context == "" && len(files.Contexts) > 1 {
		return at, fmt.Errorf("context is not set, and the kubeconfig has %d: after \"kubectl config use-context\" the next process would go to another cluster; set context (kubectl uses %.80q now)",
			len(files.Contexts), files.CurrentContext)
	}
	return at, nil
}

// errKubeconfig shows no part of the file, nor its path: either may be secret.
var errKubeconfig = errors.New("kubeconfig: there is none, it cannot be read, it is not complete, or it has no such context; try: kubectl get leases")

// A transport makes requests with what is in the files of the Options. The client library reads some of them once: a
// kubeconfig, and the authorities. So they are read again when the API server refuses the token or the certificate, or is not
// trusted itself: somebody may have replaced them. A Config of the program's stays as it is.
type transport struct {
	options Options
	host    string // of the API server, which stays the same

	mu      sync.Mutex
	now     http.RoundTripper
	secrets client.Secret // that it has used, for errors
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
	if by, ends := r.Context().Deadline(); err == nil && ends {
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		if time.Until(by) < time.Duration(seconds)*time.Second {
			answer.Header.Del("Retry-After") // or the library waits for the end of the call, and does not say why
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
		if secret != "" {
			t.secrets.Set(secret)
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
