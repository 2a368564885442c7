package testbed

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// EtcdOptions describe a node of etcd to start. The zero value is a single node without
// TLS and users. Its election timeout is half a second, so it grants leases of a second
// and more.
type EtcdOptions struct {
	// TLS makes the node speak https, with a certificate from a new authority, and
	// require a client certificate: see [EtcdNode.ClientFiles].
	TLS bool

	// Oldest takes the oldest version that this module claims to support, if a package has it.
	Oldest bool

	// Args are added to the end of the command line.
	Args []string
}

// An EtcdNode is one process of etcd.
type EtcdNode struct {
	*Daemon
	metrics string // URL of health and metrics, without TLS
}

// StartEtcd starts a single node for this test and stops it after the test.
// With ELECTION_TEST_ETCD_ENDPOINTS set it skips the test.
func StartEtcd(t testing.TB, o EtcdOptions) *EtcdNode {
	t.Helper()
	ownServer(t, Etcd, "starts its own server")
	n, err := startEtcd(o)
	started(t, n, err)
	endWithTest(t, n.Daemon)
	return n
}

var sharedEtcd = share(func() (*EtcdNode, error) {
	if endpoints := Etcd.named(); endpoints != "" {
		return &EtcdNode{Daemon: &Daemon{options: daemonOptions{kind: Etcd, addr: endpoints}}}, nil
	}
	return startEtcd(EtcdOptions{})
})

// SharedEtcd returns the endpoints of the node that all tests of the binary share, or
// those in ELECTION_TEST_ETCD_ENDPOINTS, separated by commas. Tests must not inject
// faults into it. Each takes its own prefix.
func SharedEtcd(t testing.TB) []string {
	t.Helper()
	n := sharedEtcd(t)
	if n.options.command == nil {
		return strings.Split(n.Addr(), ",")
	}
	return []string{n.URL()}
}

// StartEtcdCluster starts n nodes for this test on the hosts of network. All of them
// answer clients when it returns.
func StartEtcdCluster(t testing.TB, network *Network, n int, o EtcdOptions) []*EtcdNode {
	t.Helper()
	ownServer(t, Etcd, "starts a cluster")
	var peers []string
	for i := range n {
		peers = append(peers, fmt.Sprintf("node%d=http://%s:2380", i, network.Host(i).PeerIP()))
	}
	var nodes []*EtcdNode
	for i := range n {
		node, err := newEtcd(o, network.Host(i), fmt.Sprintf("node%d", i), peers)
		if err != nil {
			unavailable(t, err)
		}
		nodes = append(nodes, node)
		endWithTest(t, node.Daemon)
	}
	for _, node := range nodes {
		if err := node.await(); err != nil {
			t.Fatalf("testbed: %v", err)
		}
	}
	recordServer(t, fmt.Sprintf("etcd %s, %d nodes", nodes[0].Version(), n))
	return nodes
}

func startEtcd(o EtcdOptions) (*EtcdNode, error) {
	n, err := newEtcd(o, nil, "node0", nil)
	if err != nil {
		return nil, err
	}
	if err := n.await(); err != nil {
		n.remove()
		return nil, err
	}
	return n, nil
}

// newEtcd launches a node: a single one, or one of peers.
func newEtcd(o EtcdOptions, host *Host, name string, peers []string) (*EtcdNode, error) {
	program, version, err := findEtcd()
	if o.Oldest || oldest() {
		program, version, err = oldestEtcd()
	}
	if err != nil {
		return nil, err
	}
	dir, err := newDir()
	if err != nil {
		return nil, err
	}
	var client, peer, metrics string
	if host != nil {
		client, peer, metrics = host.IP()+":2379", host.PeerIP()+":2380", host.IP()+":2381"
	} else {
		var port [3]int
		for i := range port {
			if port[i], err = freePort(); err != nil {
				return nil, err
			}
		}
		client, peer, metrics = loopback(port[0]), loopback(port[1]), loopback(port[2])
		peers = []string{name + "=http://" + peer}
	}
	n := &EtcdNode{metrics: "http://" + metrics}
	d := daemonOptions{kind: Etcd, version: version, addr: client, dir: dir, host: host, ready: n.ready}
	scheme := "http://"
	args := []string{
		"--name=" + name, "--data-dir=" + filepath.Join(dir, "data"), "--initial-cluster=" + strings.Join(peers, ","), "--initial-cluster-token=" + filepath.Base(dir[:len(dir)-1]),
		"--listen-peer-urls=http://" + peer, "--initial-advertise-peer-urls=http://" + peer, "--listen-metrics-urls=" + n.metrics,
		"--heartbeat-interval=50", "--election-timeout=500", "--log-level=warn", "--logger=zap",
	}
	if host != nil {
		args = append(args, "--initial-cluster-token=cluster"+strconv.Itoa(host.network.number))
	}
	if o.TLS {
		if d.ca, err = newAuthority(dir); err != nil {
			return nil, err
		}
		scheme = "https://"
		args = append(args, "--client-cert-auth", "--trusted-ca-file="+d.ca.file("ca.pem"), "--cert-file="+d.ca.file("server-cert.pem"), "--key-file="+d.ca.file("server-key.pem"))
	}
	args = append(args, "--listen-client-urls="+scheme+client, "--advertise-client-urls="+scheme+client)
	d.command = slices.Concat([]string{program}, args, o.Args)
	n.Daemon, err = launch(d)
	return n, err
}

// findEtcd finds the newest program that "make deps" has built. In the fast tier the
// system's etcd will do.
func findEtcd() (program, version string, err error) {
	program, version, err = built(Etcd, "*", "etcd", "internal/tools/etcd")
	if err != nil && testing.Short() {
		return systemEtcd()
	}
	return program, version, err
}

// oldestEtcd finds the program of Debian bookworm that "make deps" has unpacked, or the system's.
func oldestEtcd() (program, version string, err error) {
	cache, err := cacheDir()
	if err != nil {
		return "", "", err
	}
	if found := glob(filepath.Join(cache, "etcd-3.4.*", "usr/bin/etcd")); found != "" {
		return found, strings.Split(found[len(cache)+1:], "/")[0][len("etcd-"):], nil
	}
	program, version, err = systemEtcd()
	if err == nil && !strings.HasPrefix(version, "3.4.") {
		err = &missing{Etcd, "etcd 3.4", "Debian bookworm: etcd-server"}
	}
	return program, version, err
}

var etcdVersion = regexp.MustCompile(`etcd Version: (\S+)`)

func systemEtcd() (program, version string, err error) {
	program, err = lookPath("etcd")
	if err != nil {
		return "", "", &missing{Etcd, "etcd", "Debian: etcd-server"}
	}
	out, err := exec.Command(program, "--version").Output()
	found := etcdVersion.FindSubmatch(out)
	if err != nil || found == nil {
		return "", "", fmt.Errorf("%s --version: %v: %s", program, err, out)
	}
	return program, string(found[1]), nil
}

// ready returns nil if the cluster has a leader that confirms a read.
func (n *EtcdNode) ready(ctx context.Context) error {
	_, text, err := get(ctx, n.metrics+"/health", nil, nil)
	if err == nil && !strings.Contains(text, `"health":"true"`) {
		err = fmt.Errorf("not healthy: %s", text)
	}
	return err
}

var metricLine = regexp.MustCompile(`(?m)^([a-z_]+(?:\{[^}]*\})?) ([0-9.e+]+)$`)

// Metrics returns the node's metrics, by name and labels as it writes them. It fails the
// test if the node does not answer.
func (n *EtcdNode) Metrics(t testing.TB) map[string]float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	_, text, err := get(ctx, n.metrics+"/metrics", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	metrics := make(map[string]float64)
	for _, line := range metricLine.FindAllStringSubmatch(text, -1) {
		metrics[line[1]], _ = strconv.ParseFloat(line[2], 64)
	}
	return metrics
}

// IsLeader reports whether this node says that it leads the cluster.
func (n *EtcdNode) IsLeader(t testing.TB) bool {
	t.Helper()
	return n.Metrics(t)["etcd_server_is_leader"] == 1
}
