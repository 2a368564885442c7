package zookeeper

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/ensemble"
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

	// Root is the absolute path of all nodes, the same for all members of an election. It is made if it is
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

	// TLS is for the servers' secure port. It is copied; ServerName defaults to the host that is dialled.
	TLS *tls.Config

	// PasswordFile and CAFile are files with the Password and (PEM) the authorities, where these may be
	// replaced: they are read again when a call is refused, and at each connection. Default: none.
	PasswordFile, CAFile string
}

// A Backend keeps leases in ZooKeeper. It implements [backend.Backend].
type Backend struct {
	*lease.Backend
	driver *driver
}

// Format prints only the name of the type, whatever the verb: fields may be secret.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "zookeeper.Options") }

func init() {
	backend.Register(Name, ensemble.Config{}, func(c ensemble.Config) (*Backend, error) {
		o, err := c.Complete()
		if err != nil {
			return nil, fmt.Errorf("zookeeper: %w", err)
		}
		return Open(Options(o))
	})
}

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
	return clean.Location(string(b.driver.root), b.driver.Servers...)
}

// sessionLength is for how long the node of a process may stay after a crash, if the servers grant it.
const sessionLength = time.Minute

// newDriver checks o and returns a driver that has not connected.
func newDriver(o Options) (*driver, error) {
	o.Root = cmp.Or(o.Root, DefaultRoot)
	access, err := ensemble.NewAccess(ensemble.Options(o))
	if err != nil {
		return nil, err
	}
	session := ensemble.NewSession(access, sessionLength)
	return &driver{Access: access, root: root(o.Root), session: session}, nil
}
