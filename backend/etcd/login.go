package etcd

import (
	"context"
	"errors"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

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
