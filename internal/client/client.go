// Package client has what clients of servers have in common, whatever the store: TLS from files,
// calls that go to a second server if the first does not answer, and connections that can be
// closed from outside.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/go-election/go-election/backend/clean"
)

// TLS returns a configuration with the authorities and the client certificate in PEM files. Each
// may be "". The certificate is read again at each handshake, so that a renewed one is used.
func TLS(caFile, certFile, keyFile string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if (certFile == "") != (keyFile == "") {
		return nil, errors.New("cert_file and key_file are needed together")
	}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", clean.FileError(err))
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file: %s has no certificate", caFile)
		}
	}
	if certFile != "" {
		if _, err := tls.LoadX509KeyPair(certFile, keyFile); err != nil {
			return nil, fmt.Errorf("cert_file and key_file: %w", clean.FileError(err))
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(certFile, keyFile)
			return &cert, err
		}
	}
	return config, nil
}

// Connections are the TCP connections of a client. If a firewall has forgotten a connection or the
// network was cut, TCP takes minutes to notice. So all connections are closed, and made anew, when
// no server has answered a call in time. The zero value is ready for use.
type Connections struct {
	mu   sync.Mutex
	open map[*connection]bool
}

type connection struct {
	net.Conn
	owner *Connections
}

// Dial connects to an address.
func (c *Connections) Dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	tracked := &connection{conn, c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = make(map[*connection]bool)
	}
	c.open[tracked] = true
	return tracked, nil
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

// Drop closes all connections.
func (c *Connections) Drop() {
	c.mu.Lock()
	all := c.open
	c.open = nil
	c.mu.Unlock()
	for conn := range all {
		conn.Conn.Close()
	}
}

// Hedged runs f, a second time if it has not returned after a quarter of the call's time, and a
// third time. It returns the first result without an error, so that a server that hangs costs
// nobody a lease. An error is final if retry says so. All runs of f have ended when Hedged returns.
func Hedged[R any](ctx context.Context, retry func(error) bool, f func(context.Context) (R, error)) (R, error) {
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
	started, finished := 0, 0
	for {
		select {
		case <-timer.C:
			if started == most {
				continue
			}
			started++
			all.Go(func() {
				r, err := f(inner)
				results <- result{r, err}
			})
			timer.Reset(wait)
		case got := <-results:
			if finished++; got.err == nil || ctx.Err() != nil || finished == most || !retry(got.err) {
				return got.r, got.err
			}
			if finished == started {
				timer.Reset(wait / 8)
			}
		case <-ctx.Done():
			var none R
			return none, ctx.Err()
		}
	}
}

// A Secret is a token or password that is replaced now and then. The zero value is empty.
type Secret struct {
	mu  sync.Mutex
	now string
	old []string // earlier values, newest last: the error of a late call may contain one
}

// maxOld is how many earlier values are remembered.
const maxOld = 16

// Get returns the present value.
func (s *Secret) Get() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Set replaces the value.
func (s *Secret) Set(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != "" && s.now != value {
		s.old = append(s.old[max(0, len(s.old)-maxOld+1):], s.now)
	}
	s.now = value
}

// All returns the values that errors must not contain.
func (s *Secret) All() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{s.now}, s.old...)
}
