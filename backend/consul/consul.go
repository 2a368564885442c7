package consul

import (
	"crypto/tls"
	"fmt"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
)

// Name is the registered name of this backend.
const Name = "consul"

// Options says where the Consul agent is and which keys are used. No environment variable
// is read (CONSUL_HTTP_ADDR, CONSUL_HTTP_TOKEN and the like).
type Options struct {
	// Address of the agent: host:port, http://…, https://… or unix:///path, with a path
	// if a proxy needs one. It must not contain credentials. Default: 127.0.0.1:8500.
	Address string `yaml:"address" json:"address"`

	// Token is the ACL token. It is never shown. TokenFile is a file with the token, where it may be
	// replaced: it is read again when the token is refused; while it contains no token, the last one
	// stays in use. In a configuration it is token_file. Default: none.
	Token     string `yaml:"token" json:"token"`
	TokenFile string `yaml:"-" json:"-"`

	// CAFile has the trusted certificates, CertFile and KeyFile the client's own, all in PEM. ServerName is
	// the expected name in the agent's certificate. Any of them, or TLS, needs an https address. Default: the
	// system's authorities and no client certificate.
	CAFile     string `yaml:"ca_file" json:"ca_file"`
	CertFile   string `yaml:"cert_file" json:"cert_file"`
	KeyFile    string `yaml:"key_file" json:"key_file"`
	ServerName string `yaml:"server_name" json:"server_name"`

	// TLS replaces those files. It is copied.
	TLS *tls.Config `yaml:"-" json:"-"`

	// Datacenter, Namespace and Partition are where the keys live. The last two need Consul Enterprise.
	// Default: those of the agent and the token.
	Datacenter string `yaml:"datacenter" json:"datacenter"`
	Namespace  string `yaml:"namespace" json:"namespace"`
	Partition  string `yaml:"partition" json:"partition"`

	// Prefix of all keys: 1 to 128 bytes, without a slash at either end. Default: "election".
	Prefix string `yaml:"prefix" json:"prefix"`

	// Client is used as it is: the fields about address, token and TLS are ignored. Datacenter,
	// Namespace and Partition are named in each request, and must be set if Client has its own:
	// Consul's environment variables count for Client, too. Each call brings its own context.
	Client *api.Client `yaml:"-" json:"-"`
}

// A Backend keeps leases in Consul. It implements [backend.Backend].
type Backend struct {
	*lease.Backend
	driver *driver
}

// Format prints only the name of the type, whatever the verb: the fields may be secret.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "consul.Options") }

func init() { backend.Register(Name, Options{}, Open) }

// Open checks o and returns a Backend. The agent may be down. Errors are of class [backend.ErrInvalid].
func Open(o Options) (*Backend, error) {
	d, err := newDriver(o)
	if err != nil {
		return nil, fmt.Errorf("consul: %w: %w", backend.ErrInvalid, err)
	}
	return &Backend{lease.New(d), d}, nil
}

// Location implements [backend.Located]. It is empty with Options.Client, which does not tell its address.
func (b *Backend) Location() string {
	if b.driver.host == "" {
		return ""
	}
	return clean.Location(b.driver.prefix, b.driver.host)
}

// Fence returns an operation for the front of a transaction on the caller's own keys in the same
// Consul. The transaction is then applied only if this Backend still holds the election in
// that term. So a leader that was stopped and resumes cannot write.
//
//	fence, err := store.Fence("billing", lead.Term)
//	ok, _, _, err := client.KV().Txn(api.KVTxnOps{fence, {Verb: api.KVSet, Key: "total", Value: sum}}, nil)
//
// The operation requires the index of the election's record, which a request of an operator changes,
// too. So a transaction of the leader may be refused until its next renewal: then call Fence again.
//
// Fence makes no request. The error is [backend.ErrStale] if this Backend does not know that it
// holds the election in that term. The operation names namespace and partition. The caller's client
// must use the same datacenter, and needs the right to read the key.
func (b *Backend) Fence(election string, term uint64) (*api.KVTxnOp, error) {
	it, ok := b.Granted(election, term)
	if !ok {
		return nil, fmt.Errorf("consul: fence %q in term %d: %w", election, term, backend.ErrStale)
	}
	op := b.driver.pin(&it)
	op.Namespace, op.Partition = b.driver.namespace, b.driver.partition
	return op, nil
}
