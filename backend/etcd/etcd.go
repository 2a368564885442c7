package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
)

// newDriver checks o and returns a driver, whose client dials in the background.
func newDriver(o Options) (*driver, error) {
	d := &driver{client: o.Client, keys: keyPrefix(cmp.Or(o.Prefix, DefaultPrefix))}
	d.origins.now.Replaced = make(chan struct{})
	err := backend.CheckText("prefix", string(d.keys), backend.MaxName, false)
	login, files := o.Username+o.Password, o.CAFile+o.CertFile+o.KeyFile
	switch {
	case err != nil:
		return nil, err
	case !strings.HasSuffix(string(d.keys), "/"):
		err = fmt.Errorf("prefix %q does not end in /", d.keys)
	case o.Client != nil && (len(o.Endpoints) > 0 || o.TLS != nil || login+files != ""):
		err = errors.New("a Client is set together with Endpoints, Username, Password, TLS or its files")
	case o.Client == nil && len(o.Endpoints) == 0:
		err = errors.New("no endpoints")
	case (o.Username == "") != (o.Password == ""):
		err = errors.New("username and password are needed together")
	case files != "" && o.TLS != nil:
		err = errors.New("both TLS and files for it are set")
	case o.Client == nil:
		err = d.connect(o, files != "")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", backend.ErrInvalid, err)
	}
	d.kv, d.watcher = clientv3.NewKV(d.client), clientv3.NewWatcher(d.client)
	return d, nil
}

// connect creates the client.
func (d *driver) connect(o Options, files bool) error {
	// The default reconnects up to two minutes after an outage has ended.
	again := backoff.DefaultConfig
	again.BaseDelay, again.MaxDelay = 50*time.Millisecond, time.Second
	config := clientv3.Config{
		Logger:            zap.NewNop(), // it would print to stderr
		MaxUnaryRetries:   2,            // the default of 100 hides the reason, and repeats a refused token
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
		DialOptions: []grpc.DialOption{
			grpc.WithUserAgent(client.Name()),
			grpc.WithChainUnaryInterceptor(failFast),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: again, MinConnectTimeout: 5 * time.Second}),
		},
	}
	with := func(option grpc.DialOption) { config.DialOptions = append(config.DialOptions, option) }
	https := func(e string) bool { return strings.HasPrefix(strings.ToLower(e), "https://") }
	var err error
	if config.TLS = o.TLS.Clone(); o.TLS == nil && (files || slices.ContainsFunc(o.Endpoints, https)) {
		if config.TLS, err = client.TLS(o.CAFile, o.CertFile, o.KeyFile); err != nil {
			return err
		}
		fresh := client.Fresh(config.TLS, o.CAFile)
		with(grpc.WithTransportCredentials(freshCredentials{credentials.NewTLS(config.TLS), fresh}))
	}
	for _, e := range o.Endpoints {
		address, err := endpointURL(e, config.TLS != nil)
		if err != nil {
			return err
		}
		config.Endpoints = append(config.Endpoints, address)
		_, host, _ := strings.Cut(address, "://")
		d.proxy = cmp.Or(d.proxy, client.ByProxy(&url.URL{Scheme: "https", Host: host})) // as gRPC does
	}
	d.dialer = new(client.Dialer)
	if d.proxy == "" { // our dialer would lead past it
		with(grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return d.dialer.DialContext(ctx, "tcp", address)
		}))
	}
	if o.Username != "" {
		d.login = &login{username: o.Username, passwordFile: o.PasswordFile}
		d.login.password.Set(o.Password)
		with(grpc.WithPerRPCCredentials(d.login))
	}
	if d.client, err = clientv3.New(config); err != nil {
		return d.fail(fmt.Errorf("open: %w", err))
	}
	return nil
}

// freshCredentials read the authorities again for each connection.
type freshCredentials struct {
	credentials.TransportCredentials
	config func() *tls.Config
}

func (c freshCredentials) ClientHandshake(
	ctx context.Context, authority string, conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(c.config()).ClientHandshake(ctx, authority, conn)
}

// endpointURL returns the address of a member as a URL: http, or https if secure or if the address says so.
func endpointURL(endpoint string, secure bool) (string, error) {
	if secure && !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	u, err := client.URL(endpoint)
	switch {
	case err == nil && u.Path != "" && u.Path != "/":
		err = errors.New("it has a path")
	case err == nil && secure && u.Scheme == "http":
		err = fmt.Errorf("TLS is configured, and %.100q is http", u.Host)
	case err == nil && u.Port() == "": // etcd's client would fail at each call: it knows no default
		err = fmt.Errorf("%.100q has no port; etcd's is 2379 unless it was changed", u.Host)
	}
	if err != nil {
		return "", fmt.Errorf("endpoint: %w", err)
	}
	return u.Scheme + "://" + u.Host, nil
}

// Name is how this backend is registered.
const Name = "etcd"

// DefaultPrefix is the prefix of all keys if Options name none.
const DefaultPrefix = "election/"

// Options says which cluster and which keys. Either Endpoints or Client is set.
type Options struct {
	// Endpoints are client URLs of the cluster's members, such as "https://etcd1:2379", each with its port.
	// Without a scheme: http, or https if TLS is set. List all: what one does not answer is sent to another.
	Endpoints []string `yaml:"endpoints" json:"endpoints"`

	// Prefix begins every key. It ends in "/" and has up to 255 bytes of printable text. No prefix may lie
	// among the keys of another, as "election/record/" does in "election/". Elections of one prefix are read
	// together: give unrelated fleets different prefixes. It is the whole beginning of each key, whatever
	// namespace Client was given. Default: DefaultPrefix.
	Prefix string `yaml:"prefix" json:"prefix"`

	// Username and Password are for a cluster with users, and sent unencrypted if the endpoints are http.
	// Default: no user, or the common name of the client certificate if the cluster accepts it.
	Username string `yaml:"username" json:"username"`
	Password string `yaml:"password" json:"password"`

	// PasswordFile is a file with the Password, where it may be replaced: it is read again when the password
	// is refused. Password must be set, too. In a configuration it is password_file. Default: none.
	PasswordFile string `yaml:"-" json:"-"`

	// CAFile, CertFile and KeyFile are PEM files: the authorities to trust instead of the
	// system's, and a client certificate with its key, read at each connection.
	CAFile   string `yaml:"ca_file" json:"ca_file"`
	CertFile string `yaml:"cert_file" json:"cert_file"`
	KeyFile  string `yaml:"key_file" json:"key_file"`

	// TLS is a TLS configuration, instead of the files. It is copied.
	TLS *tls.Config `yaml:"-" json:"-"`

	// Client is the program's own, which logs in by itself and stays open. Only Prefix may be set with it.
	Client *clientv3.Client `yaml:"-" json:"-"`
}

// A Backend keeps leases in etcd. It implements [backend.Backend].
type Backend struct {
	*lease.Backend
	driver *driver
}

// Format prints only the name of the type, whatever the verb: fields may be secret.
func (o Options) Format(f fmt.State, _ rune) { fmt.Fprint(f, "etcd.Options") }

func init() { backend.Register(Name, Options{}, Open) }

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
