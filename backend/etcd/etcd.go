package etcd

import (
	"crypto/tls"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
)

// Name is how this backend is registered.
const Name = "etcd"

// DefaultPrefix is the prefix of all keys if Options name none.
const DefaultPrefix = "election/"

// Options says which cluster and which keys. Either Endpoints or Client is set.
type Options struct {
	// Endpoints are client URLs of the cluster's members, such as "https://etcd1:2379", each with
	// its port. Without a scheme: http, or https if TLS is set. List all members: a call that
	// one member does not answer is sent to another.
	Endpoints []string `yaml:"endpoints" json:"endpoints"`

	// Prefix begins every key. It ends in "/" and has up to 255 bytes of printable text.
	// No prefix may lie among the keys of another, as "election/record/" does in
	// "election/". Elections of one prefix are read together: give unrelated fleets
	// different prefixes. It is the whole beginning of each key, whatever namespace Client
	// was given. Default: DefaultPrefix.
	Prefix string `yaml:"prefix" json:"prefix"`

	// Username and Password are the credentials, if the cluster has users. They are sent
	// unencrypted only if the endpoints are http. Default: no user, or the common name
	// of the client certificate if the cluster accepts it.
	Username string `yaml:"username" json:"username"`
	Password string `yaml:"password" json:"password"`

	// PasswordFile is a file with the Password, where it may be replaced: it is read again when the password is
	// refused. Password must be set, too. In a configuration it is password_file. Default: none.
	PasswordFile string `yaml:"-" json:"-"`

	// CAFile, CertFile and KeyFile are PEM files: the authorities to trust instead of the
	// system's, and a client certificate with its key, read at each connection.
	CAFile   string `yaml:"ca_file" json:"ca_file"`
	CertFile string `yaml:"cert_file" json:"cert_file"`
	KeyFile  string `yaml:"key_file" json:"key_file"`

	// TLS is a TLS configuration, instead of the files. It is copied.
	TLS *tls.Config `yaml:"-" json:"-"`

	// Client is an existing client, which logs in by itself. Close leaves it open. Of the
	// options above only Prefix may be set with it.
	Client *clientv3.Client `yaml:"-" json:"-"`
}

// A Backend keeps leases in etcd. It implements [backend.Backend].
type Backend struct {
	*lease.Backend
	driver *driver
}

// Format prints only the name of the type, whatever the verb: fields may be secret.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "etcd.Options") }

// Format prints only the name of the type, whatever the verb: fields may be secret.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, "etcd.Backend") }

func init() {
	backend.Register(Name, func(decode func(any) error) (backend.Backend, error) {
		var o Options
		if err := decode(&o); err != nil {
			return nil, err
		}
		return Open(o)
	})
}

// Open checks o and returns a Backend. The cluster may be down: the first call connects to it.
func Open(o Options) (*Backend, error) {
	d, err := newDriver(o)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	return &Backend{lease.New(d), d}, nil
}

// Location implements [backend.Located].
func (b *Backend) Location() string {
	return clean.Location(string(b.driver.keys), b.driver.client.Endpoints()...)
}
