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
)

// ConsulOptions describe a Consul agent to start. The zero value is a single
// server without TLS and ACLs.
type ConsulOptions struct {
	// TLS makes the agent speak HTTPS, with a certificate from a new authority;
	// see [ConsulAgent.TLSConfig].
	TLS bool

	// ClientCerts requires a certificate of that authority from each client; see
	// [ConsulAgent.ClientFiles]. It needs TLS.
	ClientCerts bool

	// ACL denies all requests without a token; see [ConsulAgent.AdminToken].
	ACL bool

	// KeyListPolicy lets a token list keys only by a policy that says so (acl.enable_key_list_policy). It needs ACL.
	KeyListPolicy bool

	// Limits are added to the limits of the configuration, such as txn_max_req_len.
	Limits map[string]any
}

// A ConsulAgent is one server of Consul.
type ConsulAgent struct{ *Daemon }

// consulToken is the token of the administrator, with ACL.
const consulToken = "0f0e0d0c-0b0a-0908-0706-050403020100"

// StartConsul starts a single server for this test and stops it after the test.
func StartConsul(t testing.TB, o ConsulOptions) *ConsulAgent {
	t.Helper()
	return startOwn(t, func() *ConsulAgent { return startConsul(o) })
}

// SharedConsul returns the server that all tests of the binary share. Tests must not inject faults into it. Each
// takes its own prefix.
var SharedConsul = share(func() *ConsulAgent { return startConsul(ConsulOptions{}) })

// StartConsulCluster starts n servers for this test on the hosts of network. All of
// them answer clients when it returns.
func StartConsulCluster(t testing.TB, network *Network, n int) []*ConsulAgent {
	t.Helper()
	var peers []string
	for i := range n {
		peers = append(peers, network.Host(i).PeerIP())
	}
	return startCluster(t, n, func(i int) *ConsulAgent {
		a, host := newConsul(ConsulOptions{}), network.Host(i)
		a.host, a.addr = host, host.IP()+":8500"
		a.configure(ConsulOptions{}, map[string]any{
			"bootstrap_expect": n, "retry_join": peers, "retry_interval": "1s", "node_name": fmt.Sprint("node", i+1),
			"bind_addr": host.PeerIP(), "client_addr": host.IP(),
		}, [3]int{8500, 8300, 8301})
		return a
	})
}

// startConsul starts a single server.
func startConsul(o ConsulOptions) *ConsulAgent {
	a := newConsul(o)
	a.onPort(func(port int) []string {
		a.configure(o, map[string]any{
			"bootstrap_expect": 1, "node_name": "node", "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1",
		}, [3]int{port, freePort(), freePort()})
		return a.command
	})
	return a
}

// newConsul finds the newest program that "make deps" has built, or the oldest that is claimed.
func newConsul(o ConsulOptions) *ConsulAgent {
	versions, module := "*", "internal/tools/consul"
	if oldest() {
		versions, module = "1.14.*", "internal/tools/consul-oldest"
	}
	program, version := built(Consul, versions, "consul", module)
	a := &ConsulAgent{newDaemon(Consul, version, o.TLS)}
	a.command = []string{program, "agent", "-config-file=" + a.config()}
	a.ready, a.leads = a.hasLeader, a.isLeader
	if o.ACL {
		a.header = http.Header{"X-Consul-Token": {consulToken}}
	}
	if o.ClientCerts {
		a.certs = []tls.Certificate{must(tls.LoadX509KeyPair(a.ca.client(a.dir, "tests")))}
	}
	return a
}

func (a *ConsulAgent) config() string { return filepath.Join(a.dir, "consul.json") }

// configure writes a configuration with these settings. The ports are those for clients, servers and gossip. With TLS, the
// port for clients is the HTTPS port.
func (a *ConsulAgent) configure(o ConsulOptions, config map[string]any, port [3]int) {
	ports := map[string]int{"http": port[0], "server": port[1], "serf_lan": port[2], "https": -1, "dns": -1, "grpc": -1, "grpc_tls": -1, "serf_wan": -1}
	limits := map[string]any{"http_max_conns_per_client": 10000} // all test processes have one address
	maps.Copy(limits, o.Limits)
	maps.Copy(config, map[string]any{
		"server": true, "data_dir": filepath.Join(a.dir, "data"), "log_level": "INFO",
		"performance": map[string]any{"raft_multiplier": 1, "leave_drain_time": "0s"},
		"autopilot":   map[string]any{"cleanup_dead_servers": false},
		"connect":     map[string]any{"enabled": false}, "peering": map[string]any{"enabled": false},
		"disable_update_check": true, "skip_leave_on_interrupt": true, "leave_on_terminate": false,
		"telemetry": map[string]any{"prometheus_retention_time": "1h", "disable_hostname": true},
		"limits":    limits, "ports": ports,
	})
	if o.ACL {
		config["acl"] = map[string]any{"enabled": true, "default_policy": "deny", "enable_key_list_policy": o.KeyListPolicy, "tokens": map[string]any{"initial_management": consulToken}}
	}
	if o.TLS {
		ports["http"], ports["https"] = -1, port[0]
		config["tls"] = map[string]any{"https": map[string]any{
			"ca_file": a.ca.file("ca.pem"), "cert_file": a.ca.file("server-cert.pem"), "key_file": a.ca.file("server-key.pem"), "verify_incoming": o.ClientCerts,
		}}
	}
	check(os.WriteFile(a.config(), must(json.Marshal(config)), 0o600))
}

// hasLeader returns nil if the cluster has a leader that answers consistent reads.
func (a *ConsulAgent) hasLeader(ctx context.Context) error {
	return a.Try(ctx, http.MethodGet, "/v1/catalog/nodes?consistent", nil, nil)
}

func (a *ConsulAgent) isLeader(ctx context.Context) bool {
	var self struct {
		Stats struct{ Consul struct{ Leader string } }
	}
	err := a.Try(ctx, http.MethodGet, "/v1/agent/self", nil, &self)
	return err == nil && self.Stats.Consul.Leader == "true"
}

// AdminToken is the administrator's token, or empty without ACL.
func (a *ConsulAgent) AdminToken() string { return a.header.Get("X-Consul-Token") }
