package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
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

// check returns what is wrong with o.
func (o *Options) check() error {
	switch {
	case len(o.Addresses) == 0:
		return errors.New("no addresses")
	case o.Master == "" && len(o.Addresses) > 1:
		return fmt.Errorf("%d addresses without master: several are those of Sentinels, which need the name of the master", len(o.Addresses))
	case o.Master == "" && o.SentinelUsername+o.SentinelPassword != "":
		return errors.New("credentials for Sentinels are set without master")
	case o.Username != "" && o.Password == "" || o.SentinelUsername != "" && o.SentinelPassword == "":
		return errors.New("a user name is set without its password")
	case o.DB < 0:
		return fmt.Errorf("db is %d, it must be at least 0", o.DB)
	case o.TLS != nil && o.CAFile+o.CertFile+o.KeyFile != "":
		return errors.New("both TLS and files for it are set")
	}
	return nil
}

// connect makes the client, which dials when it is used.
func (d *driver) connect(o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	port := "6379"
	if o.Master != "" {
		port = "26379"
	}
	var addresses []string
	for i, a := range o.Addresses {
		if _, _, err := net.SplitHostPort(a); err != nil {
			a = net.JoinHostPort(strings.Trim(a, "[]"), port)
		}
		host, port, err := net.SplitHostPort(a)
		if _, not6 := netip.ParseAddr(host); err != nil || host == "" || port == "" || strings.ContainsAny(a, "@/ ") || not6 != nil && strings.Contains(host, ":") {
			return fmt.Errorf("address %d is not of the form host:port; it is not shown, since it may hold a password", i+1)
		}
		addresses = append(addresses, a)
	}
	config := o.TLS.Clone()
	if o.CAFile+o.CertFile+o.KeyFile != "" {
		var err error
		if config, err = client.TLS(o.CAFile, o.CertFile, o.KeyFile); err != nil {
			return err
		}
	}
	d.tls = config != nil
	dial := dialer(client.Fresh(config, o.CAFile))
	if o.Master != "" {
		dial = d.dialMaster(dial, o, addresses)
	}
	d.newClient = func(listens bool) goredis.UniversalClient {
		d.password.ReadAgain(o.PasswordFile)
		own := clientOptions(addresses[0], o.Username, d.password.Get(), dial)
		own.DB = o.DB
		if listens {
			own.Dialer = quiet(dial)
		}
		return goredis.NewClient(own)
	}
	d.conns.Age, d.conns.Most, d.conns.Open = time.Minute, mostConns, d.openForCall
	d.conns.Close = func(c goredis.UniversalClient) { c.Close() }
	d.location = clean.Location(path.Join(o.Master, strconv.Itoa(o.DB), d.prefix), addresses...)
	return nil
}

// clientOptions are those of a client that neither repeats requests nor announces itself: CLIENT SETNAME
// needs a right.
func clientOptions(address, username, password string, dial dialFunc) *goredis.Options {
	return &goredis.Options{
		Addr: address, Username: username, Password: password, Dialer: dial, DialTimeout: dialTimeout, OnConnect: announce,
		Protocol: 2, DisableIdentity: true, ContextTimeoutEnabled: true, MaxRetries: -1,
	}
}

var errFull = errors.New("the server has closed a new connection: it may have too many")

// open makes a client that has connected. A full server says so and closes the connection, which may be
// faster than what it says. Who cannot PING has connected, too.
func (d *driver) open(ctx context.Context) (goredis.UniversalClient, error) {
	c := d.newClient(false)
	err := c.Ping(ctx).Err()
	switch {
	case err == nil || lacksRight(err.Error()) || goredis.HasErrorPrefix(err, "unknown command"):
		return c, nil
	case has(err.Error(), tooManyClients), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF):
		err = fmt.Errorf("%w: %w", errFull, err)
	}
	c.Close()
	return nil, err
}

// openForCall opens a client for calls. If the server has no place, the listener gives up its own.
func (d *driver) openForCall(ctx context.Context) (goredis.UniversalClient, error) {
	c, err := d.open(ctx)
	if !errors.Is(err, errFull) || !d.giveWay() {
		return c, err
	}
	for range 20 { // the server takes a moment to see that a connection has ended
		if !pause(ctx, 50*time.Millisecond) {
			break
		}
		if c, err = d.open(ctx); !errors.Is(err, errFull) {
			break
		}
	}
	return c, err
}

// pause returns false if ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// announce gives a connection its name. A server that is too old to know HELLO shows none.
func announce(ctx context.Context, c *goredis.Conn) error {
	c.Hello(ctx, 2, "", "", client.Name())
	return nil
}

const dialTimeout = 2 * time.Second

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dialer dials connections of which TCP notices within some seconds that they are cut, also while they wait.
func dialer(config func() *tls.Config) dialFunc {
	d := &client.Dialer{Dialer: net.Dialer{Timeout: 2 * dialTimeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3}}}
	return d.DialTLS(config)
}

// locate notes which database a client of the program is for, and what it says of the server.
func (d *driver) locate(given goredis.UniversalClient) error {
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
			return errors.New("the Client has ClusterSlots of its own, and its database cannot be known: hand in a NewFailoverClient, or name addresses and master")
		}
		d.user, d.follows = o.Username, true
		d.password.Set(o.Password)
		d.location = clean.Location(d.prefix, o.Addrs...)
	default:
		return fmt.Errorf("the Client is a %T, and its database cannot be known: it needs the method Options() *redis.Options", c)
	}
	return nil
}

const (
	tooManyClients = "max number of clients reached"
	tooLong        = "unauthenticated " // before a login the server reads no long command: it says so instead of NOAUTH
)

// run runs the script. A second copy of it has no effect ([client.Send]): all changes are conditional.
func (d *driver) run(ctx context.Context, write bool, args []any) ([]any, error) {
	patience := time.Second // less than a third of the call's time: no copy is sent while the first one waits
	if by, ok := ctx.Deadline(); ok {
		patience = max(time.Millisecond, time.Until(by)/4)
	}
	sendCopy := func(within context.Context, c goredis.UniversalClient) (answer []any, broken bool, err error) {
		answer, err = d.eval(within, c, write, patience, args)
		return answer, err != nil && d.broken(err), err
	}
	isFinal := func(err error) bool { return !d.broken(err) || d.lend == nil && isDenied(err) }
	return client.Send(ctx, d.ctx, &d.conns, sendCopy, isFinal)
}

// eval runs the script once. On a connection of the program's that does not answer it, somebody may have left
// MULTI, SUBSCRIBE, MONITOR or another user, and the pool would give it out again: the server closes it.
func (d *driver) eval(
	ctx context.Context, c scripter, write bool, patience time.Duration, args []any,
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
	if answer, err = d.evalOn(ctx, c, write, patience, args); err == nil && (len(answer) < 5 || text(answer[4]) != args[1]) {
		err = fmt.Errorf("%w: the connection has answered something else than what was asked", backend.ErrUnavailable)
	}
	return answer, err
}

// A scripter is a client, or one connection of it.
type scripter interface {
	goredis.Scripter
	Pipeline() goredis.Pipeliner
}

func (d *driver) evalOn(
	ctx context.Context, c scripter, write bool, patience time.Duration, args []any,
) ([]any, error) {
	if !write || d.replicas == 0 {
		return script.Run(ctx, c, d.keys(), args...).Slice()
	}
	p := c.Pipeline()
	done, waited := script.Eval(ctx, p, d.keys(), args...), p.Do(ctx, "WAIT", d.replicas, patience.Milliseconds())
	if _, err := p.Exec(ctx); err != nil {
		return nil, err
	}
	answer, err := done.Slice()
	if have, err := waited.Int(); err == nil && have < d.replicas {
		return nil, fmt.Errorf("%w: a change must reach %d replicas (wait_replicas), %d confirmed it within %v", backend.ErrUnavailable, d.replicas, have, patience.Round(time.Millisecond))
	} else if err != nil {
		return nil, err
	}
	return answer, err
}

// broken reports whether another connection may succeed: to a master, or with a password that was replaced.
// What the server says on one of the program's, which is closed then, may be for what was said there before.
func (d *driver) broken(err error) bool {
	_, answered := errors.AsType[goredis.Error](err)
	return has(err.Error(), "READONLY ", tooManyClients, "WRONGPASS", "NOAUTH", tooLong) ||
		(!answered || d.lend != nil) && !isDenied(err) && !errors.Is(err, backend.ErrUnavailable)
}

// isDenied reports whether an administrator must act: because of credentials, TLS, rights, keys of somebody
// else, a database that is not there, or because the server refuses to write.
func isDenied(err error) bool {
	text := err.Error()
	if _, answered := errors.AsType[goredis.Error](err); !answered {
		return has(text, "x509: ", "tls: ") || errors.Is(err, backend.ErrDenied) || refusedBySentinels(text)
	}
	return lacksRight(text) || has(text, "OOM ", "MISCONF ", "WRONGTYPE ", "AUTH", tooLong, "WRONGPASS", "DENIED ", "DB index", "SELECT is not allowed", "nknown command", "nknown Redis command", "cluster support disabled")
}

// moved reports whether the server is one of a cluster, and another one has the keys. Only a client of the
// cluster follows there.
func (d *driver) moved(err error) bool {
	return !d.follows && (goredis.HasErrorPrefix(err, "MOVED ") || goredis.HasErrorPrefix(err, "ASK "))
}

// lacksRight reports whether the text says that the user lacks a right, perhaps within the script: then each
// version of Redis has words of its own.
func lacksRight(text string) bool {
	return has(text, "NOPERM", "can't run this command", "ACL failure")
}

func has(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// fail adds to err its class and what an operator must do, and removes passwords.
func (d *driver) fail(err error) error {
	if err == nil {
		return nil
	}
	if d.poolSize > 0 && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, goredis.ErrPoolTimeout)) {
		s := d.newClient(false).PoolStats()
		err = client.PoolBusy(int(s.TotalConns)-int(s.IdleConns), d.poolSize, err)
	}
	class, hint := backend.Class(err), ""
	if d.tls && d.unanswered() && errors.Is(err, context.DeadlineExceeded) {
		hint = "; a server without TLS does not answer a client that uses TLS"
	}
	moved := d.moved(err)
	if (moved || isDenied(err)) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		class = backend.ErrDenied
		switch text := err.Error(); {
		case moved:
			hint = "; the server is one of a cluster, which needs a redis.ClusterClient (Options.Client): name a server that is none in a configuration"
		case refusedBySentinels(text):
			hint = "; the Sentinels have said so: correct their addresses, sentinel_username and sentinel_password"
			if strings.Contains(text, noMaster) {
				hint = "; the Sentinels know no master of that name: correct master"
			}
		case has(text, "NOAUTH", tooLong):
			hint = "; the server asks for a password, and none was sent"
		case lacksRight(text):
			hint = "; an administrator can grant what is needed: " + d.grants()
		case has(text, "nknown command", "nknown Redis command"):
			hint = "; a command is missing, or has another name there (rename-command); members need " + Rights
		case strings.Contains(text, "WRONGTYPE "):
			hint = fmt.Sprintf("; another program uses keys that begin with {%s}: choose another prefix", d.prefix)
		}
	}
	if err = clean.Secrets(err, append(d.password.All(), d.sentinelPassword.All()...)...); errors.Is(err, class) {
		return fmt.Errorf("%w%s", err, hint)
	}
	return fmt.Errorf("%w: %w%s", class, err, hint)
}

// grants returns the statement that grants the rights.
func (d *driver) grants() string {
	user := "account"
	if d.user != "" && clean.Text(d.user, 63, false) == d.user && !strings.ContainsAny(d.user, ` "'`) {
		user = d.user
	}
	return fmt.Sprintf("ACL SETUSER %s ~{%s}:* &{%s}:* %s", user, d.prefix, d.prefix, Rights)
}

// Rights are the commands that a member needs, as ACL SETUSER takes them.
const Rights = "+eval +evalsha +info +hget +hmget +hset +hdel +hlen +hkeys +publish +subscribe +hello +select +ping +wait"
