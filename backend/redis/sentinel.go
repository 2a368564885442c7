package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/go-election/go-election/internal/client"
)

// noSentinel begins what Sentinels say, which is not said by the server.
const noSentinel = "no Sentinel has named the master"

// A sentinel connects to a Sentinel. Sentinels know the address of the master. They are asked here, since
// go-redis prints to stderr whenever it asks them, and a package must not replace the logger of its program.
type sentinel func() *goredis.SentinelClient

// dialMaster returns what dials the master, and follows the Sentinels from the first time on.
func (d *driver) dialMaster(dial client.Dial, o Options, addresses []string) client.Dial {
	var sentinels []sentinel
	for _, address := range addresses {
		sentinels = append(sentinels, func() *goredis.SentinelClient {
			d.sentinelPassword.ReadAgain(o.SentinelPasswordFile)
			own := clientOptions(address, o.SentinelUsername, d.sentinelPassword.Get(), client.Quiet(dial))
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

// find returns the address of the master, as most Sentinels say. One of them may have been started with the
// configuration of long ago. Those that hang have a second from the first answer.
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
	var late <-chan time.Time
	best, named := "", make(map[string]int)
	for n := 0; n < len(sentinels) && 2*named[best] <= len(sentinels); n++ {
		select {
		case a := <-answers:
			if len(a.address) != 2 {
				errs = append(errs, a.err)
				continue
			}
			address := net.JoinHostPort(a.address[0], a.address[1])
			if named[address]++; named[address] > named[best] {
				best = address
			}
			late = cmp.Or(late, time.After(time.Second))
		case <-late:
			return best, nil
		}
	}
	if best != "" {
		return best, nil
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
	for again := true; again; again = client.Pause(d.ctx, 5*time.Second) {
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
