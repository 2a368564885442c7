package etcd

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/client"
)

// newDriver checks o and returns a driver, whose client dials in the background.
func newDriver(o Options) (*driver, error) {
	d := &driver{client: o.Client, keys: keyPrefix(cmp.Or(o.Prefix, DefaultPrefix))}
	if err := backend.CheckText("prefix", string(d.keys), backend.MaxName, false); err != nil {
		return nil, err
	}
	files, why := o.CAFile+o.CertFile+o.KeyFile != "", ""
	switch {
	case !strings.HasSuffix(string(d.keys), "/"):
		why = fmt.Sprintf("prefix %q does not end in /", d.keys)
	case o.Client != nil && (len(o.Endpoints) > 0 || o.Username+o.Password != "" || files || o.TLS != nil):
		why = "Endpoints, Username, Password, TLS or its files are set together with Client, which has its own"
	case o.Client != nil && o.Client.ActiveConnection() == nil:
		why = "the Client has no connection"
	case o.Client == nil && len(o.Endpoints) == 0:
		why = "no endpoints"
	case (o.Username == "") != (o.Password == ""):
		why = "username and password are needed together"
	case files && o.TLS != nil:
		why = "both TLS and files for it are set"
	case o.Client == nil:
		return d, d.connect(o, files)
	default:
		return d, nil
	}
	return nil, fmt.Errorf("%w: %s", backend.ErrInvalid, why)
}

// connect creates the client.
func (d *driver) connect(o Options, files bool) error {
	config := clientv3.Config{
		Logger:               zap.NewNop(), // it would print to stderr
		MaxUnaryRetries:      2,            // the default of 100 hides the reason, and repeats a refused token
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 2 * time.Second, // on Linux also for what TCP has sent: a connection that a firewall has forgotten ends
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(failFast),
			grpc.WithChainStreamInterceptor(failFastStream),
			// The default reconnects up to two minutes after an outage has ended.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
				MinConnectTimeout: 5 * time.Second,
			}),
		},
	}
	https := slices.ContainsFunc(o.Endpoints, func(e string) bool {
		scheme, _, _ := strings.Cut(e, "://")
		return strings.EqualFold(scheme, "https")
	})
	var err error
	if config.TLS = o.TLS.Clone(); o.TLS == nil && (files || https) {
		if config.TLS, err = client.TLS(o.CAFile, o.CertFile, o.KeyFile); err != nil {
			return fmt.Errorf("%w: %w", backend.ErrInvalid, err)
		}
	}
	for _, e := range o.Endpoints {
		address, err := endpointURL(e, config.TLS != nil)
		if err != nil {
			return fmt.Errorf("%w: %w", backend.ErrInvalid, err)
		}
		config.Endpoints = append(config.Endpoints, address)
	}
	if o.Username != "" {
		d.login = &login{username: o.Username, password: o.Password}
		config.DialOptions = append(config.DialOptions, grpc.WithPerRPCCredentials(d.login))
	}
	d.ownClient = true
	if d.client, err = clientv3.New(config); err != nil {
		return d.fail(fmt.Errorf("open: %w: %w", backend.ErrInvalid, err))
	}
	return nil
}

// endpointURL checks the address of a server and returns it as a URL: http, or https if secure or if
// the address says so. Its errors show no part of an address that was not understood, because it
// may contain a password.
func endpointURL(e string, secure bool) (string, error) {
	if !strings.Contains(e, "://") {
		if e = "http://" + e; secure {
			e = "https" + strings.TrimPrefix(e, "http")
		}
	}
	u, err := url.Parse(e)
	switch {
	case err != nil || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("an endpoint is not of the form https://host:2379")
	case u.User != nil:
		return "", errors.New("an endpoint contains credentials: set username and password")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("an endpoint has the scheme %.10q: http or https are known", u.Scheme)
	case u.Scheme == "http" && secure:
		return "", fmt.Errorf("TLS is configured, and endpoint %.100q is http", u.Host)
	}
	return u.Scheme + "://" + u.Host, nil
}
