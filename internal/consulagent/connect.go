package consul

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/client"
)

// maxAnswer is the most that is read of one answer.
const maxAnswer = 256 << 20

// connect makes the client.
func (a *Agent) connect(o *Options) error {
	if o.Client != nil {
		a.Client, a.idle = o.Client, func() {}
		return nil
	}
	address, socket, secure, err := parseAddress(o.Address)
	if err != nil {
		return err
	}
	a.host = cmp.Or(socket, address)
	plain := o.TLS == nil && o.CAFile == "" && o.CertFile == "" && o.KeyFile == "" && o.ServerName == ""
	switch {
	case !plain && !secure && o.HTTPClient == nil:
		return errors.New("TLS is configured, so the address must begin with https://")
	case !plain && o.HTTPClient != nil:
		return errors.New("both TLS and an HTTPClient are configured; the HTTPClient must have its own TLS settings")
	case o.HTTPClient != nil && o.HTTPClient.Timeout != 0:
		return fmt.Errorf("HTTPClient has a Timeout of %v, which would end blocking queries; it must be 0", o.HTTPClient.Timeout)
	}
	switch {
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
	via := &tokenTransport{token: &a.token, namespace: o.Namespace, partition: o.Partition}
	if o.HTTPClient != nil {
		if via.next = o.HTTPClient.Transport; via.next == nil {
			via.next = http.DefaultTransport
		}
		a.idle = o.HTTPClient.CloseIdleConnections
	} else {
		config, err := o.tlsConfig()
		if err != nil {
			return err
		}
		dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
		transport := &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: config, TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 4, IdleConnTimeout: 90 * time.Second,
		}
		if socket != "" {
			transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, "unix", socket)
			}
		}
		via.next, a.idle = transport, transport.CloseIdleConnections
	}
	// The library fills in zero fields from the environment. So every field that matters
	// is set here, and tokenTransport removes the rest.
	a.Client, err = api.NewClient(&api.Config{
		Address: address, Scheme: "http", Token: "set for each request",
		Datacenter: o.Datacenter, Namespace: o.Namespace, Partition: o.Partition,
		HttpClient: &http.Client{Transport: via, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
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
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return "", "", false, errors.New("address is not a host and port or URL") // the URL may hold a secret
	case u.User != nil:
		return "", "", false, errors.New("address contains credentials; use Token or TokenFile")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", "", false, fmt.Errorf("address begins with %.20q; http, https and unix are allowed", u.Scheme)
	case u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		return "", "", false, errors.New("address is not a host and port")
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

// An aclToken is the ACL token, which may change in its file.
type aclToken struct {
	client.Secret
	file string // "": none
}

// isToken reports whether the text can be sent in a header.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// reload reads the file, if there is one, for the next request. If it contains no token, for example
// while it is being written, the last one stays.
func (t *aclToken) reload() error {
	if t.file == "" {
		return nil
	}
	text, err := os.ReadFile(t.file)
	if err != nil {
		return clean.FileError(err)
	}
	now := strings.TrimSpace(string(text))
	if !isToken(now) {
		return errors.New("it is empty, or has more than one line")
	}
	t.Set(now)
	return nil
}

// A tokenTransport adds the token to every request, so that the library and its errors never
// contain it. It removes what the library took from the environment, and bounds answers.
type tokenTransport struct {
	next                 http.RoundTripper
	token                *aclToken
	namespace, partition string
}

func (v *tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del("X-Consul-Token")
	if now := v.token.Get(); now != "" {
		r.Header.Set("X-Consul-Token", now)
	}
	q := r.URL.Query()
	for name, value := range map[string]string{"ns": v.namespace, "partition": v.partition} {
		if value == "" && q.Has(name) {
			q.Del(name)
			r.URL.RawQuery = q.Encode()
		}
	}
	answer, err := v.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusForbidden {
		v.token.reload()
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	return answer, nil
}
