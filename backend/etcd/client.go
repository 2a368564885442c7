package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// connect creates the client, which dials in the background.
func (b *Backend) connect(o Options) error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("etcd: %w: %s", backend.ErrInvalid, fmt.Sprintf(format, args...))
	}
	files := o.CAFile != "" || o.CertFile != "" || o.KeyFile != ""
	if o.Client != nil {
		if len(o.Endpoints) > 0 || o.Username != "" || o.Password != "" || files || o.TLS != nil {
			return invalid("Endpoints, Username, Password, TLS or its files are set together with Client, which has its own")
		}
		if o.Client.ActiveConnection() == nil {
			return invalid("the Client has no connection")
		}
		b.client = o.Client
		return nil
	}
	switch {
	case len(o.Endpoints) == 0:
		return invalid("no endpoints")
	case (o.Username == "") != (o.Password == ""):
		return invalid("username and password are needed together")
	case files && o.TLS != nil:
		return invalid("both TLS and files for it are set")
	case (o.CertFile == "") != (o.KeyFile == ""):
		return invalid("cert_file and key_file are needed together")
	}
	config := clientv3.Config{
		Logger:               zap.NewNop(), // it would print to stderr
		MaxUnaryRetries:      2,            // the default of 100 hides the reason, and repeats a refused token
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(b.connections.dial),
			grpc.WithChainUnaryInterceptor(failFast),
			grpc.WithChainStreamInterceptor(failFastStream),
			// The default reconnects up to two minutes after an outage has ended.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
				MinConnectTimeout: 5 * time.Second,
			}),
		},
	}
	var err error
	if config.TLS, err = tlsConfig(o, files); err != nil {
		return fmt.Errorf("etcd: %w: %w", backend.ErrInvalid, err)
	}
	for _, e := range o.Endpoints {
		address, err := endpoint(e, config.TLS != nil)
		if err != nil {
			return invalid("%v", err)
		}
		config.Endpoints = append(config.Endpoints, address)
	}
	if o.Username != "" {
		b.login = &login{username: o.Username, password: o.Password, mutex: make(chan struct{}, 1)}
		config.DialOptions = append(config.DialOptions, grpc.WithPerRPCCredentials(b.login))
	}
	b.ownClient = true
	if b.client, err = clientv3.New(config); err != nil {
		return b.fail("open", fmt.Errorf("%w: %w", backend.ErrInvalid, err))
	}
	return nil
}

// tlsConfig returns the TLS configuration; nil if all endpoints are http.
func tlsConfig(o Options, files bool) (*tls.Config, error) {
	if o.TLS != nil {
		return o.TLS.Clone(), nil
	}
	if !files {
		for _, e := range o.Endpoints {
			if scheme, _, _ := strings.Cut(e, "://"); strings.EqualFold(scheme, "https") {
				return &tls.Config{MinVersion: tls.VersionTLS12}, nil
			}
		}
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", clean.FileError(err))
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file: %s has no certificate", o.CAFile)
		}
	}
	if o.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile); err != nil {
			return nil, fmt.Errorf("cert_file and key_file: %w", clean.FileError(err))
		}
		// Read at each handshake, so that a renewed certificate is used.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
			return &cert, err
		}
	}
	return config, nil
}

// endpoint checks one address and returns it as a URL. Its errors show no part of the address
// that was not understood, because it may contain a password.
func endpoint(e string, secure bool) (string, error) {
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
