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
	"github.com/go-election/go-election/backend/clean"
)

// Name is the registered name of this backend.
const Name = "consul"

// Options says where the Consul agent is and which keys are used. No environment variable
// is read (CONSUL_HTTP_ADDR, CONSUL_HTTP_TOKEN and the like).
type Options struct {
	// Address of the agent: host:port, http://…, https://… or unix:///path, with a path
	// if a proxy needs one. It must not contain credentials. Default: 127.0.0.1:8500.
	Address string

	// Token is the ACL token. It is never shown. TokenFile names a file that contains it
	// instead. The file is read again when the token is refused; while it contains no
	// token, the last one stays in use. Default: none.
	Token, TokenFile string

	// CAFile has the trusted certificates, CertFile and KeyFile the client's own, all in
	// PEM. ServerName is the expected name in the agent's certificate. Any of them, or
	// TLS, needs an https address. Default: the system's authorities and no client
	// certificate.
	CAFile, CertFile, KeyFile, ServerName string

	// TLS replaces those files. It is copied.
	TLS *tls.Config

	// Datacenter, Namespace and Partition are where keys and session live. Datacenter
	// must be the agent's, since sessions are made on its node. The others need Consul
	// Enterprise. Default: those of the agent and the token.
	Datacenter, Namespace, Partition string

	// Prefix of all keys: 1 to 128 bytes, without a slash at either end. Default:
	// "election".
	Prefix string

	// Checks and ServiceChecks name health checks of the agent's node, such as serfHealth,
	// that must pass for this process to lead. When one fails, Consul ends the session and
	// the leader steps down. The package comment says what that costs. Default: none.
	Checks, ServiceChecks []string

	// HTTPClient makes the requests, for programs that dial or authenticate in their own
	// way. Its Timeout must be 0. It excludes the TLS fields. The token is added to its
	// requests. Redirects are not followed.
	HTTPClient *http.Client

	// Client is used as it is: the fields about address, token, TLS and datacenter are
	// ignored, and Namespace and Partition must be those of Client. Each call brings its
	// own context.
	Client *api.Client
}

// A Backend keeps leases in Consul. It implements [backend.Backend].
type Backend struct {
	client *api.Client
	secret *secret // nil with Options.Client
	idle   func()  // closes idle connections
	keys   keys
	host   string // or the path of a unix socket; empty with Options.Client

	checks, serviceChecks []string
	namespace, partition  string // of each operation in a transaction

	announced announced

	renewMutex  chan struct{} // held during a renewal
	session     session
	heartbeats  heartbeats
	memory      memory
	vacant      vacantCache
	listenIndex listenIndex
	snapshot    snapshot
	listened    listenResult

	owner backend.SingleOwner

	mu          sync.Mutex
	lastCleanup time.Time
}

var (
	_ backend.Backend = (*Backend)(nil)
	_ backend.Marker  = (*Backend)(nil)
)

// Format prints only the name of the type, whatever the verb: the fields may be secret.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "consul.Options") }

// Format prints only the name of the type, whatever the verb: the fields may be secret.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, "consul.Backend") }

func init() {
	backend.Register(Name, func(decode func(any) error) (backend.Backend, error) {
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
			return OpenFirefly(o, fleet)
		case c.Layout != "" && c.Layout != "native":
			return nil, fmt.Errorf("consul: %w: layout is %.40q; it must be native or firefly", backend.ErrInvalid, c.Layout)
		case fleet != Fleet{}:
			return nil, fmt.Errorf("consul: %w: failover_delay, confirm_number, confirm_interval and session_ttl need layout firefly, and layout is %q", backend.ErrInvalid, "native")
		}
		return Open(o)
	})
}

// Open checks o and returns a Backend. It does not connect to the agent; the first call does.
// Errors are [backend.ErrInvalid].
func Open(o Options) (*Backend, error) {
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
			return nil, fmt.Errorf("consul: %w: prefix %q has a part that is \"\", \".\" or \"..\"", backend.ErrInvalid, o.Prefix)
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

// maxTTL is the greatest TTL. The lock-delay must not be shorter, and Consul allows one
// minute at most.
const maxTTL = time.Minute

// Location implements [backend.Located]. It is empty with Options.Client, which does not
// tell its address.
func (b *Backend) Location() string { return b.place(b.keys.prefix) }

func (b *Backend) place(prefix string) string {
	if b.host == "" {
		return ""
	}
	return clean.Location(prefix, b.host)
}

// Guarantees implements [backend.Backend].
func (b *Backend) Guarantees() backend.Guarantees {
	return backend.Guarantees{
		Name: Name,
		// A call makes up to three requests within a quarter of the TTL. Two of them
		// wait for the disks of a quorum. Servers that lose their leader need seconds anyway.
		MinTTL: time.Second, MaxTTL: maxTTL,
		// Consul ends a session after up to twice its TTL, and then the lock-delay
		// runs. Challengers do not wait for that.
		Expiry: backend.ByChallengers,
		// A session that ended early leaves a lock-delay of one TTL, which runs during
		// the watch. The server's clock decides when it is over.
		Takeover: 250 * time.Millisecond,
		Push:     true, Poll: true, // Listen reports changes, but not renewals
		Marks: true, Exclusive: true, DurableTerms: true,
	}
}

// closeLimit bounds the cleanup in Close.
const closeLimit = 250 * time.Millisecond

// Close closes the connections. It does not release leases. It destroys the session only if
// this process holds nothing.
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

// enter begins a call for the candidate with this nonce, or for no candidate ("").
func (b *Backend) enter(ctx context.Context, verb string, nonce backend.Nonce) error {
	return b.wrap(verb, b.owner.Enter(ctx, nonce))
}
