package consul

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend/clean"
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
	files := o.CAFile+o.CertFile+o.KeyFile+o.ServerName != ""
	switch {
	case o.TLS != nil && files:
		return errors.New("both TLS and files for TLS are set")
	case (o.TLS != nil || files) && !secure:
		return errors.New("TLS is configured, so the address must begin with https://")
	case o.Token != "" && o.TokenFile != "":
		return errors.New("both Token and TokenFile are set")
	}
	token := o.Token
	if a.tokenFile = o.TokenFile; a.tokenFile != "" {
		if token, err = readToken(a.tokenFile); err != nil {
			return err
		}
	}
	if strings.ContainsFunc(token, unicode.IsControl) {
		return errors.New("the token has a character that no header may have, such as a line break")
	}
	a.token.Set(token)
	config := o.TLS.Clone()
	if config == nil {
		if config, err = client.TLS(o.CAFile, o.CertFile, o.KeyFile); err != nil {
			return err
		}
		config.ServerName = o.ServerName
	}
	dialer := &client.Dialer{Dialer: net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}}
	next := &http.Transport{
		DialContext: dialer.DialContext, DialTLSContext: dialer.DialTLS(client.Fresh(config, o.CAFile)),
		MaxIdleConnsPerHost: 4, IdleConnTimeout: 90 * time.Second,
	}
	if socket != "" {
		next.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		}
	}
	a.Transport = &transport{Next: next, idle: next.CloseIdleConnections, agent: a}
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

// readToken returns the token in a file.
func readToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("token_file: %w", clean.FileError(err))
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", errors.New("token_file: it is empty")
	}
	return token, nil
}

// maxAnswer is the most that is read of one answer.
const maxAnswer = 256 << 20

// A transport adds the token to every request, so that the library and its errors never contain it.
// It removes what the library took from the environment, and bounds answers.
type transport struct {
	Next http.RoundTripper // tests replace it before the first request

	idle  func() // closes idle connections
	agent *agent
}

// RoundTrip implements [http.RoundTripper].
func (v *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if now := v.agent.token.Get(); now != "" {
		r.Header.Set("X-Consul-Token", now)
	} else {
		r.Header.Del("X-Consul-Token")
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", client.Name())
	}
	q := r.URL.Query()
	for name, value := range map[string]string{"ns": v.agent.namespace, "partition": v.agent.partition} {
		if value == "" && q.Has(name) {
			q.Del(name)
			r.URL.RawQuery = q.Encode()
		}
	}
	answer, err := v.send(r)
	if err != nil {
		return nil, err
	}
	status := answer.StatusCode
	if strings.HasSuffix(r.URL.Path, "/v1/txn") && status != http.StatusOK && status != http.StatusConflict {
		defer answer.Body.Close() // the library would keep the code to itself, and a proxy may say no more than that
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return nil, api.StatusError{Code: status, Body: strings.TrimSpace(string(text))}
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	return answer, nil
}

// tooManyConns is what an agent says that allows this address no more connections. It does nothing else with the request.
const tooManyConns = "too many concurrent connections"

// send sends a request, and again on the connection of another one while the agent allows no more.
func (v *transport) send(r *http.Request) (*http.Response, error) {
	for {
		answer, err := v.Next.RoundTrip(r)
		if err != nil || answer.StatusCode != http.StatusTooManyRequests {
			return answer, err
		}
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		answer.Body.Close()
		answer.Body = io.NopCloser(bytes.NewReader(text))
		if !strings.Contains(string(text), tooManyConns) || r.Body != nil && r.GetBody == nil {
			return answer, nil
		}

		v.agent.full.Store(time.Now().UnixNano())
		select {
		case <-time.After(50 * time.Millisecond):
		case <-r.Context().Done():
			return answer, nil
		}
		if r.Body != nil {
			if r.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}
