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

// Sentinels know the address of the master. They are asked here, since go-redis prints to stderr whenever it
// asks them, and a package must not replace the logger of its program.
type sentinels struct {
	addresses []string
	master    string
	client    func(address string) *goredis.SentinelClient
}

const (
	noSentinel    = "no Sentinel has named the master"
	noMaster      = "redis: nil" // there is none of that name
	sentinelPause = 5 * time.Second
)

// dialMaster returns what dials the master, and follows the Sentinels from the first time on.
func (d *driver) dialMaster(dial dialFunc, o Options, addresses []string) dialFunc {
	s := &sentinels{addresses: addresses, master: o.Master}
	s.client = func(address string) *goredis.SentinelClient {
		d.sentinelPassword.ReadAgain(o.SentinelPasswordFile)
		return goredis.NewSentinelClient(clientOptions(address, o.SentinelUsername, d.sentinelPassword.Get(), quiet(dial)))
	}
	var once sync.Once
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		once.Do(func() {
			for _, address := range addresses {
				go d.follow(s, address)
			}
		})
		address, err := s.find(ctx)
		if err != nil {
			return nil, err
		}
		return dial(ctx, network, address)
	}
}

// find returns the address of the master, as the Sentinel says that answers first.
func (s *sentinels) find(ctx context.Context) (string, error) {
	type answer struct {
		master []string
		err    error
	}
	answers := make(chan answer, len(s.addresses))
	for _, address := range s.addresses {
		go func() {
			c := s.client(address)
			defer c.Close()
			master, err := c.GetMasterAddrByName(ctx, s.master).Result()
			answers <- answer{master, err}
		}()
	}

	var errs []error
	for range s.addresses {
		a := <-answers
		if len(a.master) == 2 {
			return net.JoinHostPort(a.master[0], a.master[1]), nil
		}
		errs = append(errs, a.err)
	}
	return "", fmt.Errorf("%s: %v", noSentinel, errors.Join(errs...)) // what a Sentinel says is not said by the server
}

// refusedBySentinels reports whether Sentinels have answered, and named no address.
func refusedBySentinels(text string) bool {
	return strings.Contains(text, noSentinel) && has(text, noMaster, "AUTH", "WRONGPASS", "NOPERM", "nknown command")
}

// follow leaves all connections when a Sentinel says that there is another master, until the driver is
// closed: the old one may still answer.
func (d *driver) follow(s *sentinels, address string) {
	for again := true; again; again = pause(d.ctx, sentinelPause) {
		c := s.client(address)
		sub := c.Subscribe(d.ctx, "+switch-master")
		stop := context.AfterFunc(d.ctx, func() { sub.Close() })
		for err := error(nil); err == nil; {
			var said any
			said, err = sub.ReceiveTimeout(d.ctx, noEnd)
			if m, ok := said.(*goredis.Message); ok && strings.HasPrefix(m.Payload, s.master+" ") {
				d.leave()
			}
		}
		stop()
		sub.Close()
		c.Close()
	}
}

// leave closes connections that may lead to a former server.
func (d *driver) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropListener()
	d.conns.Moved()
}

// noEnd is how long a subscription may be silent.
const noEnd = 365 * 24 * time.Hour

// A quietConn is a connection with a subscription. go-redis prints to stderr when one breaks, unless that
// looks as if no message had come in time.
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

// Write says nothing of an error: the next Read does, which would wait for ever if what was not sent is
// SUBSCRIBE.
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
