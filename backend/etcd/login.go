package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend/internal/client"
)

// A login holds the user's token and gets a new one when the server refuses it. The client
// library would log in for every stream, which costs the server a password hash each time,
// and would need the server to be up when the client is created.
type login struct {
	username, password string
	token              client.Secret
	mutex              chan struct{} // held while a new token is fetched
}

// GetRequestMetadata attaches the token to a call, as credentials.PerRPCCredentials.
func (l *login) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if token := l.token.Get(); token != "" {
		return map[string]string{rpctypes.TokenFieldNameGRPC: token}, nil
	}
	return nil, nil
}

// RequireTransportSecurity returns false: with http endpoints tokens are sent unencrypted.
func (l *login) RequireTransportSecurity() bool { return false }

// refresh replaces the token old, unless another call has just done so.
func (l *login) refresh(ctx context.Context, c *clientv3.Client, old string) error {
	select {
	case l.mutex <- struct{}{}:
		defer func() { <-l.mutex }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if now := l.token.Get(); now != "" && now != old {
		return nil
	}
	l.token.Set("")
	resp, err := client.Hedged(ctx, worthRetrying, func(ctx context.Context) (*clientv3.AuthenticateResponse, error) {
		return c.Authenticate(ctx, l.username, l.password)
	})
	if err == nil {
		l.token.Set(resp.Token)
	}
	if errors.Is(err, rpctypes.ErrAuthNotEnabled) {
		return nil
	}
	return err
}
