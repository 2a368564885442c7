package testbed

import (
	"context"
	"fmt"
	"os"
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
	return startOwn(t, Etcd, func() *EtcdNode { return startEtcd(o) })
}

var sharedEtcd = share(func() *EtcdNode {
	if endpoints := Etcd.named(); endpoints != "" {
		return &EtcdNode{Daemon: alreadyRunning(Etcd, endpoints)}
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
	var peers []string
	for i := range n {
		peers = append(peers, fmt.Sprintf("node%d=http://%s:2380", i, network.Host(i).PeerIP()))
	}
	return startCluster(t, Etcd, n, func(i int) *EtcdNode {
		host := network.Host(i)
		d := prepareEtcd(o)
		d.host, d.addr = host, host.IP()+":2379"
		n := &EtcdNode{metrics: "http://" + host.IP() + ":2381"}
		n.Daemon = launch(n.configure(d, o, fmt.Sprint("node", i), host.PeerIP()+":2380", fmt.Sprint("cluster", network.number), peers))
		return n
	})
}

// startEtcd starts a single node.
func startEtcd(o EtcdOptions) *EtcdNode {
	n, d := &EtcdNode{}, prepareEtcd(o)
	n.Daemon = launchOnPort(func(port int) daemonOptions {
		d.addr, n.metrics = loopback(port), "http://"+loopback(freePort())
		peer := loopback(freePort())
		return n.configure(d, o, "node0", peer, filepath.Base(d.dir), []string{"node0=http://" + peer})
	})
	return n
}

// prepareEtcd finds the program.
func prepareEtcd(o EtcdOptions) daemonOptions {
	find := findEtcd
	if o.Oldest || oldest() {
		find = oldestEtcd
	}
	program, version := find()
	d := prepare(Etcd, version, o.TLS)
	d.command = []string{program}
	return d
}

// configure adds the options of a node of this name and this address for its peers.
func (n *EtcdNode) configure(d daemonOptions, o EtcdOptions, name, peer, cluster string, peers []string) daemonOptions {
	scheme, args := "http://", o.Args
	if o.TLS {
		scheme = "https://"
		args = slices.Concat([]string{"--client-cert-auth", "--trusted-ca-file=" + d.ca.file("ca.pem"),
			"--cert-file=" + d.ca.file("server-cert.pem"), "--key-file=" + d.ca.file("server-key.pem")}, args)
	}
	d.ready = n.ready
	d.command = slices.Concat(d.command, []string{
		"--name=" + name, "--data-dir=" + filepath.Join(d.dir, "data"), "--initial-cluster=" + strings.Join(peers, ","), "--initial-cluster-token=" + cluster,
		"--listen-peer-urls=http://" + peer, "--initial-advertise-peer-urls=http://" + peer, "--listen-metrics-urls=" + n.metrics,
		"--listen-client-urls=" + scheme + d.addr, "--advertise-client-urls=" + scheme + d.addr,
		"--heartbeat-interval=50", "--election-timeout=500", "--log-level=warn", "--logger=zap",
	}, args)
	return d
}

// findEtcd finds the newest program that "make deps" has built. In the fast tier the
// system's etcd will do.
func findEtcd() (program, version string) {
	if testing.Short() && glob(filepath.Join(cacheDir(), "etcd-v*", "etcd")) == "" {
		return systemEtcd()
	}
	return built(Etcd, "*", "etcd", "internal/tools/etcd")
}

// oldestEtcd finds the program of Debian bookworm that "make deps" has unpacked, or the system's.
func oldestEtcd() (program, version string) {
	cache := cacheDir()
	if found := glob(filepath.Join(cache, "etcd-3.4.*", "usr/bin/etcd")); found != "" {
		return found, strings.Split(found[len(cache)+1:], "/")[0][len("etcd-"):]
	}
	program, version = systemEtcd()
	if !strings.HasPrefix(version, "3.4.") {
		check(&missing{Etcd, "etcd 3.4", "Debian bookworm: etcd-server"})
	}
	return program, version
}

var etcdVersion = regexp.MustCompile(`etcd Version: (\S+)`)

func systemEtcd() (program, version string) {
	program = installed(Etcd, "etcd", "etcd", "Debian: etcd-server")
	out, err := exec.Command(program, "--version").Output()
	found := etcdVersion.FindSubmatch(out)
	if err != nil || found == nil {
		check(fmt.Errorf("%s --version: %v: %s", program, err, out))
	}
	return program, string(found[1])
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
	noError(t, err)
	metrics := make(map[string]float64)
	for _, line := range metricLine.FindAllStringSubmatch(text, -1) {
		metrics[line[1]], _ = strconv.ParseFloat(line[2], 64)
	}
	return metrics
}

// Leads reports whether this node says that it leads the cluster.
func (n *EtcdNode) Leads(t testing.TB) bool {
	t.Helper()
	return n.Metrics(t)["etcd_server_is_leader"] == 1
}

func (n *EtcdNode) data() string { return filepath.Join(n.Dir(), "data") }

// ReplaceData replaces the data of a node that does not run by an earlier copy, or with "" by none.
func (n *EtcdNode) ReplaceData(t testing.TB, saved string) {
	t.Helper()
	n.requireOwn(t, "ReplaceData")
	noError(t, os.RemoveAll(n.data()))
	if saved != "" {
		noError(t, os.CopyFS(n.data(), os.DirFS(saved)))
	}
}
