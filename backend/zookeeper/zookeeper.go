package zookeeper

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
)

// Name is how this backend is registered.
const Name = "zookeeper"

// DefaultRoot is the path of all nodes if Options name none.
const DefaultRoot = "/election"

// Options names the ensemble and the path. Only Servers is required.
type Options struct {
	// Servers are the members of the ensemble, each as host or host:port. The port defaults
	// to 2181. Names are resolved at each attempt to connect.
	Servers []string

	// Root is the absolute path below which this package keeps its nodes. It is made if it is
	// missing and the user may make it. Give unrelated fleets different roots. Default: DefaultRoot.
	Root string

	// User and Password authenticate with the digest scheme, which sends them in the clear.
	// Without TLS that is refused, unless all Servers are loopback addresses or
	// InsecureAuth is set. They are never shown. Default: no user.
	User, Password string
	InsecureAuth   bool

	// ACL is set on every node that is made. Default: all rights for the authenticated user
	// alone or, without a user, for everyone.
	ACL []zk.ACL

	// TLS, if not nil, is used to connect to the servers' secure port. It is copied;
	// ServerName defaults to the host that is dialled.
	TLS *tls.Config
}

// A Backend keeps leases in ZooKeeper. It implements [backend.Backend].
type Backend struct {
	*lease.Backend
	driver *driver
}

var _ backend.Located = (*Backend)(nil)

// Format prints only the name of the type, whatever the verb: fields may be secret.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "zookeeper.Options") }

// Format prints only the name of the type, whatever the verb: fields may be secret.
func (b *Backend) Format(f fmt.State, _ rune) { fmt.Fprint(f, "zookeeper.Backend") }

func init() {
	backend.Register(Name, func(decode func(any) error) (backend.Backend, error) {
		var c struct {
			Servers      []string `yaml:"servers" json:"servers"`
			Root         string   `yaml:"root" json:"root"`
			User         string   `yaml:"user" json:"user"`
			Password     string   `yaml:"password" json:"password"`
			InsecureAuth bool     `yaml:"insecure_auth" json:"insecure_auth"`
			ACL          []string `yaml:"acl" json:"acl"` // scheme:id:permissions, as in zkCli.sh
			TLS          bool     `yaml:"tls" json:"tls"` // with the system's authorities, if no file is given
			CAFile       string   `yaml:"ca_file" json:"ca_file"`
			CertFile     string   `yaml:"cert_file" json:"cert_file"`
			KeyFile      string   `yaml:"key_file" json:"key_file"`
			ServerName   string   `yaml:"server_name" json:"server_name"`
		}
		if err := decode(&c); err != nil {
			return nil, err
		}
		o := Options{Servers: c.Servers, Root: c.Root, User: c.User, Password: c.Password, InsecureAuth: c.InsecureAuth}
		for _, text := range c.ACL {
			a, err := parseACL(text)
			if err != nil {
				return nil, fmt.Errorf("zookeeper: %w: acl: %w", backend.ErrInvalid, err)
			}
			o.ACL = append(o.ACL, a)
		}
		if c.TLS || c.CAFile+c.CertFile+c.KeyFile+c.ServerName != "" {
			config, err := client.TLS(c.CAFile, c.CertFile, c.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("zookeeper: %w: %w", backend.ErrInvalid, err)
			}
			config.ServerName = c.ServerName
			o.TLS = config
		}
		return Open(o)
	})
}

// parseACL parses scheme:id:permissions, as zkCli.sh writes an entry of an ACL.
func parseACL(text string) (a zk.ACL, err error) {
	scheme, rest, _ := strings.Cut(text, ":")
	at := strings.LastIndexByte(rest, ':')
	if scheme == "" || at < 0 { // the id may be secret
		return a, fmt.Errorf("%.40q… is not of the form scheme:id:permissions, such as world:anyone:r", scheme)
	}
	a = zk.ACL{Scheme: scheme, ID: rest[:at]}
	for _, letter := range rest[at+1:] {
		i := strings.IndexRune(permissions, letter)
		if i < 0 {
			return a, fmt.Errorf("permissions of scheme %.40q: they are letters of %s", scheme, permissions)
		}
		a.Perms |= 1 << i
	}
	if a.Perms == 0 {
		return a, fmt.Errorf("scheme %.40q: no permissions", scheme)
	}
	return a, nil
}

// permissions has the letter of each bit of zk.ACL.Perms.
const permissions = "rwcda"

// Open checks o and returns a Backend. The servers may be down: the first call connects to them.
// Errors are of class [backend.ErrInvalid].
func Open(o Options) (*Backend, error) {
	d, err := newDriver(o)
	if err != nil {
		return nil, fmt.Errorf("zookeeper: %w: %w", backend.ErrInvalid, err)
	}
	return &Backend{lease.New(d), d}, nil
}

// Location implements [backend.Located].
func (b *Backend) Location() string {
	return clean.Location(string(b.driver.root), b.driver.servers...)
}

// newDriver checks o and returns a driver that has not connected.
func newDriver(o Options) (*driver, error) {
	d := &driver{options: o, root: root(cmp.Or(o.Root, DefaultRoot)), acl: o.ACL, entering: make(chan struct{}, 1)}
	if len(o.Servers) == 0 {
		return nil, fmt.Errorf("no servers: name at least one, such as zk1:2181")
	}
	loopback := true
	for _, s := range o.Servers {
		server, local, err := address(s)
		if err != nil {
			return nil, err
		}
		d.servers, loopback = append(d.servers, server), loopback && local
	}
	if err := d.root.check(); err != nil {
		return nil, err
	}
	switch {
	case o.User == "" && o.Password != "":
		return nil, fmt.Errorf("there is a password, but no user")
	case strings.Contains(o.User, ":"):
		return nil, fmt.Errorf("the user contains a colon")
	case o.User != "" && o.TLS == nil && !loopback && !o.InsecureAuth:
		return nil, fmt.Errorf("digest authentication sends user and password in the clear: configure TLS, or allow it (insecure_auth)")
	}
	if d.options.TLS = o.TLS.Clone(); d.acl == nil {
		d.acl = zk.WorldACL(zk.PermAll)
		if o.User != "" {
			d.acl = zk.AuthACL(zk.PermAll)
		}
	}
	d.session = newSession(d)
	return d, nil
}
