package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/client"
)

// connect makes the client, which dials when it is used.
func (d *driver) connect(o Options) error {
	port := "6379"
	if o.Master != "" {
		port = "26379"
	}
	var addresses []string
	for i, a := range o.Addresses {
		address, _, ok := client.HostPort(a, port)
		if !ok {
			return fmt.Errorf("address %d is not host:port; it is not shown, it may hold a password", i+1)
		}
		addresses = append(addresses, address)
	}
	config := o.TLS.Clone()
	if o.CAFile+o.CertFile+o.KeyFile != "" {
		var err error
		if config, err = client.TLS(o.CAFile, o.CertFile, o.KeyFile); err != nil {
			return err
		}
	}
	d.tls = config != nil

	// TCP notices within some seconds that a connection is cut, also while it waits.
	alive := net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3}
	dialer := &client.Dialer{Dialer: net.Dialer{KeepAliveConfig: alive}}
	dial := dialer.DialTLS(client.Fresh(config, o.CAFile))
	if o.Master != "" {
		dial = d.dialMaster(dial, o, addresses)
	}
	d.newClient = func(listens bool) goredis.UniversalClient {
		d.password.ReadAgain(o.PasswordFile)
		own := clientOptions(addresses[0], o.Username, d.password.Get(), dial)
		own.DB = o.DB
		if listens {
			own.Dialer = client.Quiet(dial)
		}
		return goredis.NewClient(own)
	}
	d.conns.Age, d.conns.Most, d.conns.Open = time.Minute, mostConns, d.open
	d.conns.Close = func(c goredis.UniversalClient) { c.Close() }
	d.location = clean.Location(path.Join(o.Master, strconv.Itoa(o.DB), d.prefix), addresses...)
	return nil
}

// clientOptions are those of a client that neither repeats requests nor says CLIENT SETNAME, a right.
func clientOptions(address, username, password string, dial client.Dial) *goredis.Options {
	return &goredis.Options{
		Addr: address, Username: username, Password: password,
		Protocol: 2, DisableIdentity: true, ContextTimeoutEnabled: true, MaxRetries: -1,
		Dialer: dial, DialTimeout: 2 * time.Second,
		OnConnect: func(ctx context.Context, c *goredis.Conn) error {
			c.Hello(ctx, 2, "", "", client.Name()) // a server that is too old to know HELLO shows no name
			return nil
		},
	}
}

// open makes a client for calls that has connected. Who cannot PING has connected, too. A full server says so
// and closes the connection, which may be faster than what it says. Then the listener gives up its place.
func (d *driver) open(ctx context.Context) (goredis.UniversalClient, error) {
	for {
		c := d.newClient(false)
		err := c.Ping(ctx).Err()
		if err == nil || lacksRight(err.Error()) || goredis.HasErrorPrefix(err, "unknown command") ||
			goredis.HasErrorPrefix(err, "MISCONF ") { // it can still be read
			return c, nil
		}
		c.Close()
		reset := errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
		if !reset && !errors.Is(err, io.EOF) && !has(err.Error(), tooManyClients) {
			return nil, err
		}
		// It takes a moment until the server sees that a connection has ended.
		if !d.giveWay() || !client.Pause(ctx, 100*time.Millisecond) {
			return nil, fmt.Errorf("the server closes connections: it is full, wants TLS, is in protected-"+
				"mode, or is a proxy that reaches none: %w", err)
		}
	}
}

// use has the driver use a client of the program. That has a pool of its own, and nobody closes it.
func (d *driver) use(given goredis.UniversalClient) error {
	d.newClient = func(bool) goredis.UniversalClient { return given }
	d.conns.Age, d.conns.Most, d.conns.Close = math.MaxInt64, math.MaxInt, func(goredis.UniversalClient) {}
	d.conns.Open = func(context.Context) (goredis.UniversalClient, error) { return given, nil }
	switch c := given.(type) {
	case interface{ Options() *goredis.Options }:
		o := c.Options()
		d.db, d.user, d.poolSize = o.DB, o.Username, o.PoolSize
		if lends, ok := given.(interface{ Conn() *goredis.Conn }); ok {
			d.lend = lends.Conn
		}
		d.password.Set(o.Password)
		d.location = clean.Location(path.Join(strconv.Itoa(o.DB), d.prefix), o.Addr)
	case interface {
		Options() *goredis.ClusterOptions
	}:
		o := c.Options()
		if d.replicas > 0 {
			return errors.New("WaitReplicas is set, and the Client is that of a cluster")
		}
		if o.ClusterSlots != nil { // of NewFailoverClusterClient, which keeps the database to itself
			return errors.New("the Client has ClusterSlots: hand in a NewFailoverClient, or name the master")
		}
		d.user, d.follows = o.Username, true
		d.password.Set(o.Password)
		d.location = clean.Location(d.prefix, o.Addrs...)
	default:
		return fmt.Errorf("the Client is a %T: its database cannot be known without a method Options", c)
	}
	return nil
}

const (
	mostConns      = 3 // of a process, for calls: two may be dead without notice
	tooManyClients = "max number of clients reached"
	tooLong        = "unauthenticated " // instead of NOAUTH: before a login the server reads no long command
)

// run runs the script. A second copy of it has no effect ([client.Send]): all changes are conditional.
func (d *driver) run(ctx context.Context, args []any) ([]any, error) {
	patience := time.Second // less than a third of the call's time: no copy is sent while the first one waits
	if by, ok := ctx.Deadline(); ok {
		patience = max(time.Millisecond, time.Until(by)/4)
	}
	sendCopy := func(within context.Context, c goredis.UniversalClient) ([]any, bool, error) {
		answer, err := d.eval(within, c, patience, args)
		return answer, err != nil && d.broken(err), err
	}
	isFinal := func(err error) bool { return !d.broken(err) || d.lend == nil && isDenied(err) }
	return client.Send(ctx, d.ctx, &d.conns, sendCopy, isFinal)
}

// eval runs the script once. On a connection of the program's that does not answer it, somebody may have left
// MULTI, SUBSCRIBE, MONITOR or another user, and the pool would give it out again: the server closes it.
func (d *driver) eval(
	ctx context.Context, c goredis.Cmdable, patience time.Duration, args []any,
) (answer []any, err error) {
	if d.lend != nil {
		one := d.lend()
		defer func() {
			if err != nil && ctx.Err() == nil {
				one.Do(ctx, "QUIT")
			}
			one.Close() // gives it back
		}()
		c = one
	}
	if args[0] == "replicate" {
		answer, err = d.replicate(ctx, c.Pipeline(), patience, args)
	} else {
		answer, err = script.Run(ctx, c, d.keys(), args...).Slice()
	}
	if err == nil && (len(answer) < 5 || text(answer[4]) != args[1]) {
		const what = "%w: the connection has answered something else than what was asked"
		err = fmt.Errorf(what, backend.ErrUnavailable)
	}
	return answer, err
}

// replicate runs a write and waits for the replicas.
func (d *driver) replicate(
	ctx context.Context, p goredis.Pipeliner, patience time.Duration, args []any,
) ([]any, error) {
	done := script.Eval(ctx, p, d.keys(), args...)
	waited := p.Do(ctx, "WAIT", d.replicas, patience.Milliseconds())
	if _, err := p.Exec(ctx); err != nil {
		return nil, err
	}
	have, err := waited.Int()
	if err == nil && have < d.replicas {
		err = fmt.Errorf("%w: a change must reach %d replicas (wait_replicas), %d confirmed it within %v",
			backend.ErrUnavailable, d.replicas, have, patience.Round(time.Millisecond))
	}
	if err != nil {
		return nil, err
	}
	return done.Slice()
}

// broken reports whether another connection may succeed: to a master, or with a password that was replaced.
// What the server says on one of the program's, which is closed then, may be for what was said there before.
func (d *driver) broken(err error) bool {
	_, answered := errors.AsType[goredis.Error](err)
	return has(err.Error(), "READONLY ", "MASTERDOWN ", "LOADING ") || // it has become a replica
		has(err.Error(), "NOREPLICAS ", "(wait_replicas)") || // or another one is the master of its replicas
		has(err.Error(), tooManyClients, "WRONGPASS", "NOAUTH", tooLong) ||
		(!answered || d.lend != nil) && !isDenied(err) && !errors.Is(err, backend.ErrUnavailable)
}

// isDenied reports whether an administrator must act: because of credentials, TLS, rights, keys of somebody
// else, a database that is not there, or because the server refuses to write.
func isDenied(err error) bool {
	text := err.Error()
	if _, answered := errors.AsType[goredis.Error](err); !answered {
		return client.RefusesTLS(text) || errors.Is(err, backend.ErrDenied) || refusedBySentinels(text)
	}
	return lacksRight(text) || lacksCommand(text) ||
		has(text, "AUTH", "WRONGPASS", tooLong, "OOM ", "MISCONF ", "WRONGTYPE ", "DENIED ", "DB index",
			"SELECT is not allowed", "cluster support disabled")
}

// lacksRight reports whether the user lacks a right. Within the script each version has words of its own.
func lacksRight(text string) bool {
	return has(text, "NOPERM", "can't run this command", "ACL failure")
}

// lacksCommand reports whether the text says that a command is missing, has another name, or does not do in
// scripts what it does on Redis: what INFO has not told fails in Lua.
func lacksCommand(text string) bool {
	return has(text, "nknown command", "nknown Redis command", "not allowed from script", " user_script:",
		"ommand arguments must be")
}

func has(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// fail adds to err its class and what an operator must do, and removes passwords.
func (d *driver) fail(err error) error {
	if err == nil {
		return nil
	}
	late := errors.Is(err, context.DeadlineExceeded)
	if d.poolSize > 0 && (late || errors.Is(err, goredis.ErrPoolTimeout)) {
		s := d.newClient(false).PoolStats()
		err = client.PoolBusy(int(s.TotalConns)-int(s.IdleConns), d.poolSize, err)
	}
	d.mu.Lock()
	answered := d.epoch != ""
	d.mu.Unlock()
	class, hint := backend.Class(err), ""
	if late && d.tls && !answered {
		hint = "; a server without TLS does not answer a client that uses TLS"
	}
	// The keys are on another server of a cluster, to which only a client of the cluster follows.
	moved := !d.follows && (goredis.HasErrorPrefix(err, "MOVED ") || goredis.HasErrorPrefix(err, "ASK "))
	if (moved || isDenied(err)) && !late && !errors.Is(err, context.Canceled) {
		class = backend.ErrDenied
		hint = d.hint(err.Error(), moved)
	}
	err = clean.Secrets(err, append(d.password.All(), d.sentinelPassword.All()...)...)
	if errors.Is(err, class) {
		return fmt.Errorf("%w%s", err, hint)
	}
	return fmt.Errorf("%w: %w%s", class, err, hint)
}

// hint returns what an administrator can do.
func (d *driver) hint(text string, moved bool) string {
	switch {
	case moved:
		return "; the server is one of a cluster: name another, or set Client to a redis.ClusterClient"
	case refusedBySentinels(text) && strings.Contains(text, "redis: nil"):
		return "; the Sentinels know no master of that name: correct master"
	case refusedBySentinels(text):
		return "; the Sentinels have said so: correct their addresses, sentinel_username or sentinel_password"
	case has(text, "NOAUTH", tooLong):
		return "; the server asks for a password, and none was sent"
	case lacksRight(text):
		user, rights := "account", Rights
		if prefixForm.MatchString(d.user) {
			user = d.user
		}
		if d.follows {
			rights += " +cluster|slots"
		}
		return fmt.Sprintf("; an administrator can grant what is needed: ACL SETUSER %s ~{%s}:* &{%s}:* %s",
			user, d.prefix, d.prefix, rights)
	case lacksCommand(text):
		return "; a command is missing, renamed, or does less than on Redis; members need " + Rights
	case strings.Contains(text, "WRONGTYPE "):
		return fmt.Sprintf("; another program uses keys {%s}: choose another prefix", d.prefix)
	}
	return ""
}

// Rights are the commands that a member needs, as ACL SETUSER takes them.
const Rights = "+eval +evalsha +info +hget +hmget +hset +hdel +hlen +hkeys +publish +subscribe +hello" +
	" +select +ping +wait"
