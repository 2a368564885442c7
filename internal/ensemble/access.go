// Package ensemble is access to the servers of a ZooKeeper ensemble, for the backends that keep leases
// there: addresses, users, TLS, what errors mean, and what the servers say of themselves.
package ensemble

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/client"
)

// Options say where the servers are, and as whom they are used. Package zookeeper has the same.
type Options struct {
	Servers      []string    `yaml:"servers" json:"servers"`
	Root         string      `yaml:"root" json:"root"`
	User         string      `yaml:"user" json:"user"`
	Password     string      `yaml:"password" json:"password"`
	InsecureAuth bool        `yaml:"insecure_auth" json:"insecure_auth"`
	ACL          []zk.ACL    `yaml:"-" json:"-"`
	TLS          *tls.Config `yaml:"-" json:"-"`
	PasswordFile string      `yaml:"-" json:"-"`
	CAFile       string      `yaml:"ca_file" json:"ca_file"`
}

// Access is Options that were checked and completed, and what dials by them.
type Access struct {
	Options
	dialer client.Dialer
	secret client.Secret // the present password
	config func() *tls.Config
}

// Config is the part of a configuration's section that describes access.
type Config struct {
	Options    `yaml:",inline"`
	ACL        []string `yaml:"acl" json:"acl"` // scheme:id:permissions, as in zkCli.sh
	TLS        bool     `yaml:"tls" json:"tls"` // with the system's authorities, if no file is given
	CertFile   string   `yaml:"cert_file" json:"cert_file"`
	KeyFile    string   `yaml:"key_file" json:"key_file"`
	ServerName string   `yaml:"server_name" json:"server_name"`
}

// Complete reads the files and returns what c says. Errors are of class [backend.ErrInvalid].
func (c *Config) Complete() (o Options, err error) {
	o = c.Options
	for _, text := range c.ACL {
		entry, err := parseACL(text)
		if err != nil {
			return o, fmt.Errorf("%w: acl: %w", backend.ErrInvalid, err)
		}
		o.ACL = append(o.ACL, entry)
	}
	if c.TLS || c.CAFile+c.CertFile+c.KeyFile+c.ServerName != "" {
		if o.TLS, err = client.TLS(c.CAFile, c.CertFile, c.KeyFile); err != nil {
			return o, fmt.Errorf("%w: %w", backend.ErrInvalid, err)
		}
		o.TLS.ServerName = c.ServerName
	}
	return o, nil
}

// parseACL parses an entry as zkCli.sh writes it.
func parseACL(text string) (a zk.ACL, err error) {
	scheme, rest, _ := strings.Cut(text, ":")
	at := strings.LastIndexByte(rest, ':')
	err = fmt.Errorf("%.40q… is not of the form scheme:id:permissions, such as world:anyone:cdrwa", scheme)
	if scheme == "" || at < 0 || at == len(rest)-1 { // the id may be secret
		return a, err
	}
	a = zk.ACL{Scheme: scheme, ID: rest[:at]}
	for _, letter := range rest[at+1:] {
		bit := strings.IndexRune("rwcda", letter) // in the order of the bits
		if bit < 0 {
			return a, err
		}
		a.Perms |= 1 << bit
	}
	return a, nil
}

// NewAccess reports what is wrong with o, and completes it: ports, and the ACL of each node that is made.
func NewAccess(o Options) (*Access, error) {
	if len(o.Servers) == 0 {
		return nil, fmt.Errorf("no servers: name at least one, such as zk1:2181")
	}
	loopback, servers := true, make([]string, len(o.Servers))
	for i, s := range o.Servers {
		server, local, err := address(s)
		if err != nil {
			return nil, err
		}
		servers[i], loopback = server, loopback && local
	}
	switch {
	case o.User == "" && o.Password != "":
		return nil, fmt.Errorf("there is a password, but no user")
	case strings.Contains(o.User, ":"):
		return nil, fmt.Errorf("the user contains a colon")
	case o.User != "" && o.TLS == nil && !loopback && !o.InsecureAuth:
		return nil, errors.New("a password would be sent in the clear: configure TLS, or set insecure_auth")
	}
	if err := CheckPath(o.Root); err != nil {
		return nil, fmt.Errorf("root: %w", err)
	}

	o.Servers, o.TLS = servers, o.TLS.Clone()
	switch {
	case o.ACL != nil:
	case o.User != "":
		o.ACL = zk.AuthACL(zk.PermAll)
	default:
		o.ACL = zk.WorldACL(zk.PermAll)
	}
	a := &Access{Options: o, config: client.Fresh(o.TLS, o.CAFile)}
	a.secret.Set(o.Password)
	return a, nil
}

// address returns a server with its port, and whether it is on this host.
func address(server string) (hostPort string, loopback bool, err error) {
	hostPort, host, ok := client.HostPort(server, "2181")
	switch {
	case strings.ContainsAny(server, "@/"): // there may be a password in it
		return "", false, errors.New("a server is host:port: a path (chroot) goes in root, a user into user")
	case !ok:
		return "", false, fmt.Errorf("server %.80q is not of the form host:port", server)
	}
	ip := net.ParseIP(host)
	return hostPort, host == "localhost" || ip != nil && ip.IsLoopback(), nil
}

// Dial connects to one server.
func (a *Access) Dial(ctx context.Context, address string, timeout time.Duration) (net.Conn, error) {
	dialling, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := a.dialer.DialContext(dialling, "tcp", address)
	if err != nil || a.TLS == nil {
		return c, err
	}
	return client.Handshake(ctx, c, a.config(), address)
}

// CheckPath reports what is wrong with an absolute path.
func CheckPath(p string) error {
	clean := strings.HasPrefix(p, "/") && path.Clean(p) == p && !strings.HasPrefix(p+"/", "/zookeeper/")
	if len(p) < 2 || len(p) > 1024 || !clean {
		return fmt.Errorf("%.80q is not an absolute path of up to 1024 bytes, without empty parts or dots,"+
			" outside /zookeeper", p)
	}
	return nil
}

// Parent returns the path of a node's parent; "" for a node below the root.
func Parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// Escape turns any election name into one part of a path, and different names into different parts.
func Escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		dot := c == '.' && name != "." && name != ".."
		if letter || dot || strings.IndexByte("-_:@,=+~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// Unescape undoes Escape; ok is false for what Escape cannot have returned.
func Unescape(part string) (name string, ok bool) {
	name, err := url.PathUnescape(part)
	return name, err == nil && Escape(name) == part
}

// hints say what to do about codes that the client library does not know.
var hints = map[string]string{
	"unknown error: -124": "the servers require clients to authenticate (enforce.auth.enabled or" +
		" sessionRequireClientSASLAuth): set a user, or another scheme there; SASL is not supported",
	"unknown error: -120": "sessions are local (localSessionsEnabled): set localSessionsUpgradingEnabled",
	"unknown error: -125": "a quota is exceeded: raise it (zkCli.sh: listquota, setquota)",
}

// Fail adds to err its class and what an operator must do. where says at which paths which rights are needed.
func (a *Access) Fail(err error, where string) error {
	if err == nil || errors.Is(err, backend.Class(err)) {
		return err
	}
	for text, hint := range hints {
		if strings.Contains(err.Error(), text) {
			return fmt.Errorf("%w: %w; %s", backend.ErrDenied, err, hint)
		}
	}
	if errors.Is(err, zk.ErrNoAuth) {
		return fmt.Errorf("%w: %w; user %.80q needs %s", backend.ErrDenied, err, a.User, where)
	}
	return fmt.Errorf("%w: %w", Class(err), err)
}

// Class returns the class of an error of the library or of dialling.
func Class(err error) error {
	if client.RefusesTLS(err.Error()) ||
		is(err, zk.ErrNoAuth, zk.ErrAuthFailed, zk.ErrInvalidACL, zk.ErrNoChildrenForEphemerals,
			zk.ErrInvalidPath, zk.ErrBadArguments) {
		return backend.ErrDenied
	}
	return backend.Class(err)
}

func is(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// IsUnmet reports whether err says that a condition of an operation does not hold.
func IsUnmet(err error) bool { return is(err, zk.ErrNoNode, zk.ErrBadVersion, zk.ErrNodeExists) }
