package testbed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A RedisServer is one server. It keeps all in memory and in a file that is flushed before each answer.
type RedisServer struct {
	*Daemon
	admin *redis.Client
}

// StartRedis starts a server for this test and stops it after the test.
func StartRedis(t testing.TB, o Options) *RedisServer {
	t.Helper()
	return startOwn(t, func() *RedisServer { return startRedis(o, nil) })
}

// StartRedisReplica starts a replica of a server. It has all data when StartRedisReplica returns.
func StartRedisReplica(t testing.TB, master *RedisServer) *RedisServer {
	t.Helper()
	host, port, _ := strings.Cut(master.Addr(), ":")
	o := Options{Args: []string{"--replicaof", host, port, "--repl-diskless-sync-delay", "0"}}
	r := startOwn(t, func() *RedisServer { return startRedis(o, master.ca) })
	r.CatchUp(t, master)
	return r
}

// SharedRedis returns the server that all tests of the binary share. Each takes its own prefix.
var SharedRedis = share(func() *RedisServer { return startRedis(Options{}, nil) })

// startRedis starts a server. A replica has the authority and the certificate of its master.
func startRedis(o Options, ca *authority) *RedisServer {
	program := installed(Redis, "redis-server", "Redis", "Debian: redis-server")
	version := versionOf("v=", nil, program)
	r := &RedisServer{Daemon: newDaemon(Redis, version, o)}
	if ca != nil {
		r.ca = ca
	}
	r.ready = func(ctx context.Context) error {
		err := r.admin.Ping(ctx).Err()
		if _, answers := errors.AsType[redis.Error](err); answers && !redis.HasErrorPrefix(err, "LOADING") {
			return nil // although the administrator may not ping
		}
		return err
	}
	r.onPort(func(port int) []string {
		client := &redis.Options{Addr: r.addr, Protocol: 2, DisableIdentity: true, TLSConfig: r.TLSConfig()}
		r.admin = redis.NewClient(client)
		command := []string{program, "--bind", "127.0.0.1", "--dir", r.dir, "--save", "",
			"--appendonly", "yes", "--appendfsync", "always", "--repl-backlog-size", "16mb"}
		if r.ca == nil {
			command = append(command, "--port", fmt.Sprint(port))
		} else {
			command = append(command, "--port", "0", "--tls-port", fmt.Sprint(port),
				"--tls-replication", "yes", "--tls-auth-clients", "optional", "--tls-ca-cert-file", r.ca.file,
				"--tls-cert-file", r.ca.certFile, "--tls-key-file", r.ca.keyFile)
		}
		// The port of a cluster's bus would be another one plus 10000, which may not be free.
		if slices.Contains(o.Args, "--cluster-enabled") && version >= "7" { // 6.2 cannot choose it
			command = append(command, "--cluster-port", fmt.Sprint(freePort()))
		}
		return append(command, o.Args...)
	})
	r.close = func() { r.admin.Close() }
	return r
}

// Do runs a command as the administrator, and returns its answer.
func (r *RedisServer) Do(t testing.TB, args ...any) any {
	t.Helper()
	answer, err := r.admin.Do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("testbed: %v: %v", args, err)
	}
	return answer
}

// Admin is a client of the administrator.
func (r *RedisServer) Admin() *redis.Client { return r.admin }

// Info returns a fact that INFO tells, such as "role".
func (r *RedisServer) Info(t testing.TB, fact string) string {
	t.Helper()
	for line := range strings.Lines(r.Do(t, "INFO").(string)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == fact {
			return value
		}
	}
	return ""
}

// CatchUp waits until a replica has all that its master has written.
func (r *RedisServer) CatchUp(t testing.TB, master *RedisServer) {
	t.Helper()
	Eventually(t, endLimit, "the replica catches up", func() error {
		up, mine := r.Info(t, "master_link_status"), r.Info(t, "slave_repl_offset")
		if theirs := master.Info(t, "master_repl_offset"); up != "up" || mine != theirs {
			return fmt.Errorf("its link is %s, it is at %s of %s", up, mine, theirs)
		}
		return nil
	})
}

// StopReplication lets a replica receive nothing more. It remains one.
func (r *RedisServer) StopReplication(t testing.TB) {
	t.Helper()
	r.Do(t, "REPLICAOF", "127.0.0.1", "1")
}

// Promote makes a replica a master.
func (r *RedisServer) Promote(t testing.TB) {
	t.Helper()
	r.Do(t, "REPLICAOF", "NO", "ONE")
}

// Follow makes a server a replica of another one, whose data replaces its own.
func (r *RedisServer) Follow(t testing.TB, master *RedisServer) {
	t.Helper()
	host, port, _ := strings.Cut(master.Addr(), ":")
	r.Do(t, "REPLICAOF", host, port)
	r.CatchUp(t, master)
}

// Requests returns how many requests of clients a server has answered, without what scripts call and SELECT.
func (r *RedisServer) Requests(t testing.TB) (n int) {
	t.Helper()
	for line := range strings.Lines(r.Do(t, "INFO", "commandstats").(string)) {
		name, rest, _ := strings.Cut(line, ":calls=")
		calls, _, _ := strings.Cut(rest, ",")
		switch strings.TrimPrefix(name, "cmdstat_") {
		case "evalsha", "eval", "hello", "auth", "subscribe", "ping", "wait", "setnx":
			one, _ := strconv.Atoi(calls)
			n += one
		}
	}
	return n
}

// AddUser makes a user who may do what an ACL rule says.
func (r *RedisServer) AddUser(t testing.TB, name, password string, rules ...string) {
	t.Helper()
	args := []any{"ACL", "SETUSER", name, "reset", "resetchannels", "on", ">" + password}
	for _, rule := range rules {
		args = append(args, rule)
	}
	r.Do(t, args...)
}
