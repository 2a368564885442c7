package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-zookeeper/zk"
	consul "github.com/hashicorp/consul/api"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// The peers are other libraries, used as their documentation shows: a session with
// the requested TTL, a goroutine that waits for each election, and an orderly end at
// SIGTERM.
const (
	etcdElection = "concurrency.Election"
	advisoryLock = "pg_advisory_lock"
	riverElector = "River"
	consulLock   = "api.Lock"
	redisLock    = "bsm/redislock"
	zkLock       = "zk.Lock"
	curatorLatch = "Curator LeaderLatch"
)

// peer runs a peer until ctx ends.
func (r role) peer(ctx context.Context) error {
	base := occupied()
	var led atomic.Int64
	n := max(r.Elections, 1)
	won := func(i int) {
		if i == 0 {
			r.say("leads", nil)
		}
		if led.Add(1) == int64(n) {
			r.say("all", nil)
		}
	}
	failed := make(chan error, n)
	campaign, resign, err := r.contender(n)
	if err != nil {
		return err
	}
	for i := range n {
		go func() {
			if err := campaign(i); err != nil {
				failed <- fmt.Errorf("%s: %w", r.Peer, err)
				return
			}
			won(i)
		}()
	}
	if r.Load > 0 {
		r.say("load", r.settle(ctx, base, n))
	}
	select {
	case <-ctx.Done():
	case err := <-failed:
		return err
	}
	for i := range n {
		resign(i)
	}
	return nil
}

// contender connects a peer, and returns how it campaigns for election i, and how it resigns.
func (r role) contender(n int) (campaign func(i int) error, resign func(i int), err error) {
	switch r.Peer {
	case etcdElection:
		client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(r.Server, ","), DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
		if err != nil {
			return nil, nil, err
		}
		session, err := concurrency.NewSession(client, concurrency.WithTTL(int(r.TTL.Seconds())))
		if err != nil {
			return nil, nil, err
		}
		elections := make([]*concurrency.Election, n)
		for i := range elections {
			elections[i] = concurrency.NewElection(session, fmt.Sprintf("%s/%d", r.Name, i))
		}
		campaign = func(i int) error { return elections[i].Campaign(context.Background(), r.ID) }
		resign = func(i int) { elections[i].Resign(context.Background()) }
	case consulLock:
		config := consul.DefaultConfig()
		config.Address = r.Server
		client, err := consul.NewClient(config)
		if err != nil {
			return nil, nil, err
		}
		locks := make([]*consul.Lock, n)
		for i := range locks {
			if locks[i], err = client.LockOpts(&consul.LockOptions{
				Key: fmt.Sprintf("%s/%d", r.Name, i), Value: []byte(r.ID), SessionTTL: r.TTL.String(),
			}); err != nil {
				return nil, nil, err
			}
		}
		campaign = func(i int) error { _, err := locks[i].Lock(nil); return err }
		resign = func(i int) { locks[i].Unlock() }
	case advisoryLock:
		return r.advisory(n)
	case redisLock:
		return r.redisLocks(n)
	case clientGo, clientGoTTL:
		return r.electors(n)
	case zkLock:
		conn, _, err := zk.Connect(strings.Split(r.Server, ","), r.TTL, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
		if err != nil {
			return nil, nil, err
		}
		locks := make([]*zk.Lock, n)
		for i := range locks {
			locks[i] = zk.NewLock(conn, fmt.Sprintf("/%s/%d", r.Name, i), zk.WorldACL(zk.PermAll))
		}
		campaign = func(i int) error { return locks[i].Lock() }
		resign = func(i int) { locks[i].Unlock() }
	default:
		return nil, nil, fmt.Errorf("no peer is called %q", r.Peer)
	}
	return campaign, resign, nil
}

// advisory is advisory locks of PostgreSQL as programs poll them: once a second, for all elections on one
// connection.
func (r role) advisory(n int) (campaign func(i int) error, resign func(i int), err error) {
	conn, err := pgx.Connect(context.Background(), r.Server)
	if err != nil {
		return nil, nil, err
	}
	locked, turn := make([]bool, n), make(chan struct{}, 1)
	campaign = func(i int) error {
		for ; ; time.Sleep(time.Second) {
			turn <- struct{}{}
			var err error
			if !locked[i] {
				err = conn.QueryRow(context.Background(), "SELECT pg_try_advisory_lock(hashtext($1))", fmt.Sprint(r.Name, i)).Scan(&locked[i])
			}
			won := locked[i]
			<-turn
			if err != nil || won {
				return err
			}
		}
	}
	resign = func(i int) {
		turn <- struct{}{}
		conn.Exec(context.Background(), "SELECT pg_advisory_unlock(hashtext($1))", fmt.Sprint(r.Name, i))
		<-turn
	}
	return campaign, resign, nil
}

// redisLocks is locks of redislock, which try ten times a second, and are renewed every third of the TTL.
func (r role) redisLocks(n int) (campaign func(i int) error, resign func(i int), err error) {
	client := redis.NewClient(&redis.Options{Addr: r.Server})
	locks, locker := make([]atomic.Pointer[redislock.Lock], n), redislock.New(client)
	campaign = func(i int) error {
		for {
			lock, err := locker.Obtain(context.Background(), fmt.Sprint(r.Name, "/", i), r.TTL, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
			if errors.Is(err, redislock.ErrNotObtained) || errors.Is(err, context.DeadlineExceeded) {
				continue // it tries for one TTL
			}
			if err != nil {
				return err
			}
			locks[i].Store(lock)
			go func() {
				for ; lock.Refresh(context.Background(), r.TTL, nil) == nil; time.Sleep(r.TTL / 3) {
				}
			}()
			return nil
		}
	}
	resign = func(i int) {
		if lock := locks[i].Load(); lock != nil {
			lock.Release(context.Background())
		}
	}
	return campaign, resign, nil
}

// settle waits, and then measures the memory and goroutines of a process with n elections.
func (r role) settle(ctx context.Context, base uint64, n int) *load {
	select {
	case <-time.After(r.Load):
	case <-ctx.Done():
	}
	return &load{Goroutines: runtime.NumGoroutine(), Bytes: float64(occupied()-base) / float64(n)}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// building is held while a program of a peer is built.
var building sync.Mutex

// riverCommand builds the program in ./river once, and returns the command that runs it.
func riverCommand(t testing.TB) *exec.Cmd {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	program := filepath.Join(os.TempDir(), "election-bench-river")
	if _, err := os.Stat(program); err != nil {
		build := exec.Command("go", "build", "-o", program, ".")
		build.Dir = "river"
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v: %s", err, out)
		}
	}
	return exec.Command(program)
}

// latchCommand compiles the Java program once, and returns the command that runs it.
func latchCommand(t testing.TB, r role) *exec.Cmd {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	classes := filepath.Join(os.TempDir(), "election-bench-latch")
	var jars []string
	for _, name := range []string{"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop", "guava",
		"netty-handler", "netty-transport", "netty-common", "netty-buffer", "netty-codec", "netty-resolver", "netty-transport-native-epoll", "netty-transport-native-unix-common", "snappy-java", "metrics-core"} {
		jars = append(jars, "/usr/share/java/"+name+".jar")
	}
	path := strings.Join(append(jars, classes), ":")
	if _, err := os.Stat(filepath.Join(classes, "Latch.class")); err != nil {
		if out, err := exec.Command("javac", "-cp", path, "-d", classes, "testdata/Latch.java").CombinedOutput(); err != nil {
			t.Fatalf("javac: %v: %s", err, out)
		}
	}
	return exec.Command("java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", path, "Latch", r.Server, "/"+r.Name, r.ID, fmt.Sprint(r.TTL.Milliseconds()), fmt.Sprint(max(r.Elections, 1)))
}
