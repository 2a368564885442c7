package testbed

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// ZooKeeperTick is the tickTime of the servers. A short tick allows short sessions.
const ZooKeeperTick = 100 * time.Millisecond

// StartZooKeeper starts a server for this test and stops it after the test.
func StartZooKeeper(t testing.TB, o Options) *Daemon {
	t.Helper()
	return startOwn(t, func() *Daemon { return startZooKeeper(o) })
}

var sharedZooKeeper = share(func() *Daemon { return startZooKeeper(Options{}) })

// SharedZooKeeper returns the address of the server of all tests of the binary. Each takes its own paths.
func SharedZooKeeper(t testing.TB) []string {
	t.Helper()
	return []string{sharedZooKeeper(t).Addr()}
}

// StartZooKeeperEnsemble starts an ensemble, each server on a host of its own.
func StartZooKeeperEnsemble(t testing.TB, n int) []*Daemon {
	t.Helper()
	return startCluster(t, n, func(hosts []*Host, i int) *Daemon {
		d, ip := newZooKeeper(Options{}), hosts[i].IP()
		d.addr = ip + ":2181"
		lines := []string{"initLimit=100", "syncLimit=25", "clientPort=2181", "clientPortAddress=" + ip}
		for j, h := range hosts {
			lines = append(lines, fmt.Sprintf("server.%d=%s:2888:3888", j+1, h.PeerIP()))
		}
		check(os.MkdirAll(d.data(), 0o700))
		check(os.WriteFile(filepath.Join(d.data(), "myid"), fmt.Appendln(nil, i+1), 0o600))
		d.command = d.zooKeeperCommand(lines)
		return d
	})
}

// DialZooKeeper returns a plain client, such as an operator uses, until the end of the test.
func DialZooKeeper(t testing.TB, servers []string) *zk.Conn {
	t.Helper()
	c, _, err := zk.Connect(servers, 10*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func startZooKeeper(o Options) *Daemon {
	d := newZooKeeper(o)
	return d.onPort(func(port int) []string {
		lines := []string{fmt.Sprintf("clientPort=%d", port), "clientPortAddress=127.0.0.1"}
		if o.TLS {
			lines = d.secureLines(port)
		}
		return d.zooKeeperCommand(append(lines, o.Args...))
	})
}

func newZooKeeper(o Options) *Daemon {
	d := newDaemon(ZooKeeper, "", o)
	d.ready = func(ctx context.Context) error {
		_, err := d.zooKeeperMode(ctx)
		return err
	}
	d.leads = func(ctx context.Context) bool {
		is, err := d.zooKeeperMode(ctx)
		return err == nil && is != "follower"
	}
	return d
}

// secureLines returns what the configuration says of the only port of a server, which speaks TLS.
func (d *Daemon) secureLines(port int) []string {
	file := filepath.Join(d.dir, "server.pem") // the server wants key and certificate in one
	key, cert := must(os.ReadFile(d.ca.keyFile)), must(os.ReadFile(d.ca.certFile))
	check(os.WriteFile(file, append(key, cert...), 0o600))
	return []string{
		fmt.Sprintf("secureClientPort=%d", port), "secureClientPortAddress=127.0.0.1",
		"ssl.keyStore.location=" + file, "ssl.keyStore.type=PEM",
		"ssl.trustStore.location=" + d.ca.file, "ssl.trustStore.type=PEM",
		"ssl.clientAuth=none", "ssl.hostnameVerification=false",
		"-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
	}
}

// zooKeeperCommand writes a configuration with these additional lines, and returns the command. Those that
// begin with -D are properties of its Java machine.
func (d *Daemon) zooKeeperCommand(lines []string) []string {
	java := installed(ZooKeeper, "java", "Java", "Debian: default-jre-headless")
	const jars = "/usr/share/java/"
	jar := glob(jars+"zookeeper-3.*.jar", jars+"zookeeper.jar")
	if jar == "" {
		check(&missing{ZooKeeper, "ZooKeeper", "Debian: zookeeper"})
	}
	d.version = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jar), "zookeeper-"), ".jar")
	// The manifest of zookeeper.jar names its dependencies, but netty-all.jar is an empty stub.
	path, _ := filepath.Glob(jars + "netty-*.jar")
	path = append(path, jars+"zookeeper.jar")
	file := filepath.Join(d.dir, "zoo.cfg")
	command := []string{java, "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dzookeeper.forceSync=no", // data need not survive a crash of the machine
	}
	config := []string{
		fmt.Sprintf("tickTime=%d", ZooKeeperTick.Milliseconds()),
		"dataDir=" + d.data(),
		"minSessionTimeout=200", "maxSessionTimeout=20000",
		"admin.enableServer=false",
		"maxClientCnxns=0",
	}
	for _, line := range lines {
		if strings.HasPrefix(line, "-D") {
			command = append(command, line)
		} else {
			config = append(config, line)
		}
	}
	check(os.WriteFile(file, []byte(strings.Join(config, "\n")+"\n"), 0o600))
	const main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
	return append(command, "-cp", strings.Join(path, ":"), main, file)
}

// zooKeeperMode asks a server what it is: leader, follower or standalone. One without a majority is nothing.
func (d *Daemon) zooKeeperMode(ctx context.Context) (string, error) {
	c, err := d.dial(ctx)
	if err != nil {
		return "", err
	}
	defer c.Close()
	at, _ := ctx.Deadline()
	c.SetDeadline(at)
	io.WriteString(c, "srvr")
	text, _ := io.ReadAll(c)
	_, rest, found := strings.Cut(string(text), "Mode: ")
	if !found {
		err = fmt.Errorf("%.100q", text)
	}
	is, _, _ := strings.Cut(rest, "\n")
	return is, err
}
