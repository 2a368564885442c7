package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/go-election/go-election/backend"
)

// connect makes the client. It dials in the background.
func (b *Backend) connect(o Options) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("etcd: %w: %s", backend.ErrInvalid, fmt.Sprintf(format, args...))
	}
	files := o.CAFile != "" || o.CertFile != "" || o.KeyFile != ""
	if o.Client != nil {
		if len(o.Endpoints) > 0 || o.Username != "" || o.Password != "" || files || o.TLS != nil {
			return bad("a Client is given, and with it Endpoints, Username, Password, TLS or its files, which it has of its own")
		}
		if o.Client.ActiveConnection() == nil {
			return bad("the Client has no connection")
		}
		b.client = o.Client
		return nil
	}
	switch {
	case len(o.Endpoints) == 0:
		return bad("no endpoints")
	case (o.Username == "") != (o.Password == ""):
		return bad("username and password are needed together")
	case files && o.TLS != nil:
		return bad("both TLS and files for it are set")
	case (o.CertFile == "") != (o.KeyFile == ""):
		return bad("cert_file and key_file are needed together")
	}
	config := clientv3.Config{
		Logger:               zap.NewNop(), // it would print to stderr
		MaxUnaryRetries:      2,            // the default of 100 swallows the reason, and repeats a refused token
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(b.connections.dial),
			grpc.WithChainUnaryInterceptor(failFast),
			grpc.WithChainStreamInterceptor(failFastStream),
			// Not the default two minutes after an outage.
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
			return bad("%v", err)
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
			return nil, fmt.Errorf("ca_file: %w", backend.FileError(err))
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file: %s has no certificate", o.CAFile)
		}
	}
	if o.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile); err != nil {
			return nil, fmt.Errorf("cert_file and key_file: %w", backend.FileError(err))
		}
		// Read at each handshake, so that renewed certificates are used.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
			return &cert, err
		}
	}
	return config, nil
}

// endpoint checks one address. What it may contain is not shown: people put
// passwords into URLs.
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

// A login holds the user's token and gets a new one when the server refuses it.
// The client's own way would log in for every stream, which costs the server a
// password hash each time, and needs the server to be up when it is made.
type login struct {
	username, password string
	mutex              chan struct{}

	mu        sync.Mutex
	token     string
	oldTokens []string // tokens before, newest last: a call that fails late may still show one
}

// GetRequestMetadata and RequireTransportSecurity attach the token to a call.
func (l *login) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if token := l.current(); token != "" {
		return map[string]string{rpctypes.TokenFieldNameGRPC: token}, nil
	}
	return nil, nil
}

func (l *login) RequireTransportSecurity() bool { return false }

func (l *login) current() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token
}

func (l *login) set(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token != "" && l.token != token {
		l.oldTokens = append(l.oldTokens[max(0, len(l.oldTokens)-15):], l.token)
	}
	l.token = token
}

// secrets returns what must not be shown.
func (l *login) secrets() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{l.password, l.token}, l.oldTokens...)
}

// refresh gets a new token, unless somebody else just has.
func (l *login) refresh(ctx context.Context, c *clientv3.Client, old string) error {
	select {
	case l.mutex <- struct{}{}:
		defer func() { <-l.mutex }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if now := l.current(); now != "" && now != old {
		return nil
	}
	l.set("")
	resp, err := hedged(ctx, func(ctx context.Context) (*clientv3.AuthenticateResponse, error) {
		return c.Authenticate(ctx, l.username, l.password)
	})
	switch {
	case errors.Is(err, rpctypes.ErrAuthNotEnabled):
		return nil
	case err != nil:
		return err
	}
	l.set(resp.Token)
	return nil
}

// unanswered is how long a call must have waited in vain for its connections to be
// suspected.
const suspectAfter = 100 * time.Millisecond

// call runs f, which is one call of the cluster. If no member answers in time, the
// connections are dropped.
func (b *Backend) call(ctx context.Context, f func() error) error {
	began := time.Now()
	err := b.withToken(ctx, f)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && time.Since(began) > suspectAfter {
		b.connections.drop()
	}
	return err
}

// authorised runs f with a token, and once more if the token was refused: then
// nothing was done.
func (b *Backend) withToken(ctx context.Context, f func() error) error {
	if b.login == nil {
		return f()
	}
	token := b.login.current()
	if token == "" {
		if err := b.login.refresh(ctx, b.client, ""); err != nil {
			return err
		}
		token = b.login.current()
	}
	err := f()
	if tokenRefused(err) {
		if err := b.login.refresh(ctx, b.client, token); err != nil {
			return err
		}
		err = f()
	}
	return err
}

// hedged asks a second and a third member if one does not answer, and takes what
// comes first: a member that hangs must cost nobody a lease. f may be done more
// than once. All are over when it returns.
func hedged[R any](ctx context.Context, f func(context.Context) (R, error)) (R, error) {
	const most = 3
	type result struct {
		r   R
		err error
	}
	inner, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	results := make(chan result, most)
	wait := time.Second
	if by, ok := ctx.Deadline(); ok {
		wait = max(time.Until(by)/4, time.Millisecond)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	begun, failed := 0, 0
	for {
		select {
		case <-timer.C:
			if begun == most {
				continue
			}
			begun++
			all.Go(func() {
				r, err := f(inner)
				results <- result{r, err}
			})
			timer.Reset(wait)
		case got := <-results:
			if failed++; got.err == nil || ctx.Err() != nil || failed == most || !worthRetrying(got.err) {
				return got.r, got.err
			}
			if failed == begun {
				timer.Reset(wait / 8)
			}
		case <-ctx.Done():
			var none R
			return none, ctx.Err()
		}
	}
}

// impatient makes a call fail, with the reason, when no member can be reached. The
// client would wait in silence until the call's time is up.
func failFast(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return next(ctx, method, req, reply, cc, append(opts, grpc.WaitForReady(false))...)
}

func failFastStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return next(ctx, desc, cc, method, append(opts, grpc.WaitForReady(false))...)
}
