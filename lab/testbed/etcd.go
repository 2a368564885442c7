package testbed

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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
	program string
	metrics string // URL of health and metrics, without TLS
}

// StartEtcd starts a single node for this test and stops it after the test.
func StartEtcd(t testing.TB, o EtcdOptions) *EtcdNode {
	t.Helper()
	return startOwn(t, func() *EtcdNode { return startEtcd(o) })
}

var sharedEtcd = share(func() *EtcdNode { return startEtcd(EtcdOptions{}) })

// SharedEtcd returns the endpoints of the node that all tests of the binary share. Tests must not inject
// faults into it. Each takes its own prefix.
func SharedEtcd(t testing.TB) []string {
	t.Helper()
	return []string{sharedEtcd(t).URL()}
}

// StartEtcdCluster starts n nodes for this test on the hosts of network. All of them
// answer clients when it returns.
func StartEtcdCluster(t testing.TB, network *Network, n int, o EtcdOptions) []*EtcdNode {
	t.Helper()
	var peers []string
	for i := range n {
		peers = append(peers, fmt.Sprintf("node%d=http://%s:2380", i, network.Host(i).PeerIP()))
	}
	return startCluster(t, n, func(i int) *EtcdNode {
		host := network.Host(i)
		e := newEtcd(o)
		e.host, e.addr = host, host.IP()+":2379"
		e.metrics = "http://" + host.IP() + ":2381"
		e.command = e.options(o, fmt.Sprint("node", i), host.PeerIP()+":2380", fmt.Sprint("cluster", network.number), peers)
		return e
	})
}

// startEtcd starts a single node.
func startEtcd(o EtcdOptions) *EtcdNode {
	e := newEtcd(o)
	e.onPort(func(int) []string {
		e.metrics = "http://" + loopback(freePort())
		peer := loopback(freePort())
		return e.options(o, "node0", peer, filepath.Base(e.dir), []string{"node0=http://" + peer})
	})
	return e
}

func newEtcd(o EtcdOptions) *EtcdNode {
	program, version := findEtcd(o.Oldest || oldest())
	e := &EtcdNode{Daemon: newDaemon(Etcd, version, o.TLS), program: program}
	e.ready = func(ctx context.Context) error { // once the cluster has a leader that confirms a read
		text, err := e.ask(ctx, http.MethodGet, e.metrics+"/health", nil)
		if err == nil && !strings.Contains(string(text), `"health":"true"`) {
			err = fmt.Errorf("not healthy: %s", text)
		}
		return err
	}
	e.leads = func(ctx context.Context) bool {
		text, err := e.ask(ctx, http.MethodGet, e.metrics+"/metrics", nil)
		return err == nil && strings.Contains(string(text), "\netcd_server_is_leader 1\n")
	}
	return e
}

// options returns the command of a node of this name and this address for its peers.
func (e *EtcdNode) options(o EtcdOptions, name, peer, cluster string, peers []string) []string {
	args := []string{
		e.program, "--name=" + name, "--data-dir=" + e.data(),
		"--initial-cluster=" + strings.Join(peers, ","), "--initial-cluster-token=" + cluster,
		"--listen-peer-urls=http://" + peer, "--initial-advertise-peer-urls=http://" + peer, "--listen-metrics-urls=" + e.metrics,
		"--listen-client-urls=" + e.URL(), "--advertise-client-urls=" + e.URL(),
		"--heartbeat-interval=50", "--election-timeout=500", "--log-level=warn", "--logger=zap",
	}
	if o.TLS {
		args = append(args, "--client-cert-auth", "--trusted-ca-file="+e.ca.file("ca.pem"),
			"--cert-file="+e.ca.file("server-cert.pem"), "--key-file="+e.ca.file("server-key.pem"))
	}
	return append(args, o.Args...)
}

// findEtcd finds the newest program that "make deps" has built, or the old one of Debian bookworm that it has unpacked.
// In the fast tier, and for the old one, the system's etcd will do.
func findEtcd(old bool) (program, version string) {
	pattern := "etcd-v*/etcd"
	if old {
		pattern = "etcd-3.4.*/usr/bin/etcd"
	}
	found, _ := filepath.Glob(filepath.Join(cacheDir(), pattern))
	switch {
	case len(found) > 0:
		program = found[len(found)-1]
	case old || testing.Short():
		program = installed(Etcd, "etcd", "etcd", "Debian: etcd-server")
	default:
		check(&missing{Etcd, "etcd", "built from internal/tools/etcd"})
	}

	version = versionOf("etcd Version: ", nil, program)
	if old && !strings.HasPrefix(version, "3.4.") {
		check(&missing{Etcd, "etcd 3.4", "Debian bookworm: etcd-server"})
	}
	return program, version
}

// Metrics returns the node's metrics, by name and labels as it writes them. It fails the
// test if the node does not answer.
func (e *EtcdNode) Metrics(t testing.TB) map[string]float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	text, err := e.ask(ctx, http.MethodGet, e.metrics+"/metrics", nil)
	NoError(t, err)
	metrics := make(map[string]float64)
	for line := range strings.Lines(string(text)) {
		space := strings.LastIndexByte(line, ' ')
		if n, err := strconv.ParseFloat(strings.TrimSpace(line[space+1:]), 64); err == nil {
			metrics[line[:max(space, 0)]] = n
		}
	}
	return metrics
}

func (e *EtcdNode) data() string { return filepath.Join(e.Dir(), "data") }

// ReplaceData replaces the data of a node that does not run by an earlier copy, or with "" by none.
func (e *EtcdNode) ReplaceData(t testing.TB, saved string) {
	t.Helper()
	NoError(t, os.RemoveAll(e.data()))
	if saved != "" {
		NoError(t, os.CopyFS(e.data(), os.DirFS(saved)))
	}
}
