package consul

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// Name is how this backend is registered.
const Name = "consul"

// Options says where the Consul agent is and which keys are used. No variable of
// the environment is read (CONSUL_HTTP_ADDR, CONSUL_HTTP_TOKEN and the like).
type Options struct {
	// Address of the agent: host:port, http://…, https://… or unix:///path, with
	// a path if a proxy wants one. Default: 127.0.0.1:8500. It must not contain
	// credentials.
	Address string

	// Token is the ACL token. It is never shown. TokenFile names a file with it
	// instead, which is read again when the token is refused; while that holds none the
	// last one stays. Default: none.
	Token, TokenFile string

	// CAFile has the certificates to trust, CertFile and KeyFile are the client's
	// own, all in PEM. ServerName is the name to expect in the agent's certificate.
	// Any of them, or TLS, needs an https address. Default: the system's
	// authorities and no client certificate.
	CAFile, CertFile, KeyFile, ServerName string

	// TLS is the same, for programs. It excludes those files. It is copied.
	TLS *tls.Config

	// Datacenter, Namespace and Partition are where keys and session live. The
	// datacenter is the agent's, as sessions are made on its node; the others need
	// Consul Enterprise. Default: those of agent and token.
	Datacenter, Namespace, Partition string

	// Prefix of all keys, without slash at its ends. 1 to 128 bytes. Default:
	// "election".
	Prefix string

	// Checks and ServiceChecks name health checks of the agent's node, such as
	// serfHealth, which must pass for this process to lead: a check that fails
	// ends the session and the process steps down. See the package doc for what
	// that costs. Default: none.
	Checks, ServiceChecks []string

	// HTTPClient makes the requests, for programs that have their own way to dial
	// or authenticate. Its Timeout must be 0. It excludes the TLS fields.
	// Token is added to what it sends. Redirects are not followed.
	HTTPClient *http.Client

	// Client is used as it is, so the fields about address, token, TLS and
	// datacenter are ignored; Namespace and Partition must be those of Client.
	// Calls bring their own contexts.
	Client *api.Client
}

// A Backend keeps leases in Consul. It implements [backend.Backend].
type Backend struct {
	client *api.Client
	secret *secret // nil with Options.Client
	idle   func()  // closes idle connections
	keys   keys
	host   string // or the path of a unix socket; "" with Options.Client

	checks, serviceChecks []string
	namespace, partition  string // for each operation

	announced announced

	renewMutex chan struct{} // taken by a renewal
	session    session
	heartbeats heartbeats
	memory     memory
	vacant     vacantCache
	index      listenIndex
	snapshot   snapshot
	listened   listenResult

	owner backend.SingleOwner

	mu          sync.Mutex
	lastCleanup time.Time
}

var _ backend.Backend = (*Backend)(nil)

// Format prints the name of the type and nothing that may be secret, whatever the
// verb.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "consul.Options") }

// Format prints the name of the type and nothing that may be secret, whatever the
// verb.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, "consul.Backend") }

func init() {
	backend.Register(Name, func(ctx context.Context, decode func(any) error) (backend.Backend, error) {
		var c struct {
			Address       string   `yaml:"address" json:"address"`
			Token         string   `yaml:"token" json:"token"`
			TokenFile     string   `yaml:"token_file" json:"token_file"`
			CAFile        string   `yaml:"ca_file" json:"ca_file"`
			CertFile      string   `yaml:"cert_file" json:"cert_file"`
			KeyFile       string   `yaml:"key_file" json:"key_file"`
			ServerName    string   `yaml:"server_name" json:"server_name"`
			Datacenter    string   `yaml:"datacenter" json:"datacenter"`
			Namespace     string   `yaml:"namespace" json:"namespace"`
			Partition     string   `yaml:"partition" json:"partition"`
			Prefix        string   `yaml:"prefix" json:"prefix"`
			Checks        []string `yaml:"checks" json:"checks"`
			ServiceChecks []string `yaml:"service_checks" json:"service_checks"`

			Layout          string        `yaml:"layout" json:"layout"`
			FailoverDelay   time.Duration `yaml:"failover_delay" json:"failover_delay"`
			ConfirmNumber   int           `yaml:"confirm_number" json:"confirm_number"`
			ConfirmInterval time.Duration `yaml:"confirm_interval" json:"confirm_interval"`
			SessionTTL      time.Duration `yaml:"session_ttl" json:"session_ttl"`
		}
		if err := decode(&c); err != nil {
			return nil, err
		}
		o := Options{
			Address: c.Address, Token: c.Token, TokenFile: c.TokenFile,
			CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile, ServerName: c.ServerName,
			Datacenter: c.Datacenter, Namespace: c.Namespace, Partition: c.Partition,
			Prefix: c.Prefix, Checks: c.Checks, ServiceChecks: c.ServiceChecks,
		}
		fleet := Fleet{FailoverDelay: c.FailoverDelay, ConfirmNumber: c.ConfirmNumber, ConfirmInterval: c.ConfirmInterval, SessionTTL: c.SessionTTL}
		switch {
		case c.Layout == "firefly":
			return OpenFirefly(ctx, o, fleet)
		case c.Layout != "" && c.Layout != "native":
			return nil, fmt.Errorf("consul: %w: layout is %.40q; it must be native or firefly", backend.ErrInvalid, c.Layout)
		case fleet != Fleet{}:
			return nil, fmt.Errorf("consul: %w: failover delay, confirm_number, confirm_interval and session_ttl are for layout firefly, and layout is %q", backend.ErrInvalid, "native")
		}
		return Open(ctx, o)
	})
}

// Open checks o and returns a Backend. It does not talk to the agent, which may
// be down: the first call does. Errors are [backend.ErrInvalid].
func Open(_ context.Context, o Options) (*Backend, error) {
	if o.Prefix == "" {
		o.Prefix = "election"
	}
	if err := backend.CheckText("prefix", o.Prefix, 128, false); err != nil {
		return nil, fmt.Errorf("consul: %w", err)
	}
	if strings.HasPrefix(o.Prefix, "/") || strings.HasSuffix(o.Prefix, "/") {
		return nil, fmt.Errorf("consul: %w: prefix %q begins or ends with a slash", backend.ErrInvalid, o.Prefix)
	}
	for part := range strings.SplitSeq(o.Prefix, "/") {
		if part == "" || part == "." || part == ".." { // agents redirect such paths
			return nil, fmt.Errorf("consul: %w: prefix %q has a part that is empty or made of dots", backend.ErrInvalid, o.Prefix)
		}
	}
	b := &Backend{keys: newKeys(o.Prefix), renewMutex: make(chan struct{}, 1)}
	b.checks, b.serviceChecks = o.Checks, o.ServiceChecks
	b.namespace, b.partition = o.Namespace, o.Partition
	b.session.createMutex = make(chan struct{}, 1)
	if err := b.connect(o); err != nil {
		return nil, err
	}
	return b, nil
}

// maxTTL is the greatest TTL: Consul's lock-delay, which must not be shorter, is
// a minute at most.
const maxTTL = time.Minute

// Location implements [backend.Located]. It is empty with a Client, which does not tell its address.
func (b *Backend) Location() string { return b.place(b.keys.prefix) }

func (b *Backend) place(prefix string) string {
	if b.host == "" {
		return ""
	}
	return backend.Place(prefix, b.host)
}

// Guarantees says what Consul can promise.
func (b *Backend) Guarantees() backend.Guarantees {
	return backend.Guarantees{
		Name: Name,
		// A call is up to three requests, two of which wait for the disks of a
		// quorum, within a quarter of the TTL. Servers that lose their leader
		// need seconds anyway.
		MinTTL: time.Second, MaxTTL: maxTTL,
		// Consul's own expiry, after up to twice the session's TTL and the
		// lock-delay, is not waited for.
		Expiry: backend.ByChallengers,
		// A session that died early leaves a lock-delay of one TTL, which runs
		// beside the watch; the server's clock decides when it is over.
		Takeover: 250 * time.Millisecond,
		Push:     true, Poll: true, // changes are pushed, renewals are not
		Marks: true, Exclusive: true, DurableTerms: true,
	}
}

// closeLimit bounds what Close does for tidiness.
const closeLimit = 250 * time.Millisecond

// Close closes the connections. It does not release leases: the session stays
// unless nothing hangs on it.
func (b *Backend) Close() error {
	if !b.owner.Close() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	b.destroyIdleSession(ctx)
	b.idle()
	return nil
}

// enter begins a call for the candidate with this nonce, or for nobody ("").
func (b *Backend) enter(ctx context.Context, verb, nonce string) error {
	return b.wrap(verb, b.owner.Enter(ctx, nonce))
}
