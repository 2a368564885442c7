package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/lab/testbed"
)

// A store is a measured server, and the peers on it.
type store struct {
	name    string
	version string
	backend string
	section func(name string) any // of a configuration, for a fresh election
	server  string
	peers   []string
	fresh   func() string           // creates tables and returns their DSN
	count   func() (float64, error) // requests the server has received so far; nil: there is no server
}

// Rows of this module, without and with a guard.
const (
	plain   = "go-election"
	guarded = "go-election, guard: true"
)

// polling is how older systems elect on MySQL.
const polling = "polling every TTL/3"

// storesTTL is the least TTL that Consul allows by default.
const storesTTL = 10 * time.Second

// TestStores prints the table of all stores and their peers while no process crashes:
// TestCrashes has the rest. It asserts nothing.
func TestStores(t *testing.T) {
	const ttl = storesTTL
	all := measured(t)
	fmt.Println("| store | with | SIGTERM: median, worst | SIGTERM, next in line just killed | requests a minute, idle, 1 election: leader, follower | 10 | 1,000 | memory an election (of 1,000): leader, follower | goroutines (of 1,000) |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for _, s := range all {
		rows := s.rows(plain)
		resigned := make([][]time.Duration, len(rows))
		part("resigned", func() { resigned = s.resigned(t, rows, ttl) })
		for i, with := range rows {
			fmt.Printf("| %s %s | %s |", s.name, s.version, with)
			s.measure(t, with, ttl, resigned[i])
			fmt.Println()
		}
	}
}

// measured starts the stores that -only selects, and prints where they run.
func measured(t *testing.T) []store {
	if !*table {
		t.Skip("run make bench")
	}
	fmt.Printf("\n%s, %d cores, TTL %v\n\n", runtime.Version(), runtime.NumCPU(), storesTTL)
	return slices.DeleteFunc(stores(t), func(s store) bool { return !regexp.MustCompile(*only).MatchString(s.name) })
}

// rows are those of ours and of the peers that -with selects.
func (s store) rows(ours ...string) []string {
	return slices.DeleteFunc(append(ours, s.peers...), func(with string) bool { return !regexp.MustCompile(*withs).MatchString(with) })
}

func (s store) role(with string, ttl time.Duration) role {
	name := fmt.Sprintf("bench%d", time.Now().UnixNano())
	switch {
	case with == polling:
		return role{Kind: "seed", DSN: s.fresh(), TTL: ttl}
	case with != plain && with != guarded:
		return role{Kind: "peer", Peer: with, Server: s.server, Name: name, TTL: ttl}
	}
	section, _ := json.Marshal(s.section(name))
	return role{Kind: "candidate", Backend: s.backend, Section: section, Guard: with == guarded, TTL: ttl}
}

// resigned lets leaders of all rows step down in turn, so that other load on the machine,
// and a server that has just started, affect all rows alike.
func (s store) resigned(t *testing.T, rows []string, ttl time.Duration) [][]time.Duration {
	var wg sync.WaitGroup
	all := make([][]time.Duration, len(rows))
	for i, with := range rows {
		r := s.role(with, ttl)
		wg.Go(func() { all[i] = gaps(t, r, rounds(21, 5), syscall.SIGTERM) })
	}
	wg.Wait()
	return all
}

func (s store) measure(t *testing.T, with string, ttl time.Duration, resigned []time.Duration) {
	show := func(g []time.Duration) { fmt.Printf(" %v, %v |", round(g[len(g)/2]), round(g[len(g)-1])) }
	part("resigned", func() { show(resigned) })
	part("heirless", func() { show(heirless(t, s.role(with, ttl), rounds(5, 1))) })
	part("idle", func() { s.idleLoad(t, with, ttl) })
}

// idleLoad prints the cost of taking part while leaders do not change.
func (s store) idleLoad(t *testing.T, with string, ttl time.Duration) {
	var leader, follower *load
	for _, text := range strings.Fields(*sizes) {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("-elections: %v", err)
		}
		if with == riverElector && n > 1 {
			fmt.Print(" one a schema |")
			continue
		}
		r := s.role(with, ttl)
		r.Elections, r.Load = n, span(40*time.Second, 15*time.Second)
		var a, b float64
		a, b, leader, follower = s.idle(t, r)
		if s.count == nil {
			fmt.Print(" none |")
		} else {
			fmt.Printf(" %.0f, %.0f |", a, b)
		}
	}
	if leader == nil {
		fmt.Print(" another program | |")
		return
	}
	fmt.Printf(" %.1f KB, %.1f KB | %d, %d |", leader.Bytes/1024, follower.Bytes/1024, leader.Goroutines, follower.Goroutines)
}

// idle returns the requests a minute of a leader and of a follower of r.Elections
// elections, and the load of their processes.
func (s store) idle(t *testing.T, r role) (a, b float64, leader, follower *load) {
	all := make(chan line, 10_000)
	var kids []*child
	minute := func() float64 {
		<-time.After(r.Load / 2)
		before, began := s.counted(t), time.Now()
		<-time.After(r.Load)
		return (s.counted(t) - before) / time.Since(began).Minutes()
	}
	r.ID = "leader"
	kids = append(kids, start(t, r, all))
	await(t, all, "all")
	a = minute()
	r.ID = "follower"
	kids = append(kids, start(t, r, all))
	b = minute() - a
	if r.Peer != curatorLatch && r.Peer != riverElector {
		leader, follower = reported(t, all)
	}
	for _, c := range kids {
		c.end(syscall.SIGKILL)
	}
	return a, b, leader, follower
}

func (s store) counted(t *testing.T) float64 {
	if s.count == nil {
		return 0
	}
	n, err := s.count()
	testbed.NoError(t, err)
	return n
}

// metrics adds up the samples whose names match, on a page for Prometheus.
func metrics(url string, name *regexp.Regexp) func() (float64, error) {
	return func() (float64, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return 0, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		page, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, err
		}
		return samples(page, name)
	}
}

// samples adds up the samples of a page whose names match.
func samples(page []byte, name *regexp.Regexp) (sum float64, err error) {
	for text := range strings.Lines(string(page)) {
		if text = strings.TrimSpace(text); name.MatchString(text) {
			value, err := strconv.ParseFloat(text[strings.LastIndexByte(text, ' ')+1:], 64)
			if err != nil {
				return 0, err
			}
			sum += value
		}
	}
	return sum, nil
}

// packets returns how many packets a ZooKeeper has received, without those of these queries.
func packets(addr string) func() (float64, error) {
	found, asked := regexp.MustCompile(`Received: (\d+)`), 0.0
	return func() (float64, error) {
		conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(5 * time.Second))
		io.WriteString(conn, "srvr")
		text, err := io.ReadAll(conn)
		m := found.FindSubmatch(text)
		if m == nil {
			return 0, fmt.Errorf("srvr says %q: %w", text, err)
		}
		n, err := strconv.ParseFloat(string(m[1]), 64)
		asked++ // the server has counted this query, too
		return n - asked, err
	}
}

func stores(t *testing.T) (all []store) {
	wanted := func(k testbed.Kind) bool { return regexp.MustCompile(*only).MatchString(string(k)) }
	if wanted(testbed.Consul) {
		all = append(all, consulStore(t))
	}
	if wanted(testbed.Etcd) {
		all = append(all, etcdStore(t))
	}
	if wanted(testbed.Kubernetes) {
		all = append(all, kubernetesStore(t))
	}
	if wanted(testbed.ZooKeeper) {
		all = append(all, zooKeeperStores(t)...)
	}
	if wanted(testbed.Postgres) {
		server := testbed.StartPostgres(t, testbed.Options{Args: []string{"--log_statement=all", "--max_connections=1000"}})
		dsn := server.AdminDSN("postgres")
		all = append(all, store{
			name: "PostgreSQL", version: server.Version(), backend: "postgres", server: dsn, peers: []string{advisoryLock, riverElector},
			section: func(name string) any { return map[string]any{"dsn": dsn, "prefix": name} },
			count:   func() (float64, error) { return float64(server.Messages(t)), nil },
		})
	}
	if wanted(testbed.Redis) {
		server := testbed.StartRedis(t, testbed.Options{})
		all = append(all, store{
			name: "Redis", version: server.Version(), backend: "redis", server: server.Addr(), peers: []string{redisLock},
			section: func(name string) any {
				return map[string]any{"addresses": []string{server.Addr()}, "prefix": name}
			},
			count: func() (float64, error) { return float64(server.Requests(t)), nil },
		})
	}
	for _, k := range testbed.Kinds {
		if !wanted(k) {
			continue
		}
		server := testbed.Shared(t, k)
		all = append(all, store{
			name: string(k), version: server.Version(), backend: "mysql", peers: []string{polling},
			fresh:   func() string { return fresh(t, server) },
			section: func(string) any { return map[string]any{"dsn": fresh(t, server)} },
			count:   questions(server),
		})
	}
	if wanted("mysqltable") {
		server := testbed.Shared(t, testbed.MariaDB)
		all = append(all, store{
			name: "MariaDB, mysqltable", version: server.Version(), backend: "mysqltable",
			section: func(string) any { return tableSection(freshTable(t, server)) },
			count:   questions(server),
		})
	}
	if wanted(testbed.S3) {
		all = append(all, s3Store(t))
	}
	if wanted("file") {
		all = append(all, store{
			name: "file", backend: "file",
			section: func(string) any { return map[string]any{"dir": t.TempDir()} },
		})
	}
	return all
}

// questions counts the statements that a server has received.
func questions(server *testbed.Server) func() (float64, error) {
	return func() (n float64, err error) {
		var name string
		err = server.Admin().QueryRow("SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n)
		return n, err
	}
}

// s3Store is a versitygw behind a proxy that counts requests.
func s3Store(t *testing.T) store {
	for name, value := range map[string]string{ // of children, which inherit them
		"AWS_ACCESS_KEY_ID": testbed.S3AccessKey, "AWS_SECRET_ACCESS_KEY": testbed.S3SecretKey,
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	node := testbed.StartS3(t, testbed.Options{})
	target, err := url.Parse(node.URL())
	testbed.NoError(t, err)
	var requests atomic.Int64
	forward := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		requests.Add(1)
		p.SetURL(target)
		p.Out.Host = p.In.Host // it is signed
	}}
	proxy := httptest.NewServer(forward)
	t.Cleanup(proxy.Close)
	return store{
		name: "S3", version: node.Version(), backend: "s3",
		section: func(name string) any {
			return map[string]any{"bucket": testbed.S3Bucket, "prefix": name + "/", "region": "us-east-1", "endpoint": proxy.URL, "path_style": true}
		},
		count: func() (float64, error) { return float64(requests.Load()), nil },
	}
}

func consulStore(t *testing.T) store {
	agent := testbed.StartConsul(t, testbed.Options{})
	return store{
		name: "Consul", version: agent.Version(), backend: "consul", server: agent.Addr(), peers: []string{consulLock},
		section: func(name string) any { return map[string]any{"address": agent.Addr(), "prefix": name} },
		count:   metrics(agent.URL()+"/v1/agent/metrics?format=prometheus", regexp.MustCompile(`^consul_api_http_count\{.*path="v1_(kv|session|txn)`)), // not our own reading of this
	}
}

func etcdStore(t *testing.T) store {
	node := testbed.StartEtcd(t, testbed.Options{})
	return store{
		name: "etcd", version: node.Version(), backend: "etcd", server: node.URL(), peers: []string{etcdElection},
		section: func(name string) any { return map[string]any{"endpoints": []string{node.URL()}, "prefix": name + "/"} },
		count: func() (sum float64, err error) { // requests, and messages of streams
			for name, value := range testbed.EtcdMetrics(t, node) {
				if strings.HasPrefix(name, "grpc_server_msg_received_total") {
					sum += value
				}
			}
			return sum, nil
		},
	}
}

func zooKeeperStores(t *testing.T) []store {
	server := testbed.StartZooKeeper(t, testbed.Options{Args: []string{"maxSessionTimeout=60000"}})
	zooKeeper := store{
		name: "ZooKeeper", version: server.Version(), backend: "zookeeper", server: server.Addr(), peers: []string{zkLock, curatorLatch},
		section: func(name string) any {
			return map[string]any{"servers": []string{server.Addr()}, "root": "/" + name}
		},
		count: packets(server.Addr()),
	}
	beside := zooKeeper
	beside.name, beside.backend, beside.peers = "ZooKeeper, curator", "curator", nil
	beside.section = func(name string) any {
		return map[string]any{"servers": []string{server.Addr()}, "root": "/" + name, "tick": testbed.ZooKeeperTick, "session": time.Minute}
	}
	return []store{zooKeeper, beside}
}
