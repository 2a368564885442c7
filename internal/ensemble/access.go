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
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/client"
)

// Options say where the servers are, and as whom they are used: see the Options of package zookeeper, which
// are the same.
type Options struct {
	Servers              []string
	Root                 string
	User, Password       string
	InsecureAuth         bool
	ACL                  []zk.ACL
	TLS                  *tls.Config
	PasswordFile, CAFile string
}

// Access is Options that were checked and completed, and what dials by them.
type Access struct {
	Options
	dialer *client.Dialer
	secret *client.Secret // the present password
	config func() *tls.Config
}

const dialTimeout = 10 * time.Second

// Config is the part of a configuration's section that describes access.
type Config struct {
	Servers      []string `yaml:"servers" json:"servers"`
	Root         string   `yaml:"root" json:"root"`
	User         string   `yaml:"user" json:"user"`
	Password     string   `yaml:"password" json:"password"`
	PasswordFile string   `yaml:"-" json:"-"` // set with Password if that is in a file
	InsecureAuth bool     `yaml:"insecure_auth" json:"insecure_auth"`
	ACL          []string `yaml:"acl" json:"acl"` // scheme:id:permissions, as in zkCli.sh
	TLS          bool     `yaml:"tls" json:"tls"` // with the system's authorities, if no file is given
	CAFile       string   `yaml:"ca_file" json:"ca_file"`
	CertFile     string   `yaml:"cert_file" json:"cert_file"`
	KeyFile      string   `yaml:"key_file" json:"key_file"`
	ServerName   string   `yaml:"server_name" json:"server_name"`
}

// Options reads the files and returns what c says. Errors are of class [backend.ErrInvalid].
func (c *Config) Options() (o Options, err error) {
	o = Options{
		Servers: c.Servers, Root: c.Root, User: c.User, Password: c.Password, InsecureAuth: c.InsecureAuth,
		PasswordFile: c.PasswordFile, CAFile: c.CAFile,
	}
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

// permissions has the letter of each bit of zk.ACL.Perms.
const permissions = "rwcda"

// parseACL parses an entry as zkCli.sh writes it.
func parseACL(text string) (a zk.ACL, err error) {
	scheme, rest, _ := strings.Cut(text, ":")
	at := strings.LastIndexByte(rest, ':')
	if scheme == "" || at < 0 { // the id may be secret
		return a, fmt.Errorf("%.40q… is not of the form scheme:id:permissions, such as world:anyone:r", scheme)
	}
	a = zk.ACL{Scheme: scheme, ID: rest[:at]}
	for _, letter := range rest[at+1:] {
		bit := strings.IndexRune(permissions, letter)
		if bit < 0 {
			return a, fmt.Errorf("permissions of scheme %.40q: they are letters of %s", scheme, permissions)
		}
		a.Perms |= 1 << bit
	}
	if a.Perms == 0 {
		return a, fmt.Errorf("scheme %.40q: no permissions", scheme)
	}
	return a, nil
}

// FormatACL returns an entry as zkCli.sh writes it, without the hash of a password.
func FormatACL(a zk.ACL) string {
	id := a.ID
	if a.Scheme == "digest" {
		id, _, _ = strings.Cut(id, ":")
	}
	text := a.Scheme + ":" + id + ":"
	for _, letter := range "cdrwa" {
		if a.Perms&(1<<strings.IndexRune(permissions, letter)) != 0 {
			text += string(letter)
		}
	}
	return text
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
		return nil, fmt.Errorf("digest authentication sends user and password in the clear: configure TLS, or allow it (insecure_auth)")
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
	a := &Access{Options: o, secret: new(client.Secret), config: client.Fresh(o.TLS, o.CAFile)}
	a.secret.Set(o.Password)
	a.dialer = &client.Dialer{Dialer: net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}}
	return a, nil
}

// address returns a server with its port, and whether it is on this host.
func address(server string) (hostPort string, loopback bool, err error) {
	hostPort = server
	if _, _, err := net.SplitHostPort(server); err != nil {
		hostPort = net.JoinHostPort(strings.Trim(server, "[]"), "2181")
	}
	host, port, err := net.SplitHostPort(hostPort)
	switch {
	case strings.Contains(server, "@"): // there may be a password before it
		return "", false, errors.New("a server is host:port, without a user: set user and password")
	case strings.Contains(server, "/"):
		return "", false, fmt.Errorf("server %.80q has a path (chroot), and a server is host:port: a path is the same for all of them, and belongs into root", server)
	case err != nil, host == "", port == "", strings.ContainsAny(server, " ,"):
		return "", false, fmt.Errorf("server %.80q is not of the form host:port", server)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", false, fmt.Errorf("server %.80q: the port must be a number from 1 to 65535", server)
	}
	ip := net.ParseIP(host)
	return hostPort, host == "localhost" || ip != nil && ip.IsLoopback(), nil
}

// HandshakeTimeout limits how long a server may take for a TLS handshake.
const HandshakeTimeout = 5 * time.Second

// Dial connects to one server.
func (a *Access) Dial(ctx context.Context, address string, timeout time.Duration) (net.Conn, error) {
	dialling, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := a.dialer.DialContext(dialling, "tcp", address)
	if err != nil || a.TLS == nil {
		return c, err
	}
	// A TLS handshake takes several round trips and some computing.
	ctx, cancel = context.WithTimeout(ctx, max(timeout, HandshakeTimeout))
	defer cancel()
	if c, err = client.Handshake(ctx, c, a.config(), address); err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return c, nil
}

// CheckPath reports what is wrong with an absolute path.
func CheckPath(path string) error {
	switch {
	case !strings.HasPrefix(path, "/") || len(path) < 2 || len(path) > 1024 || !utf8.ValidString(path):
		return fmt.Errorf("%.80q is not an absolute path of up to 1024 bytes", path)
	case path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/"):
		return fmt.Errorf("%.80q belongs to ZooKeeper itself", path)
	}
	for _, part := range strings.Split(path[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("%.80q has a part that is empty or made of dots", path)
		}
		for _, r := range part {
			if r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 {
				return fmt.Errorf("%.80q contains a character that ZooKeeper refuses", path)
			}
		}
	}
	return nil
}

// Parent returns the path of a node's parent; "" for a node below the root.
func Parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// Escape turns any election name into one part of a path, and different names into
// different parts.
func Escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_:@,=+~", c) >= 0 ||
			c == '.' && name != "." && name != ".."
		if plain {
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
