package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/client"
)

// A place is where the Leases are. It is settled when a Backend is opened.
type place struct {
	config    *rest.Config
	namespace string
	through   string // what requests depend on besides the server, for errors
}

// place returns the place that o means, or the reason why o does not name one.
func (o *Options) place() (at place, err error) {
	switch {
	case o.Config != nil:
		at = place{config: rest.CopyConfig(o.Config), namespace: "default"}
	case os.Getenv("KUBERNETES_SERVICE_HOST") != "" && o.Kubeconfig+o.Context == "":
		at, err = o.pod()
	default:
		at, err = o.load()
	}
	if err != nil {
		return place{}, err
	}
	at.namespace = cmp.Or(o.Namespace, at.namespace)
	return at, at.prepare()
}

// prepare sets what a client of this package needs, and reads the files that the configuration names.
func (at *place) prepare() error {
	c := at.config
	c.QPS, c.RateLimiter, c.Timeout = -1, nil, 0
	if c.WarningHandler == nil && c.WarningHandlerWithContext == nil {
		c.WarningHandler = rest.NoWarnings{} // by default they are printed
	}
	if c.ExecProvider != nil { // it may hang
		at.through = fmt.Sprintf("; credentials come from the command %.80q", c.ExecProvider.Command)
	}
	c.UserAgent = cmp.Or(c.UserAgent, "go-election")
	server, _, err := rest.DefaultServerUrlFor(c)
	if err != nil { // its text has what may be secret
		return errors.New("the address of the API server is not a URL")
	}
	if c.Transport != nil {
		return nil
	}

	// With HTTP/2 all requests share a connection, and if it hangs, all are lost for longer than a TTL.
	c.NextProtos = []string{"http/1.1"}
	if c.Proxy == nil {
		if c.Dial == nil {
			at.through += client.ByProxy(server)
		}
		c.Proxy = http.ProxyFromEnvironment // as by default, but so the library keeps no transport for ever
	}
	if c.Dial == nil { // the library's own take half a minute if the first of several addresses drops packets
		dialer := new(client.Dialer)
		c.Dial = dialer.DialContext
	}
	return clean.FileError(rest.LoadTLSFiles(c))
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
	return place{config: config, namespace: strings.TrimSpace(string(text))}, nil
}

// load reads a kubeconfig; without a name, those that kubectl would read. Their current context and its
// namespace are for whoever uses kubectl, and change between the starts of two members. So the namespace must
// be named, and the context, too, if there are several.
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
		return at, fmt.Errorf("namespace is not set, and a kubeconfig has it for kubectl alone: set "+
			"namespace (kubectl uses %.80q now)", now)
	}
	if o.Context == "" && len(files.Contexts) > 1 {
		return at, fmt.Errorf("context is not set, and the kubeconfig has %d: two members may use two "+
			"clusters; set context (kubectl uses %.80q now)", len(files.Contexts), files.CurrentContext)
	}
	o.Context = cmp.Or(o.Context, files.CurrentContext) // when the file is read again, it may have others
	return at, nil
}

// errKubeconfig shows no part of the file, nor its path: either may be secret.
var errKubeconfig = errors.New("kubeconfig: there is none, it or a file that it names cannot be read, " +
	"it is not complete, or it has no such context; try: kubectl get leases")

// A transport makes requests with what is in the files of the Options. They are read again when the API
// server refuses the token or the certificate, or is not trusted itself: somebody may have replaced them. An
// answer is read as a whole: the library would print to stderr that it cannot read one.
type transport struct {
	options Options
	host    string // of the API server, which stays the same

	mu      sync.Mutex
	now     http.RoundTripper
	secrets client.Secret // that it has used, for errors
}

func (t *transport) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	next, watch := t.WrappedRoundTripper(), r.URL.Query().Has("watch")
	if watch {
		answer, err = next.RoundTrip(r)
	} else {
		answer, err = client.RoundTrip(next, r, false, func() { utilnet.CloseIdleConnectionsFor(next) })
	}
	if err == nil && answer.StatusCode == http.StatusUnauthorized ||
		err != nil && strings.Contains(err.Error(), "tls: ") {
		if at, err := t.options.place(); err == nil && at.config.Host == t.host {
			t.use(at.config) // for the next request; if it fails, the last one stays
		}
	}
	if err == nil && !watch {
		// Or the library waits, and with one lease all others of the call. The caller tries again by itself.
		answer.Header.Del("Retry-After")
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
	next, err := rest.TransportFor(config)
	if err != nil {
		return err
	}
	if t.now != nil {
		utilnet.CloseIdleConnectionsFor(t.now)
	}
	t.now = next
	return nil
}
