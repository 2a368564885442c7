package consul

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
)

// newDriver checks o and returns a driver. It makes no request.
func newDriver(o Options) (*driver, error) {
	d := &driver{
		client: o.Client, prefix: cmp.Or(o.Prefix, "election"),
		datacenter: o.Datacenter, namespace: o.Namespace, partition: o.Partition,
		newest: make(map[lease.Key]index),
	}
	if err := backend.CheckText("prefix", d.prefix, 128, false); err != nil {
		return nil, err
	}
	if path.Clean("/"+d.prefix) != "/"+d.prefix { // agents redirect such paths
		return nil, fmt.Errorf("prefix %q has a part that is \"\", \".\" or \"..\"", d.prefix)
	}
	if o.Client != nil {
		return d, nil
	}
	return d, d.connect(o)
}

// connect makes the client.
func (d *driver) connect(o Options) error {
	address, socket, secure, err := parseAddress(cmp.Or(o.Address, "127.0.0.1:8500"))
	if err != nil {
		return err
	}
	d.host = cmp.Or(socket, address)
	files := o.CAFile+o.CertFile+o.KeyFile+o.ServerName != ""
	d.token.Set(o.Token)
	switch {
	case o.TLS != nil && files:
		return errors.New("both TLS and files for TLS are set")
	case (o.TLS != nil || files) && !secure:
		return errors.New("TLS is configured, so the address must begin with https://")
	case o.TokenFile != "" && o.Token == "" && !d.token.ReadAgain(o.TokenFile):
		return errors.New("TokenFile cannot be read, or does not have one line")
	}
	d.tokenFile = o.TokenFile

	config := o.TLS.Clone()
	if config == nil {
		if config, err = client.TLS(o.CAFile, o.CertFile, o.KeyFile); err != nil {
			return err
		}
		config.ServerName = o.ServerName
	}
	dialer := new(client.Dialer)
	next := &http.Transport{
		DialContext:         client.AskFirst(dialer.DialContext),
		DialTLSContext:      client.AskFirst(dialer.DialTLS(client.Fresh(config, o.CAFile))),
		MaxIdleConnsPerHost: maxConns - 1, IdleConnTimeout: 90 * time.Second,
	}
	if socket != "" {
		next.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		}
	}
	d.transport = &transport{Next: next, idle: next.CloseIdleConnections, driver: d}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	// The library fills in zero fields from the environment. So every field that matters
	// is set here, and transport removes the rest.
	d.client, err = api.NewClient(&api.Config{
		Address: address, Scheme: "http", Token: "set for each request",
		Datacenter: o.Datacenter, Namespace: o.Namespace, Partition: o.Partition,
		HttpClient: &http.Client{Transport: d.transport, CheckRedirect: stay},
		Transport:  &http.Transport{}, // unused
	})
	return err
}

// maxConns is how many connections a process keeps: one of them waits for changes.
const maxConns = 5

// parseAddress returns the address for the library, and the path of a unix socket.
func parseAddress(address string) (to, socket string, secure bool, err error) {
	if file, ok := strings.CutPrefix(address, "unix://"); ok {
		if file == "" {
			err = errors.New("address is a unix socket without a path")
		}
		return "http://localhost", file, false, err
	}
	u, err := client.URL(address)
	if err != nil {
		return "", "", false, fmt.Errorf("address: %w", err)
	}
	return u.Scheme + "://" + u.Host + strings.TrimSuffix(u.Path, "/"), "", u.Scheme == "https", nil
}

// A transport adds the token to every request, so that the library and its errors never contain it.
// It removes what the library took from the environment, and bounds answers.
type transport struct {
	Next http.RoundTripper // tests replace it before the first request

	idle   func() // closes idle connections
	driver *driver
}

func (v *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del("X-Consul-Token")
	if now := v.driver.token.Get(); now != "" {
		r.Header.Set("X-Consul-Token", now)
	}
	r.Header.Set("User-Agent", client.Name())
	q := r.URL.Query()
	for name, value := range map[string]string{"ns": v.driver.namespace, "partition": v.driver.partition} {
		if value == "" && q.Has(name) {
			q.Del(name)
			r.URL.RawQuery = q.Encode()
		}
	}
	answer, err := client.RoundTrip(v.Next, r, q.Has("wait"), v.idle)
	if err != nil {
		return nil, err
	}
	status := answer.StatusCode
	if strings.HasSuffix(r.URL.Path, "/v1/txn") && status != http.StatusOK && status != http.StatusConflict {
		defer answer.Body.Close() // the library would keep the code to itself, and a proxy may say no more
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return nil, api.StatusError{Code: status, Body: strings.TrimSpace(string(text))}
	}
	return answer, nil
}
