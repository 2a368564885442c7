package bench

import (
	"context"
	"errors"
	"fmt"
	"log"
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

// The peers are other libraries, used as their documentation shows: a session with the requested TTL, a goroutine that waits
// for each election, and an orderly end at SIGTERM.
const (
	etcdElection = "concurrency.Election"
	advisoryLock = "pg_advisory_lock"
	riverElector = "River"
	consulLock   = "api.Lock"
	redisLock    = "bsm/redislock"
	zkLock       = "zk.Lock"
	curatorLatch = "Curator LeaderLatch"
)

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

// contending opens a process of a fleet that uses a peer, which tells at most other candidates who leads.
func (r role) contending(bool) (s seat, err error) {
	s = seat{id: r.ID, heard: make(chan time.Time, 1000), close: func() {}}
	r.heard = func() { s.heard <- time.Now() }
	rest := r.TTL / 4
	if r.hearing() > 1 {
		rest = r.TTL / 2 // all others hear before whoever has resigned
	}
	campaign, resign, err := r.contender(1)
	if err != nil {
		return s, err
	}
	var leads atomic.Bool
	run := func() {
		if err := campaign(0); err != nil {
			log.Fatalf("%s: %v", r.ID, err)
		}
		leads.Store(true)
		r.heard()
	}
	s.resign = func() (led bool) {
		if led = leads.Swap(false); led {
			resign(0)
			time.AfterFunc(rest, run)
		}
		return led
	}
	go run()
	return s, nil
}

// observed opens a process that campaigns by etcd's Election, and hears of leaders by its Observe.
func (r role) observed(candidate bool) (s seat, err error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(r.Server, ","), DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return s, err
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(r.TTL.Seconds())))
	if err != nil {
		return s, err
	}
	e := concurrency.NewElection(session, r.Name)
	var leads atomic.Bool
	ctx, cancel := context.WithCancel(context.Background())
	s = seat{id: r.ID, heard: make(chan time.Time, 1000), close: func() { cancel(); client.Close() }}
	go func() {
		for range e.Observe(ctx) {
			s.heard <- time.Now()
		}
	}()
	campaign := func() { leads.Store(e.Campaign(ctx, r.ID) == nil) }
	if candidate {
		go campaign()
	}
	s.resign = func() (led bool) {
		if led = leads.Swap(false); led {
			time.AfterFunc(r.TTL/4, campaign) // to the end of the queue
			e.Resign(ctx)
		}
		return led
	}
	return s, err
}

// bareRedis is the least that a fleet on Redis can cost: a subscription, and SET NX by all that hear of a vacancy. It is no
// election: a leader that crashes leads for ever.
const bareRedis = "SUBSCRIBE, SET NX"

// subscribed opens a process of [bareRedis].
func (r role) subscribed(candidate bool) (seat, error) {
	ctx, cancel := context.WithCancel(context.Background())
	client := redis.NewClient(&redis.Options{Addr: r.Server})
	sub := client.Subscribe(ctx, r.Name)
	s := seat{id: r.ID, heard: make(chan time.Time, 1000), close: func() { cancel(); sub.Close(); client.Close() }}
	var leads, rests atomic.Bool
	campaign := func() {
		if candidate && !rests.Load() && client.SetNX(ctx, r.Name, r.ID, 0).Val() {
			leads.Store(true)
			s.heard <- time.Now()
			client.Publish(ctx, r.Name, r.ID)
		}
	}
	if _, err := sub.Receive(ctx); err != nil {
		cancel()
		return s, err
	}
	campaign()
	if leader := client.Get(ctx, r.Name).Val(); !leads.Load() && leader != "" {
		s.heard <- time.Now()
	}
	go func() {
		for {
			said, err := sub.ReceiveMessage(ctx)
			switch {
			case err != nil:
				return
			case said.Payload == "":
				campaign()
			case said.Payload != r.ID:
				s.heard <- time.Now()
			}
		}
	}()
	s.resign = func() (led bool) {
		if led = leads.Swap(false); led {
			rests.Store(true)
			time.AfterFunc(r.TTL/4, func() { rests.Store(false) })
			client.Del(ctx, r.Name)
			client.Publish(ctx, r.Name, "")
		}
		return led
	}
	return s, nil
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

// advisory is advisory locks of PostgreSQL as programs poll them: once a second, for all elections on one connection.
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
