package consul

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// Name is the registered name of this backend.
const Name = "consul"

// Options says where the Consul agent is and which keys are used. No environment variable
// is read (CONSUL_HTTP_ADDR, CONSUL_HTTP_TOKEN and the like).
type Options struct {
	// Address of the agent: host:port, http://…, https://… or unix:///path, with a path
	// if a proxy needs one. It must not contain credentials. Default: 127.0.0.1:8500.
	Address string `yaml:"address" json:"address"`

	// Token is the ACL token. It is never shown. TokenFile names a file that contains it
	// instead. The file is read again when the token is refused; while it contains no
	// token, the last one stays in use. Default: none.
	Token     string `yaml:"token" json:"token"`
	TokenFile string `yaml:"token_file" json:"token_file"`

	// CAFile has the trusted certificates, CertFile and KeyFile the client's own, all in
	// PEM. ServerName is the expected name in the agent's certificate. Any of them, or
	// TLS, needs an https address. Default: the system's authorities and no client
	// certificate.
	CAFile     string `yaml:"ca_file" json:"ca_file"`
	CertFile   string `yaml:"cert_file" json:"cert_file"`
	KeyFile    string `yaml:"key_file" json:"key_file"`
	ServerName string `yaml:"server_name" json:"server_name"`

	// TLS replaces those files. It is copied.
	TLS *tls.Config `yaml:"-" json:"-"`

	// Datacenter, Namespace and Partition are where keys and session live. Datacenter
	// must be the agent's, since sessions are made on its node. The others need Consul
	// Enterprise. Default: those of the agent and the token.
	Datacenter string `yaml:"datacenter" json:"datacenter"`
	Namespace  string `yaml:"namespace" json:"namespace"`
	Partition  string `yaml:"partition" json:"partition"`

	// Prefix of all keys: 1 to 128 bytes, without a slash at either end. Default:
	// "election".
	Prefix string `yaml:"prefix" json:"prefix"`

	// Checks and ServiceChecks name health checks of the agent's node, such as serfHealth,
	// that must pass for this process to lead. When one fails, Consul ends the session and
	// the leader steps down. The package comment says what that costs. Default: none.
	Checks        []string `yaml:"checks" json:"checks"`
	ServiceChecks []string `yaml:"service_checks" json:"service_checks"`

	// HTTPClient makes the requests, for programs that dial or authenticate in their own
	// way. Its Timeout must be 0. It excludes the TLS fields. The token is added to its
	// requests. Redirects are not followed.
	HTTPClient *http.Client `yaml:"-" json:"-"`

	// Client is used as it is: the fields about address, token, TLS and datacenter are
	// ignored, and Namespace and Partition must be those of Client. Each call brings its
	// own context.
	Client *api.Client `yaml:"-" json:"-"`
}

// A Backend keeps leases in Consul. It implements [backend.Backend].
type Backend struct {
	agent *Agent
	keys  keys

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
	_ backend.Backend     = (*Backend)(nil)
	_ backend.Marker      = (*Backend)(nil)
	_ backend.Preflighter = (*Backend)(nil)
	_ backend.Inspector   = (*Backend)(nil)
)

// Format prints only the name of the type, whatever the verb: the fields may be secret.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "consul.Options") }

// Format prints only the name of the type, whatever the verb: the fields may be secret.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, "consul.Backend") }

func init() {
	backend.Register(Name, func(decode func(any) error) (backend.Backend, error) {
		var o Options
		if err := decode(&o); err != nil {
			return nil, err
		}
		return Open(o)
	})
}

// Open checks o and returns a Backend. It does not connect to the agent; the first call does.
// Errors are [backend.ErrInvalid].
func Open(o Options) (*Backend, error) {
	a, err := Connect(Name, o)
	if err != nil {
		return nil, err
	}
	a.Policy = fmt.Sprintf("key_prefix %q { policy = \"write\" } session_prefix \"\" { policy = \"write\" }", a.Prefix+"/")
	b := &Backend{agent: a, keys: newKeys(a.Prefix), renewMutex: make(chan struct{}, 1)}
	b.session.createMutex = make(chan struct{}, 1)
	return b, nil
}

// maxTTL is the greatest TTL. The lock-delay must not be shorter, and Consul allows one
// minute at most.
const maxTTL = time.Minute

// Location implements [backend.Located]. It is empty with Options.Client, which does not
// tell its address.
func (b *Backend) Location() string { return b.agent.Location(b.keys.prefix) }

// Inspect implements [backend.Inspector], with [Agent.Inspect].
func (b *Backend) Inspect(ctx context.Context, _, _ time.Duration) ([]backend.Diagnostic, error) {
	if err := b.enter(ctx, "inspect", ""); err != nil {
		return nil, err
	}
	return b.agent.Inspect(ctx)
}

// Preflight implements [backend.Preflighter]. It tries the keys of grants, and makes the session, as
// for a bid.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	err := b.enter(ctx, "preflight", bids[0].Candidate.Nonce)
	if err == nil {
		_, err = b.openSession(ctx, bids[0].Candidate, min(bids[0].TTL, maxTTL))
	}
	errs, sets := make([]error, len(bids)), make([][]string, len(bids))
	for i, bid := range bids {
		sets[i] = []string{b.keys.lock + bid.Election, b.keys.term + bid.Election, b.keys.changes}
		errs[i] = err
	}
	if err == nil {
		errs = b.agent.TryWrites(ctx, sets)
	}
	for i, err := range errs {
		errs[i] = b.wrap(describe("preflight", 1, bids[i].Election), err)
	}
	return errs
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
	b.agent.Close()
	return nil
}

func (b *Backend) wrap(what string, err error) error { return b.agent.Wrap(what, err) }

// enter begins a call for the candidate with this nonce, or for no candidate ("").
func (b *Backend) enter(ctx context.Context, verb string, nonce backend.Nonce) error {
	return b.wrap(verb, b.owner.Enter(ctx, nonce))
}
