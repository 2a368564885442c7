package curator

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-zookeeper/zk"
)

// config is the section of a configuration file.
type config struct {
	Servers      []string          `yaml:"servers" json:"servers"`
	Root         string            `yaml:"root" json:"root"`
	Layout       string            `yaml:"layout" json:"layout"`
	Path         string            `yaml:"path" json:"path"`
	Paths        map[string]string `yaml:"paths" json:"paths"`
	Data         string            `yaml:"data" json:"data"`
	Last         string            `yaml:"last" json:"last"`
	User         string            `yaml:"user" json:"user"`
	Password     string            `yaml:"password" json:"password"`
	InsecureAuth bool              `yaml:"insecure_auth" json:"insecure_auth"`
	ACL          []string          `yaml:"acl" json:"acl"` // scheme:id:permissions, as in zkCli.sh
	TLS          bool              `yaml:"tls" json:"tls"` // with the system's authorities, if no file is given
	CAFile       string            `yaml:"ca_file" json:"ca_file"`
	CertFile     string            `yaml:"cert_file" json:"cert_file"`
	KeyFile      string            `yaml:"key_file" json:"key_file"`
	ServerName   string            `yaml:"server_name" json:"server_name"`
	Tick         time.Duration     `yaml:"tick" json:"tick"`
	MaxSession   time.Duration     `yaml:"max_session" json:"max_session"`
}

func (c *config) options() (o Options, err error) {
	o = Options{
		Servers: c.Servers, Root: c.Root, Layout: Layout(c.Layout), Path: c.Path, Paths: c.Paths, Data: c.Data, Last: c.Last,
		User: c.User, Password: c.Password, InsecureAuth: c.InsecureAuth, Tick: c.Tick, MaxSession: c.MaxSession,
	}
	for _, text := range c.ACL {
		a, err := parseACL(text)
		if err != nil {
			return o, fmt.Errorf("curator: %w: acl: %w", backend.ErrInvalid, err)
		}
		o.ACL = append(o.ACL, a)
	}
	if c.TLS || c.CAFile != "" || c.CertFile != "" || c.KeyFile != "" || c.ServerName != "" {
		if o.TLS, err = c.tls(); err != nil {
			return o, fmt.Errorf("curator: %w: %w", backend.ErrInvalid, err)
		}
	}
	return o, nil
}

func (c *config) tls() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", clean.FileError(err))
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file: %s holds no certificate", c.CAFile)
		}
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return nil, fmt.Errorf("cert_file and key_file go together")
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("cert_file and key_file: %w", clean.FileError(err))
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// parseACL reads scheme:id:permissions. The id may contain colons.
func parseACL(text string) (zk.ACL, error) {
	scheme, rest, _ := strings.Cut(text, ":")
	at := strings.LastIndexByte(rest, ':')
	if scheme == "" || at < 0 {
		return zk.ACL{}, fmt.Errorf("%.40q… is not of the form scheme:id:permissions, such as world:anyone:r", scheme)
	}
	a := zk.ACL{Scheme: scheme, ID: rest[:at]}
	for _, p := range rest[at+1:] {
		bit, ok := map[rune]int32{'r': zk.PermRead, 'w': zk.PermWrite, 'c': zk.PermCreate, 'd': zk.PermDelete, 'a': zk.PermAdmin}[p]
		if !ok {
			return zk.ACL{}, fmt.Errorf("permissions of scheme %.40q: they are letters of cdrwa", scheme)
		}
		a.Perms |= bit
	}
	if a.Perms == 0 {
		return zk.ACL{}, fmt.Errorf("scheme %.40q: no permissions", scheme)
	}
	return a, nil
}
