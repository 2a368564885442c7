package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// A client of the program whose connections are all in use is named as the cause.
func TestAClientWithoutAFreeConnectionIsNamed(t *testing.T) {
	t.Parallel()
	client := goredis.NewClient(&goredis.Options{Addr: testbed.SharedRedis(t).Addr(), PoolSize: 1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	b, err := Open(Options{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	used := client.Conn()
	if err := used.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = b.Observe(ctx, []backend.Lease{{Election: "jobs"}})
	if !errors.Is(err, backend.ErrPoolBusy) || backend.Class(err) != backend.ErrUnavailable || !strings.Contains(err.Error(), "all 1 are in use") {
		t.Errorf("the program uses the only connection: %v; want ErrPoolBusy", err)
	}

	used.Close()
	if _, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}}); errors.Is(err, backend.ErrPoolBusy) {
		t.Errorf("the program has given it back: %v", err)
	}
}

// A server without TLS waits for the end of what it takes for a command, and says nothing.
func TestAServerWithoutTLSIsNamed(t *testing.T) {
	t.Parallel()
	b, err := Open(Options{Addresses: []string{testbed.SharedRedis(t).Addr()}, TLS: &tls.Config{ServerName: "redis"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err = b.Observe(ctx, []backend.Lease{{Election: "jobs"}}); backend.Class(err) != backend.ErrUnavailable || !strings.Contains(err.Error(), "a server without TLS") {
		t.Errorf("%v; want the missing TLS as the cause", err)
	}
}
