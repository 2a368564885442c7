package testbed

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// ConsulACL, among [Options].Args, denies all requests without a token.
const ConsulACL = `-hcl=acl {enabled = true, default_policy = "deny",
	tokens {initial_management = "` + ConsulToken + `"}}`

// ConsulToken is the token of the administrator, with ConsulACL.
const ConsulToken = "0f0e0d0c-0b0a-0908-0706-050403020100"

// StartConsul starts a single server of Consul for this test and stops it after the test.
func StartConsul(t testing.TB, o Options) *Daemon {
	t.Helper()
	return startOwn(t, func() *Daemon { return startConsul(o) })
}

// SharedConsul returns the server that all tests of the binary share. Each takes its own prefix.
var SharedConsul = share(func() *Daemon { return startConsul(Options{}) })

// StartConsulCluster starts n servers for this test, each on a host of its own.
func StartConsulCluster(t testing.TB, n int) []*Daemon {
	t.Helper()
	return startCluster(t, n, func(hosts []*Host, i int) *Daemon {
		var peers []string
		for _, h := range hosts {
			peers = append(peers, h.PeerIP())
		}
		d := newConsul(Options{})
		d.addr = hosts[i].IP() + ":8500"
		d.configureConsul([3]int{8500, 8300, 8301}, map[string]any{
			"bootstrap_expect": n, "retry_join": peers, "retry_interval": "1s",
			"node_name": fmt.Sprint("node", i+1), "bind_addr": peers[i], "client_addr": hosts[i].IP(),
		})
		return d
	})
}

// startConsul starts a single server.
func startConsul(o Options) *Daemon {
	d := newConsul(o)
	return d.onPort(func(port int) []string {
		d.configureConsul([3]int{port, freePort(), freePort()}, map[string]any{
			"bootstrap_expect": 1, "node_name": "node", "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1",
		})
		return d.command
	})
}

// newConsul finds the newest program that "make deps" has built, or the oldest that is claimed.
func newConsul(o Options) *Daemon {
	versions, module := "*", "internal/tools/consul"
	if o.Oldest || oldest() {
		versions, module = "1.14.*", "internal/tools/consul-oldest"
	}
	program, version := built(Consul, versions, "consul", module)
	d := newDaemon(Consul, version, o)
	d.command = append([]string{program, "agent", "-config-file=" + d.consulConfig()}, o.Args...)
	d.header = http.Header{"X-Consul-Token": {ConsulToken}} // of which one without ACLs takes no notice
	if o.TLS {
		d.certs = []tls.Certificate{must(tls.LoadX509KeyPair(d.ca.client(d.dir, "tests", time.Time{})))}
	}
	d.ready = func(ctx context.Context) error { // once the cluster has a leader that answers consistent reads
		return d.Try(ctx, http.MethodGet, "/v1/catalog/nodes?consistent", nil, nil)
	}
	d.leads = func(ctx context.Context) bool {
		var self struct {
			Stats struct{ Consul struct{ Leader string } }
		}
		err := d.Try(ctx, http.MethodGet, "/v1/agent/self", nil, &self)
		return err == nil && self.Stats.Consul.Leader == "true"
	}
	return d
}

func (d *Daemon) consulConfig() string { return filepath.Join(d.dir, "consul.json") }

// configureConsul writes a configuration. The ports are those for clients, servers and gossip.
func (d *Daemon) configureConsul(port [3]int, own map[string]any) {
	ports := map[string]int{
		"http": port[0], "server": port[1], "serf_lan": port[2],
		"https": -1, "dns": -1, "grpc": -1, "grpc_tls": -1, "serf_wan": -1,
	}
	config := map[string]any{
		"server": true, "data_dir": d.data(), "log_level": "INFO", "ports": ports,
		"performance": map[string]any{"raft_multiplier": 1, "leave_drain_time": "0s"},
		"autopilot":   map[string]any{"cleanup_dead_servers": false},
		"connect":     map[string]any{"enabled": false}, "peering": map[string]any{"enabled": false},
		"disable_update_check": true, "skip_leave_on_interrupt": true, "leave_on_terminate": false,
		"telemetry": map[string]any{"prometheus_retention_time": "1h", "disable_hostname": true},
		"limits":    map[string]any{"http_max_conns_per_client": 10000}, // all tests have one address
	}
	if d.ca != nil {
		ports["http"], ports["https"] = -1, port[0]
		config["tls"] = map[string]any{"https": map[string]any{
			"ca_file":   d.ca.file,
			"cert_file": d.ca.certFile, "key_file": d.ca.keyFile,
		}}
	}
	maps.Copy(config, own)
	check(os.WriteFile(d.consulConfig(), must(json.Marshal(config)), 0o600))
}
