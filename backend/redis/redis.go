package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// Name is how this backend is registered.
const Name = "redis"

// DefaultPrefix and DefaultMaxTTL apply if Options name none.
const (
	DefaultPrefix = "election"
	DefaultMaxTTL = 15 * time.Second
)

// Options names the server and the keys. Exactly one of Addresses and Client is set.
type Options struct {
	// Addresses has the server's host:port; with Master those of the Sentinels.
	Addresses []string `yaml:"addresses" json:"addresses"`

	// Master is the name by which Sentinels know the master. Default: no Sentinels.
	Master string `yaml:"master" json:"master"`

	// DB is the number of the database. Default: 0.
	DB int `yaml:"db" json:"db"`

	// Prefix is the hash tag of all keys, which are named {prefix}:record and so on. Letters, digits and
	// any of ._:- up to 100. Default: DefaultPrefix.
	Prefix string `yaml:"prefix" json:"prefix"`

	// Username and Password are for the server, the other two for the Sentinels. Default: none.
	Username         string `yaml:"username" json:"username"`
	Password         string `yaml:"password" json:"password"`
	SentinelUsername string `yaml:"sentinel_username" json:"sentinel_username"`
	SentinelPassword string `yaml:"sentinel_password" json:"sentinel_password"`

	// PasswordFile and SentinelPasswordFile are files with the passwords, where they may be replaced: they
	// are read again when a server refuses one, and once a minute. The passwords must be set, too. In a
	// configuration they are password_file and sentinel_password_file. Default: none.
	PasswordFile         string `yaml:"-" json:"-"`
	SentinelPasswordFile string `yaml:"-" json:"-"`

	// CAFile, CertFile and KeyFile are PEM files: the authorities to trust instead of the system's, and a
	// client certificate with its key, read at each connection. Any of them implies TLS.
	CAFile   string `yaml:"ca_file" json:"ca_file"`
	CertFile string `yaml:"cert_file" json:"cert_file"`
	KeyFile  string `yaml:"key_file" json:"key_file"`

	// TLS is a TLS configuration, instead of the files, for the server and the Sentinels. It is
	// copied. In a configuration, tls: true makes one with defaults. Default: no TLS.
	TLS *tls.Config `yaml:"-" json:"-"`

	// MaxTTL is the greatest TTL, and for how long each lease is observed after a restart or failover, which
	// may lose what was acknowledged. All processes need the same. 1 s to 5 min. Default: DefaultMaxTTL.
	MaxTTL time.Duration `yaml:"max_ttl" json:"max_ttl"`

	// WaitReplicas is how many replicas must have a change before it counts. With the number of all
	// replicas, an old master that was cut off confirms nothing. 0 to 100; no cluster. Default: 0.
	WaitReplicas int `yaml:"wait_replicas" json:"wait_replicas"`

	// Client is the program's own, and stays open. Only Prefix, MaxTTL and WaitReplicas may be set with it.
	// The database is that of its options, whatever the program selects on its connections, so it must be a
	// *Client or *ClusterClient, or have the method Options of one of them.
	Client goredis.UniversalClient `yaml:"-" json:"-"`
}

// A Backend keeps leases in Redis. It implements [backend.Backend].
type Backend struct {
	*lease.Backend
	driver *driver
}

// Format prints only the name of the type, whatever the verb: fields may be secret.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "redis.Options") }

func init() {
	type section struct {
		Options `yaml:",inline"`
		TLS     bool `yaml:"tls" json:"tls"`
	}
	backend.Register(Name, section{}, func(c section) (*Backend, error) {
		if c.TLS && c.CAFile+c.CertFile+c.KeyFile == "" {
			c.Options.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		return Open(c.Options)
	})
}

// Open checks o: errors are [backend.ErrInvalid]. The server may be down: the first call connects to it.
func Open(o Options) (*Backend, error) {
	d, err := newDriver(o)
	if err != nil {
		return nil, fmt.Errorf("redis: %w: %w", backend.ErrInvalid, err)
	}
	return &Backend{lease.New(d), d}, nil
}

// Location implements [backend.Located].
func (b *Backend) Location() string { return b.driver.location }

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,100}$`)

// newDriver checks o and returns a driver that has not connected.
func newDriver(o Options) (*driver, error) {
	d := &driver{
		prefix: cmp.Or(o.Prefix, DefaultPrefix), db: o.DB, user: o.Username,
		maxTTL: cmp.Or(o.MaxTTL, DefaultMaxTTL), replicas: o.WaitReplicas,
		heard: []notice{{position: 1}}, changed: make(chan struct{}),
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.password.Set(o.Password)
	d.sentinelPassword.Set(o.SentinelPassword)
	login := o.Username + o.Password
	sentinelLogin := o.SentinelUsername + o.SentinelPassword
	files := o.CAFile + o.CertFile + o.KeyFile
	switch {
	case !prefixForm.MatchString(d.prefix):
		return nil, fmt.Errorf("prefix is %.120q; it has 1 to 100 ASCII letters, digits and ._:-", d.prefix)
	case d.maxTTL < minTTL || d.maxTTL > 5*time.Minute:
		return nil, fmt.Errorf("max_ttl is %v, it must be %v to 5m", d.maxTTL, minTTL)
	case o.WaitReplicas < 0 || o.WaitReplicas > 100:
		return nil, fmt.Errorf("wait_replicas is %d, it must be 0 to 100", o.WaitReplicas)
	case o.Client != nil && (len(o.Addresses) > 0 || o.DB != 0 || o.TLS != nil ||
		o.Master+login+sentinelLogin+files != ""):
		return nil, errors.New("addresses, master, db, credentials or TLS are set together with Client")
	case o.Client != nil:
		return d, d.use(o.Client)
	case len(o.Addresses) == 0:
		return nil, errors.New("no addresses")
	case o.Master == "" && len(o.Addresses) > 1:
		return nil, fmt.Errorf("%d addresses without master: several are of Sentinels", len(o.Addresses))
	case o.Master == "" && sentinelLogin != "":
		return nil, errors.New("credentials for Sentinels are set without master")
	case o.Username != "" && o.Password == "" || o.SentinelUsername != "" && o.SentinelPassword == "":
		return nil, errors.New("a user name is set without its password")
	case o.DB < 0:
		return nil, fmt.Errorf("db is %d, it must be at least 0", o.DB)
	case o.TLS != nil && files != "":
		return nil, errors.New("both TLS and files for it are set")
	}
	return d, d.connect(o)
}
