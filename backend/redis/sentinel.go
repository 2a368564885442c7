package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// noSentinel begins what Sentinels say, which is not said by the server.
const noSentinel = "no Sentinel has named the master"

// A sentinel connects to a Sentinel. Sentinels know the address of the master. They are asked here, since
// go-redis prints to stderr whenever it asks them, and a package must not replace the logger of its program.
type sentinel func() *goredis.SentinelClient

// dialMaster returns what dials the master, and follows the Sentinels from the first time on.
func (d *driver) dialMaster(dial dialFunc, o Options, addresses []string) dialFunc {
	var sentinels []sentinel
	for _, address := range addresses {
		sentinels = append(sentinels, func() *goredis.SentinelClient {
			d.sentinelPassword.ReadAgain(o.SentinelPasswordFile)
			own := clientOptions(address, o.SentinelUsername, d.sentinelPassword.Get(), quiet(dial))
			return goredis.NewSentinelClient(own)
		})
	}
	var once sync.Once
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		once.Do(func() {
			for _, s := range sentinels {
				go d.follow(o.Master, s)
			}
		})
		address, err := find(ctx, o.Master, sentinels)
		if err != nil {
			return nil, err
		}
		return dial(ctx, network, address)
	}
}

// find returns the address of the master, as the Sentinel says that answers first.
func find(ctx context.Context, master string, sentinels []sentinel) (string, error) {
	type answer struct {
		address []string
		err     error
	}
	answers := make(chan answer, len(sentinels))
	for _, connect := range sentinels {
		go func() {
			c := connect()
			defer c.Close()
			address, err := c.GetMasterAddrByName(ctx, master).Result()
			answers <- answer{address, err}
		}()
	}

	var errs []error
	for range sentinels {
		a := <-answers
		if len(a.address) == 2 {
			return net.JoinHostPort(a.address[0], a.address[1]), nil
		}
		errs = append(errs, a.err)
	}
	return "", fmt.Errorf("%s: %v", noSentinel, errors.Join(errs...))
}

// refusedBySentinels reports whether Sentinels have answered, and named no address.
func refusedBySentinels(text string) bool {
	answered := has(text, "redis: nil", "AUTH", "WRONGPASS", "NOPERM", "nknown command")
	return answered && strings.Contains(text, noSentinel)
}

// follow leaves all connections when a Sentinel names another master, since the old one may still answer.
func (d *driver) follow(master string, connect sentinel) {
	for again := true; again; again = pause(d.ctx, 5*time.Second) {
		c := connect()
		sub := c.Subscribe(d.ctx, "+switch-master")
		stop := context.AfterFunc(d.ctx, func() { sub.Close() })
		for err := error(nil); err == nil; {
			var said any
			said, err = sub.ReceiveTimeout(d.ctx, noEnd)
			if m, ok := said.(*goredis.Message); ok && strings.HasPrefix(m.Payload, master+" ") {
				d.mu.Lock()
				d.leave()
				d.mu.Unlock()
			}
		}
		stop()
		sub.Close()
		c.Close()
	}
}

// noEnd is how long a subscription may be silent.
const noEnd = 365 * 24 * time.Hour

// A quietConn breaks as if no message had come in time: go-redis prints other errors to stderr.
type quietConn struct{ net.Conn }

// quiet makes quietConns of what dial returns.
func quiet(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return quietConn{c}, nil
	}
}

func (c quietConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		err = quietError{err}
	}
	return n, err
}

// Write says nothing of an error: the next Read does, which would wait for ever if SUBSCRIBE was not sent.
func (c quietConn) Write(b []byte) (int, error) {
	if _, err := c.Conn.Write(b); err != nil {
		c.Close()
	}
	return len(b), nil
}

type quietError struct{ error }

func (e quietError) Unwrap() error { return e.error }
func (quietError) Timeout() bool   { return true }
func (quietError) Temporary() bool { return false }
