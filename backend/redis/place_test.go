package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// A program selects another database on its connections, which the store uses, too. A process that starts with them
// finds the leader all the same, and the leader's own go on renewing.
func TestWhatAProgramSelectsMovesNoElection(t *testing.T) {
	t.Parallel()
	const ttl, greatest = 4 * time.Second, 5 * time.Second
	server := testbed.StartRedis(t, testbed.Options{})
	awaitWork(t, server, greatest+4*time.Second)
	for _, db := range []int{0, 3} {
		t.Run(fmt.Sprint("database ", db), func(t *testing.T) {
			t.Parallel()
			o := Options{Prefix: options(server).Prefix, MaxTTL: greatest}
			shared := func() *goredis.Client {
				return ownClient(t, &goredis.Options{Addr: server.Addr(), DB: db})
			}
			before, now := shared(), shared()
			o.Client = before
			leader := join(t, "old", ttl, o)
			lead, err := leader.Campaign(t.Context())
			testbed.NoError(t, err)
			onEach(t, now, "SELECT", db+1)
			onEach(t, before, "SELECT", db+2)
			o.Client = now
			follower := join(t, "new", ttl, o)
			testbed.NoError(t, follower.Lead(nil))
			for began := time.Now(); time.Since(began) < greatest+2*ttl; <-time.After(time.Millisecond) {
				if follower.Leading() {
					t.Fatalf("two processes lead after %v: %v", time.Since(began), follower.Current())
				}
			}
			if still := leader.Leadership(); still == nil || still.Term != lead.Term {
				t.Errorf("the leader lost its leadership: %v", leader.Current())
			}
		})
	}
}

// awaitWork lets a server work until it is certain that it has run for so long.
func awaitWork(t testing.TB, server *testbed.RedisServer, age time.Duration) {
	t.Helper()
	server.Do(t, "CONFIG", "SET", "lua-time-limit", "60000") // a busy machine takes long for a script
	testbed.Eventually(t, 5*patience, "the server is no longer young", func() error {
		server.Do(t, "EVAL", "for _ = 1, 3e7 do end", 0)
		worked := 0.0
		for _, fact := range []string{"used_cpu_user_main_thread", "used_cpu_sys_main_thread"} {
			seconds, _ := strconv.ParseFloat(server.Info(t, fact), 64)
			worked += seconds
		}
		if worked < age.Seconds()+1 { // each of the two is rounded down
			return fmt.Errorf("it has worked for %v s", worked)
		}
		return nil
	})
}

// onEach says something on each of eight connections of a pool, and gives them back.
func onEach(t testing.TB, c *goredis.Client, command ...any) {
	t.Helper()
	if err := sayOnEach(c, command...); err != nil {
		t.Fatal(command, err)
	}
}

func sayOnEach(c *goredis.Client, command ...any) (err error) {
	var all []*goredis.Conn
	for range 8 {
		conn := c.Conn()
		err = errors.Join(err, conn.Do(context.Background(), command...).Err())
		all = append(all, conn)
	}
	for _, conn := range all {
		conn.Close()
	}
	return err
}

// A program subscribes on a connection that it shares with the store. What the server sends there unasked shifts the
// answers: then the answer to an earlier request arrives, and is not taken for that to the present one. The client gives out
// no connection that could be closed.
func TestAnAnswerToAnotherRequestIsRefused(t *testing.T) {
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{})
	c := ownClient(t, &goredis.Options{Addr: server.Addr(), Protocol: 2})
	d := open(t, Options{Client: lending{c, c.Options()}})
	v := drivertest.Read(t, d, recordKey("a"), recordKey("b"))
	drivertest.MustPut(t, d, &v, &lease.Record{Election: "a", Term: 1}, &lease.Record{Election: "b", Term: 1})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			server.Admin().Publish(ctx, "noise", "x")
		}
	}()
	for refused := 0; refused < 200; {
		for _, command := range [][]any{{"RESET"}, {"HELLO", 3}, {"SUBSCRIBE", "noise"}} {
			sayOnEach(c, command...) // the answer may be a shifted one, too
		}
		for _, name := range []string{"a", "b"} {
			got, err := d.Read(ctx, []lease.Key{recordKey(name)})
			switch {
			case ctx.Err() != nil:
				t.Fatal("no answer was shifted: this test tests nothing")
			case err != nil:
				refused++
			case got.Items[0].Value.(*lease.Record).Election != name:
				t.Fatalf("the record of %s is read as %+v", name, got.Items[0].Value)
			}
		}
	}
}

// A program leaves connections of its pool in a state in which they answer no request, or as another user. The pool would give
// them out again and again: they are closed, and a leader leads on.
func TestAConnectionThatAnswersNoRequestIsClosed(t *testing.T) {
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{})
	testbed.StartRedisReplica(t, server).CatchUp(t, server)
	server.Do(t, "ACL", "SETUSER", "stranger", "on", ">secret", "+ping")
	for _, command := range [][]any{{"MULTI"}, {"SUBSCRIBE", "noise"}, {"MONITOR"}, {"AUTH", "stranger", "secret"}} {
		for _, replicas := range []int{0, 1} {
			c := ownClient(t, &goredis.Options{Addr: server.Addr(), Protocol: 2})
			d := open(t, Options{Client: c})
			d.replicas = replicas
			drivertest.Read(t, d, recordKey("jobs"))
			onEach(t, c, command...)
			testbed.Eventually(t, patience, fmt.Sprint("no connection is left in ", command[0]), func() error {
				for range 8 {
					v, err := d.Read(t.Context(), []lease.Key{recordKey("jobs")})
					if err == nil {
						_, err = drivertest.Put(t, d, &v, &lease.Record{Election: "jobs", Term: 1})
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
}

// lending is a client that gives out none of its connections, as that of a cluster.
type lending struct {
	goredis.UniversalClient
	options *goredis.Options
}

func (l lending) Options() *goredis.Options { return l.options }

// What is written in the named database is there on replicas and after a restart, too.
func TestTheNamedDatabaseIsReplicatedAndLogged(t *testing.T) {
	t.Parallel()
	server := testbed.StartRedis(t, testbed.Options{})
	replica := testbed.StartRedisReplica(t, server)
	c := ownClient(t, &goredis.Options{Addr: server.Addr(), DB: 3})
	d := open(t, Options{Client: c})
	onEach(t, c, "SELECT", 4)
	v := drivertest.Read(t, d, recordKey("jobs"))
	drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1})
	replica.CatchUp(t, server)
	replica.Promote(t)
	server.Kill(t)
	server.Start(t)
	for _, s := range []*testbed.RedisServer{server, replica} {
		got := drivertest.Read(t, open(t, Options{Addresses: []string{s.Addr()}, DB: 3}), recordKey("jobs"))
		if it := got.Items[0]; it.Version == "" || it.Edited || got.Records != 1 {
			t.Errorf("in database 3 of %s: %+v", s.Addr(), got)
		}
		if other := drivertest.Read(t, open(t, Options{Addresses: []string{s.Addr()}, DB: 4}), recordKey("jobs")); other.Records != 0 {
			t.Errorf("in database 4 of %s: %+v", s.Addr(), other)
		}
	}
}

// A client of the program whose connections are all in use is named as the cause.
func TestAClientWithoutAFreeConnectionIsNamed(t *testing.T) {
	t.Parallel()
	client := ownClient(t, &goredis.Options{Addr: testbed.SharedRedis(t).Addr(), PoolSize: 1, ContextTimeoutEnabled: true})
	b := backendOn(t, Options{Client: client})
	used := client.Conn()
	testbed.NoError(t, used.Ping(t.Context()).Err())

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := b.Observe(ctx, []backend.Lease{{Election: "jobs"}})
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
	b := backendOn(t, Options{Addresses: []string{testbed.SharedRedis(t).Addr()}, TLS: &tls.Config{ServerName: "redis"}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := b.Observe(ctx, []backend.Lease{{Election: "jobs"}}); backend.Class(err) != backend.ErrUnavailable || !strings.Contains(err.Error(), "a server without TLS") {
		t.Errorf("%v; want the missing TLS as the cause", err)
	}
}
