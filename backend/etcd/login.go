package etcd

import (
	"context"
	"errors"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A login holds the user's token and gets a new one when the server refuses it. The client
// library would log in for every stream, which costs the server a password hash each time,
// and would need the server to be up when the client is created.
type login struct {
	username, password string
	mutex              chan struct{} // held while a new token is fetched

	mu        sync.Mutex
	token     string
	oldTokens []string // earlier tokens, newest last: the error of a late call may contain one
}

// GetRequestMetadata attaches the token to a call, as credentials.PerRPCCredentials.
func (l *login) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if token := l.current(); token != "" {
		return map[string]string{rpctypes.TokenFieldNameGRPC: token}, nil
	}
	return nil, nil
}

// RequireTransportSecurity returns false: with http endpoints tokens are sent unencrypted.
func (l *login) RequireTransportSecurity() bool { return false }

func (l *login) current() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token
}

// set replaces the token and keeps the old one among the secrets.
func (l *login) set(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token != "" && l.token != token {
		l.oldTokens = append(l.oldTokens[max(0, len(l.oldTokens)-15):], l.token)
	}
	l.token = token
}

// secrets returns what errors must not contain.
func (l *login) secrets() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{l.password, l.token}, l.oldTokens...)
}

// refresh replaces the token old, unless another call has just done so.
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
