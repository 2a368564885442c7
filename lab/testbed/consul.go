package testbed

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
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

	// SessionTTLMin is the least TTL of a session. Default: Consul's, 10 s.
	SessionTTLMin time.Duration
}

// A ConsulAgent is one server of Consul.
type ConsulAgent struct {
	*Daemon
	own   []tls.Certificate // of the tests, with ClientCerts
	token string
}

// consulToken is the token of the administrator, with ACL.
const consulToken = "0f0e0d0c-0b0a-0908-0706-050403020100"

// StartConsul starts a single server for this test and stops it after the test.
// With ELECTION_TEST_CONSUL_ADDR set it skips the test.
func StartConsul(t testing.TB, o ConsulOptions) *ConsulAgent {
	t.Helper()
	ownServer(t, Consul, "starts its own server")
	a, err := startConsul(o)
	started(t, a, err)
	endWithTest(t, a.Daemon)
	return a
}

var sharedConsul = share(func() (*ConsulAgent, error) {
	if addr := Consul.named(); addr != "" {
		return &ConsulAgent{Daemon: &Daemon{options: daemonOptions{kind: Consul, addr: addr}}}, nil
	}
	return startConsul(ConsulOptions{SessionTTLMin: time.Second})
})

// SharedConsul returns the server that all tests of the binary share, or the one
// that ELECTION_TEST_CONSUL_ADDR names. Tests must not inject faults into it. Each
// takes its own prefix. Sessions may be as short as a second.
func SharedConsul(t testing.TB) *ConsulAgent {
	t.Helper()
	return sharedConsul(t)
}

// StartConsulCluster starts n servers for this test on the hosts of network. All of
// them answer clients when it returns.
func StartConsulCluster(t testing.TB, network *Network, n int) []*ConsulAgent {
	t.Helper()
	ownServer(t, Consul, "starts a cluster")
	var agents []*ConsulAgent
	var peers []string
	for i := range n {
		peers = append(peers, network.Host(i).PeerIP())
	}
	for i := range n {
		host := network.Host(i)
		a, err := newConsul(ConsulOptions{SessionTTLMin: time.Second}, host, peers)
		if err != nil {
			unavailable(t, err)
		}
		agents = append(agents, a)
		endWithTest(t, a.Daemon)
	}
	for _, a := range agents {
		if err := a.await(); err != nil {
			t.Fatalf("testbed: %v", err)
		}
	}
	recordServer(t, fmt.Sprintf("Consul %s, %d servers", agents[0].Version(), n))
	return agents
}

func startConsul(o ConsulOptions) (*ConsulAgent, error) {
	a, err := newConsul(o, nil, nil)
	if err != nil {
		return nil, err
	}
	if err := a.await(); err != nil {
		a.remove()
		return nil, err
	}
	return a, nil
}

// newConsul launches a server: a single one, or one of the servers with these addresses.
func newConsul(o ConsulOptions, host *Host, peers []string) (*ConsulAgent, error) {
	program, version, err := findConsul()
	if err != nil {
		return nil, err
	}
	dir, err := newDir()
	if err != nil {
		return nil, err
	}
	a := &ConsulAgent{}
	var port [4]int
	for i := range port {
		if port[i], err = freePort(); err != nil {
			return nil, err
		}
	}
	bind, client, name := "127.0.0.1", "127.0.0.1", "node"
	if host != nil { // fixed ports, because its peers must know them
		port = [4]int{8500, 8300, 8301, 8501}
		bind, client = host.PeerIP(), host.IP()
		name = "node" + strconv.Itoa(slices.Index(peers, bind)+1)
	}
	config := map[string]any{
		"server": true, "bootstrap_expect": max(len(peers), 1), "retry_join": peers, "retry_interval": "1s",
		"data_dir": filepath.Join(dir, "data"), "node_name": name, "bind_addr": bind, "client_addr": client,
		"performance": map[string]any{"raft_multiplier": 1, "leave_drain_time": "0s"},
		"autopilot":   map[string]any{"cleanup_dead_servers": false},
		"connect":     map[string]any{"enabled": false}, "peering": map[string]any{"enabled": false},
		"limits":               map[string]any{"http_max_conns_per_client": 10000}, // all test processes have one address
		"disable_update_check": true, "skip_leave_on_interrupt": true, "leave_on_terminate": false,
		"telemetry": map[string]any{"prometheus_retention_time": "1h", "disable_hostname": true},
		"log_level": "INFO",
		"ports":     map[string]int{"http": port[0], "server": port[1], "serf_lan": port[2], "https": -1, "dns": -1, "grpc": -1, "grpc_tls": -1, "serf_wan": -1},
	}
	d := daemonOptions{kind: Consul, version: version, addr: net.JoinHostPort(client, strconv.Itoa(port[0])), dir: dir, host: host, ready: a.ready}
	if d.ca, err = a.configure(o, dir, config); err != nil {
		return nil, err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "consul.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	d.command = []string{program, "agent", "-config-file=" + file}
	a.Daemon, err = launch(d)
	return a, err
}

// configure adds limits, ACLs and TLS to the configuration, and returns the authority with TLS. The HTTPS
// port then replaces the HTTP port.
func (a *ConsulAgent) configure(o ConsulOptions, dir string, config map[string]any) (ca *authority, err error) {
	maps.Copy(config["limits"].(map[string]any), o.Limits)
	if o.SessionTTLMin > 0 {
		config["session_ttl_min"] = o.SessionTTLMin.String()
	}
	if o.ACL {
		a.token = consulToken
		config["acl"] = map[string]any{"enabled": true, "default_policy": "deny", "enable_key_list_policy": o.KeyListPolicy, "tokens": map[string]any{"initial_management": consulToken}}
	}
	if !o.TLS {
		return nil, nil
	}
	if ca, err = newAuthority(dir); err != nil {
		return nil, err
	}
	ports := config["ports"].(map[string]int)
	ports["http"], ports["https"] = -1, ports["http"]
	config["tls"] = map[string]any{"https": map[string]any{
		"ca_file": ca.file("ca.pem"), "cert_file": ca.file("server-cert.pem"), "key_file": ca.file("server-key.pem"), "verify_incoming": o.ClientCerts,
	}}
	if !o.ClientCerts {
		return ca, nil
	}
	cert, key, err := ca.client(dir, "tests")
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	a.own = append(a.own, pair)
	return ca, err
}

// findConsul finds the newest program that "make deps" has built, or the oldest that is claimed.
func findConsul() (program, version string, err error) {
	if oldest() {
		return built(Consul, "1.14.*", "consul", "internal/tools/consul-oldest")
	}
	return built(Consul, "*", "consul", "internal/tools/consul")
}

// ready returns nil if the cluster has a leader that answers consistent reads.
func (a *ConsulAgent) ready(ctx context.Context) error {
	status, text, err := get(ctx, a.URL()+"/v1/kv/ready?consistent", a.TLSConfig(), http.Header{"X-Consul-Token": {a.token}})
	if err == nil && status >= 500 {
		err = fmt.Errorf("%d: %.1000s", status, text)
	}
	return err
}

// AdminToken is the administrator's token, or empty without ACL.
func (a *ConsulAgent) AdminToken() string { return a.token }

// TLSConfig makes a client trust the agent, and has a client certificate with
// ClientCerts. It is nil without TLS.
func (a *ConsulAgent) TLSConfig() *tls.Config {
	config := a.Daemon.TLSConfig()
	if config != nil {
		config.Certificates = a.own
	}
	return config
}

// IsLeader reports whether this server says that it leads the cluster.
func (a *ConsulAgent) IsLeader(t testing.TB) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, text, err := get(ctx, a.URL()+"/v1/agent/self", a.TLSConfig(), nil)
	var self struct {
		Stats struct{ Consul struct{ Leader string } }
	}
	if err != nil || json.Unmarshal([]byte(text), &self) != nil {
		return false
	}
	return self.Stats.Consul.Leader == "true"
}
