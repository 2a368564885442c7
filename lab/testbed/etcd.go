package testbed

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// StartEtcd starts a single node for this test and stops it after the test. Its election timeout is half a
// second, so it grants leases of a second and more.
func StartEtcd(t testing.TB, o Options) *Daemon {
	t.Helper()
	return startOwn(t, func() *Daemon { return startEtcd(o) })
}

var sharedEtcd = share(func() *Daemon { return startEtcd(Options{}) })

// SharedEtcd returns the endpoints of the node that all tests of the binary share. Each takes its own prefix.
func SharedEtcd(t testing.TB) []string {
	t.Helper()
	return []string{sharedEtcd(t).URL()}
}

// StartEtcdCluster starts n nodes for this test, each on a host of its own.
func StartEtcdCluster(t testing.TB, n int, o Options) []*Daemon {
	t.Helper()
	return startCluster(t, n, func(hosts []*Host, i int) *Daemon {
		var peers []string
		for _, h := range hosts {
			peers = append(peers, h.PeerIP()+":2380")
		}
		d, program := newEtcd(o)
		d.addr, d.metrics = hosts[i].IP()+":2379", "http://"+hosts[i].IP()+":2381"
		d.command = d.etcdCommand(program, o, peers, i)
		return d
	})
}

// startEtcd starts a single node.
func startEtcd(o Options) *Daemon {
	d, program := newEtcd(o)
	return d.onPort(func(int) []string {
		d.metrics = "http://" + loopback(freePort())
		return d.etcdCommand(program, o, []string{loopback(freePort())}, 0)
	})
}

func newEtcd(o Options) (d *Daemon, program string) {
	program, version := findEtcd(o.Oldest || oldest())
	d = newDaemon(Etcd, version, o)
	d.ready = func(ctx context.Context) error { // once the cluster has a leader that confirms a read
		text, err := d.ask(ctx, http.MethodGet, d.metrics+"/health", nil)
		if err == nil && !strings.Contains(string(text), `"health":"true"`) {
			err = fmt.Errorf("not healthy: %s", text)
		}
		return err
	}
	d.leads = func(ctx context.Context) bool {
		text, err := d.ask(ctx, http.MethodGet, d.metrics+"/metrics", nil)
		return err == nil && strings.Contains(string(text), "\netcd_server_is_leader 1\n")
	}
	return d, program
}

// etcdCommand returns the command of a node of the cluster that has these addresses for each other.
func (d *Daemon) etcdCommand(program string, o Options, peers []string, i int) []string {
	var cluster []string
	for j, peer := range peers {
		cluster = append(cluster, fmt.Sprintf("node%d=http://%s", j, peer))
	}
	args := []string{
		program, fmt.Sprintf("--name=node%d", i), "--data-dir=" + d.data(),
		"--initial-cluster=" + strings.Join(cluster, ","), "--initial-cluster-token=" + peers[0],
		"--listen-peer-urls=http://" + peers[i], "--initial-advertise-peer-urls=http://" + peers[i],
		"--listen-client-urls=" + d.URL(), "--advertise-client-urls=" + d.URL(),
		"--listen-metrics-urls=" + d.metrics, "--heartbeat-interval=50", "--election-timeout=500",
		"--log-level=warn", "--logger=zap",
	}
	if o.TLS {
		args = append(args, "--client-cert-auth", "--trusted-ca-file="+d.ca.file,
			"--cert-file="+d.ca.certFile, "--key-file="+d.ca.keyFile)
	}
	return append(args, o.Args...)
}

// findEtcd finds the newest program that "make deps" has built, or the old one of Debian bookworm that it has
// unpacked. In the fast tier, the system's etcd will do.
func findEtcd(old bool) (program, version string) {
	switch {
	case old:
		if program = glob(filepath.Join(cacheDir(), "etcd-3.4.*/usr/bin/etcd")); program == "" {
			check(&missing{Etcd, "etcd 3.4", "Debian bookworm: etcd-server"})
		}
	case testing.Short() && glob(filepath.Join(cacheDir(), "etcd-v*/etcd")) == "":
		program = installed(Etcd, "etcd", "etcd", "Debian: etcd-server")
	default:
		return built(Etcd, "*", "etcd", "internal/tools/etcd")
	}
	return program, versionOf("etcd Version: ", nil, program)
}

// EtcdMetrics returns the metrics of a node, by name and labels as it writes them.
func EtcdMetrics(t testing.TB, node *Daemon) map[string]float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	text, err := node.ask(ctx, http.MethodGet, node.metrics+"/metrics", nil)
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
