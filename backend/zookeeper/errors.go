package zookeeper

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
)

// hints say what to do about codes that the client library does not know.
var hints = map[string]string{
	"unknown error: -124": "the servers require clients to authenticate (enforce.auth.enabled, sessionRequireClientSASLAuth): set a user, or another scheme there; SASL is not supported",
	"unknown error: -125": "a quota is exceeded: raise it (zkCli.sh: listquota, setquota)",
}

// fail adds to err its class and what an operator must do.
func (d *driver) fail(err error) error {
	if err == nil || errors.Is(err, backend.Class(err)) {
		return err
	}
	for text, hint := range hints {
		if strings.Contains(err.Error(), text) {
			return fmt.Errorf("%w: %w; %s", backend.ErrDenied, err, hint)
		}
	}
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("%w: %w; %s needs read, write, create and delete at %s and below (zkCli.sh: getAcl -R %s)", backend.ErrDenied, err, d.user(), d.root, d.root)
	case errors.Is(err, zk.ErrNoServer), errors.Is(err, context.DeadlineExceeded), errors.Is(err, zk.ErrConnectionClosed):
		if why := d.session.lastError(); why != nil {
			return fmt.Errorf("%w: not connected: %w (%w)", class(why), err, why)
		}
	}
	return fmt.Errorf("%w: %w", class(err), err)
}

// class returns the class of an error of the library or of dialling.
func class(err error) error {
	if errors.Is(err, zk.ErrAuthFailed) || errors.Is(err, zk.ErrInvalidACL) || errors.Is(err, zk.ErrNoChildrenForEphemerals) || isTLS(err) {
		return backend.ErrDenied
	}
	return backend.ErrUnavailable
}

// user names the configured user, without a secret.
func (d *driver) user() string {
	if d.options.User == "" {
		return "everybody (no user is configured)"
	}
	return fmt.Sprintf("user %.80q", d.options.User)
}

// isTLS reports whether a handshake has failed in a way that trying again does not mend.
func isTLS(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok { // from the server: it may require another client certificate
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok
}

// address returns a server with its port, and whether it is on this host.
func address(server string) (hostPort string, loopback bool, err error) {
	hostPort = server
	if _, _, err := net.SplitHostPort(server); err != nil {
		hostPort = net.JoinHostPort(strings.Trim(server, "[]"), "2181")
	}
	host, port, err := net.SplitHostPort(hostPort)
	switch {
	case strings.Contains(server, "@"): // it may have a password before that
		return "", false, errors.New("a server is host:port, without a user: set user and password")
	case err != nil, host == "", strings.ContainsAny(server, "/ ,"):
		return "", false, fmt.Errorf("server %.80q is not of the form host:port", server)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", false, fmt.Errorf("server %.80q: the port must be a number from 1 to 65535", server)
	}
	ip := net.ParseIP(host)
	return hostPort, host == "localhost" || ip != nil && ip.IsLoopback(), nil
}
