// Package client has what clients of servers have in common, whatever the store: TLS from files, and
// secrets that are replaced now and then.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// TLS returns a configuration with the authorities and the client certificate in PEM files. Each may be "".
// The certificate is read again at each handshake; the last one stays while somebody writes its files.
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
		first, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("cert_file and key_file: %w", clean.FileError(err))
		}
		var last atomic.Pointer[tls.Certificate]
		last.Store(&first)
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if now, err := tls.LoadX509KeyPair(certFile, keyFile); err == nil {
				last.Store(&now)
			}
			return last.Load(), Expired("cert_file "+certFile, *last.Load())
		}
	}
	return config, nil
}

// Expired returns an error if a client certificate has expired: a server only says that it is bad.
func Expired(what string, c tls.Certificate) error {
	if c.Leaf == nil || time.Now().Before(c.Leaf.NotAfter) {
		return nil
	}
	return fmt.Errorf("x509: the client certificate of %q (%s) has expired: it was valid until %s",
		c.Leaf.Subject.CommonName, what, c.Leaf.NotAfter.Format(time.RFC3339))
}

// Fresh returns what reads the authorities again for each handshake. The last ones stay if it cannot.
func Fresh(config *tls.Config, caFile string) func() *tls.Config {
	return func() *tls.Config {
		if config == nil || caFile == "" {
			return config
		}
		now := config.Clone()
		now.RootCAs = x509.NewCertPool()
		if pem, err := os.ReadFile(caFile); err != nil || !now.RootCAs.AppendCertsFromPEM(pem) {
			return config
		}
		return now
	}
}

// URL parses the address of a server, without a scheme or with that of HTTP. Its errors show no part
// of an address that was not understood, because it may contain a password.
func URL(address string) (*url.URL, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	isHost := false
	if err == nil {
		_, _, isHost = HostPort(u.Host, "80")
	}
	switch {
	case !isHost || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("it is not of the form https://host:port")
	case u.User != nil:
		return nil, errors.New("it contains credentials, which have options of their own")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("it has the scheme %.10q: http or https are known", u.Scheme)
	}
	return u, nil
}

// HostPort returns an address with its port, which is port if it names none, and its host. ok is false for
// what nobody could dial.
func HostPort(address, port string) (hostPort, host string, ok bool) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(strings.Trim(address, "[]"), port)
	}
	host, port, err := net.SplitHostPort(address)
	number, unknown := net.LookupPort("tcp", port)
	_, notIP := netip.ParseAddr(host)
	isName := host != "" && !strings.ContainsAny(host, "@/ ,:")
	return address, host, err == nil && unknown == nil && number > 0 && (notIP == nil || isName)
}

// ByProxy says that connections to an address lead through a proxy, if the environment of this process names
// one: "; …", or "". Clients of HTTP use it and do not tell, and its refusal reads like one of the server.
func ByProxy(to *url.URL) string {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: to})
	if err != nil || proxy == nil {
		return ""
	}
	return fmt.Sprintf("; connections to %s lead through the proxy %s (%s_PROXY in the environment): "+
		"name the store in NO_PROXY if it can be reached without",
		to.Host, clean.Text(proxy.Host, 100, false), strings.ToUpper(to.Scheme))
}

// A Secret is a token or password that is replaced now and then. The zero value is empty.
type Secret struct {
	Lines bool // it may have several lines, as a DSN of PostgreSQL; set before the first call

	mu  sync.Mutex
	now string
	old []string // up to 16 earlier values, newest last: the error of a late call may contain one
}

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
		s.old = append(s.old[max(0, len(s.old)-15):], s.now)
	}
	s.now = value
}

// ReadAgain reads the value from the file where somebody may have replaced it, if there is one, and reports
// whether it is another one. What is empty, or has several lines and may not, is just being written.
func (s *Secret) ReadAgain(file string) bool {
	content, err := os.ReadFile(file)
	now := strings.Trim(string(content), "\r\n") // a DSN may have a blank line before it
	partly := strings.TrimSpace(now) == "" || !s.Lines && strings.Contains(now, "\n")
	if err != nil || partly || now == s.Get() {
		return false
	}
	s.Set(now)
	return true
}

// All returns the values that errors must not contain.
func (s *Secret) All() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{s.now}, s.old...)
}

// Name returns the name of a connection, for people who look at the server: this package's, and that of the
// program. It has up to 60 letters, digits and characters of "-_./", which fits any server.
func Name() string {
	program := regexp.MustCompile(`[^a-zA-Z0-9._-]`).ReplaceAllString(filepath.Base(os.Args[0]), "_")
	return "go-election/" + program[:min(len(program), 48)]
}

// Connections describes how many connections each process has while nothing happens, and at most, how many
// processes were seen, and how many connections the server has left for their account, of how many.
func Connections(idle, most, processes, left, of int) backend.Diagnostic {
	text := "each process has %d, and up to %d for a moment; processes seen lately: %d. " +
		"The server has %d left of %d"
	warning := left < processes+most
	if warning {
		text += ". That is little: a busy moment or a few more processes fill it"
	}
	return clean.Diagnosticf(warning, "connections", text, idle, most, processes, left, of)
}

// PoolBusy completes the error of a call that has found no connection. A pool without a limit has most 0.
func PoolBusy(used, most int, err error) error {
	if most == 0 || used < most {
		return err
	}
	return fmt.Errorf("%w: all %d are in use: %w", backend.ErrPoolBusy, most, err)
}

// CloseIdle closes the connections of a program's pool that are idle, which may lead to a former server.
func CloseIdle(ctx context.Context, db *sql.DB) {
	for range db.Stats().Idle {
		c, err := db.Conn(ctx)
		if err != nil {
			return
		}
		defer DropConn(c)
	}
}

// DropConn closes a connection of a program's pool, which is not to use it again.
func DropConn(c *sql.Conn) {
	c.Raw(func(any) error { return sqldriver.ErrBadConn })
	c.Close()
}
