package consul

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/internal/client"
)

// connect makes the client.
func (a *agent) connect(o *Options) error {
	if o.Client != nil {
		a.Client = o.Client
		return nil
	}
	address, socket, secure, err := parseAddress(o.Address)
	if err != nil {
		return err
	}
	a.host = cmp.Or(socket, address)
	plain := o.TLS == nil && o.CAFile == "" && o.CertFile == "" && o.KeyFile == "" && o.ServerName == ""
	switch {
	case !plain && !secure:
		return errors.New("TLS is configured, so the address must begin with https://")
	case o.Token != "" && o.TokenFile != "":
		return errors.New("both Token and TokenFile are set")
	case o.Token != "" && !isToken(o.Token):
		return errors.New("the token has a character that no header may have, such as a line break")
	}
	a.token.file = o.TokenFile
	a.token.Set(o.Token)
	if err := a.token.reload(); err != nil {
		return fmt.Errorf("token_file: %w", err)
	}
	config, err := o.tlsConfig()
	if err != nil {
		return err
	}
	dialer := &client.Dialer{Dialer: net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}}
	next := &http.Transport{
		DialContext:         dialer.DialContext,
		MaxIdleConnsPerHost: 4, IdleConnTimeout: 90 * time.Second,
	}
	fresh := client.Fresh(config, o.CAFile)
	next.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return client.Handshake(ctx, c, fresh(), address)
	}
	if socket != "" {
		next.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		}
	}
	a.Transport = &transport{Next: next, idle: next.CloseIdleConnections, token: &a.token, namespace: o.Namespace, partition: o.Partition}
	// The library fills in zero fields from the environment. So every field that matters
	// is set here, and transport removes the rest.
	a.Client, err = api.NewClient(&api.Config{
		Address: address, Scheme: "http", Token: "set for each request",
		Datacenter: o.Datacenter, Namespace: o.Namespace, Partition: o.Partition,
		HttpClient: &http.Client{Transport: a.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		Transport:  &http.Transport{}, // unused
	})
	return a.redact(err)
}

// parseAddress returns the address for the library, and the path of a unix socket.
func parseAddress(address string) (to, socket string, secure bool, err error) {
	if address == "" {
		address = "127.0.0.1:8500"
	}
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		if path == "" {
			return "", "", false, errors.New("address is a unix socket without a path")
		}
		return "http://localhost", path, false, nil
	}
	u, err := client.URL(address)
	if err != nil {
		return "", "", false, fmt.Errorf("address: %w", err)
	}
	return u.Scheme + "://" + u.Host + strings.TrimSuffix(u.Path, "/"), "", u.Scheme == "https", nil
}

func (o *Options) tlsConfig() (*tls.Config, error) {
	files := o.CAFile != "" || o.CertFile != "" || o.KeyFile != "" || o.ServerName != ""
	switch {
	case o.TLS != nil && files:
		return nil, errors.New("both TLS and files for TLS are set")
	case o.TLS != nil:
		return o.TLS.Clone(), nil
	}
	config, err := client.TLS(o.CAFile, o.CertFile, o.KeyFile)
	if err == nil {
		config.ServerName = o.ServerName
	}
	return config, err
}
