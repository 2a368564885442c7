package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// ZooKeeperTick is the tickTime of the servers. A short tick allows short sessions.
const ZooKeeperTick = 100 * time.Millisecond

// ZooKeeperOptions describe a server to start.
type ZooKeeperOptions struct {
	// TLS gives the server a second, secure port.
	TLS bool

	// Config has lines for the configuration file.
	Config []string

	// Properties are options of its Java machine, such as -Djute.maxbuffer=10000.
	Properties []string

	// Clock runs the server on a clock that [Daemon.Step] can move.
	Clock bool
}

// A ZooKeeperServer is one ZooKeeper server.
type ZooKeeperServer struct {
	*Daemon
	secure string
}

// Secure returns the address of the secure port.
func (z *ZooKeeperServer) Secure() string { return z.secure }

// StartZooKeeper starts a server for this test and stops it after the test.
// If ZooKeeper is not installed, the test is skipped or fails.
func StartZooKeeper(t testing.TB, o ZooKeeperOptions) *ZooKeeperServer {
	t.Helper()
	return startOwn(t, func() *ZooKeeperServer { return startZooKeeper(o) })
}

var sharedZooKeeper = share(func() *ZooKeeperServer { return startZooKeeper(ZooKeeperOptions{}) })

// SharedZooKeeper returns the address of the server that all tests of the binary share.
// Tests must not inject faults into it. Each takes its own paths.
func SharedZooKeeper(t testing.TB) []string {
	t.Helper()
	return []string{sharedZooKeeper(t).Addr()}
}

// DialZooKeeper returns a plain client, such as an operator uses, until the end of the test.
func DialZooKeeper(t testing.TB, servers []string) *zk.Conn {
	t.Helper()
	c, _, err := zk.Connect(servers, 10*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func startZooKeeper(o ZooKeeperOptions) *ZooKeeperServer {
	z := newZooKeeper(o.TLS)
	if o.Clock {
		z.setClock(faketime(), 0)
	}
	z.onPort(func(port int) []string {
		lines := append([]string{fmt.Sprintf("clientPort=%d", port), "clientPortAddress=127.0.0.1"}, o.Config...)
		properties := slices.Clone(o.Properties)
		if o.TLS {
			secure := freePort()
			z.secure = loopback(secure)
			lines = append(lines, secureLines(z.ca, secure)...)
			properties = append(properties, "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory")
		}
		return z.configure(lines, properties)
	})
	return z
}

func newZooKeeper(tls bool) *ZooKeeperServer {
	z := &ZooKeeperServer{Daemon: newDaemon(ZooKeeper, "", tls)}
	z.ready = func(ctx context.Context) error {
		_, err := z.mode(ctx)
		if z.secure != "" { // the server opens this port after the plain one
			err = errors.Join(err, listens(ctx, z.secure))
		}
		return err
	}
	z.leads = func(ctx context.Context) bool {
		is, err := z.mode(ctx)
		return err == nil && is != "follower"
	}
	return z
}

// secureLines returns the lines of the configuration for a secure port.
func secureLines(ca *authority, port int) []string {
	// The server wants key and certificate in one PEM file.
	both := append(must(os.ReadFile(ca.file("server-key.pem"))), must(os.ReadFile(ca.file("server-cert.pem")))...)
	check(os.WriteFile(ca.file("server.pem"), both, 0o600))
	return []string{
		fmt.Sprintf("secureClientPort=%d", port), "secureClientPortAddress=127.0.0.1",
		"ssl.keyStore.location=" + ca.file("server.pem"), "ssl.keyStore.type=PEM",
		"ssl.trustStore.location=" + ca.file("ca.pem"), "ssl.trustStore.type=PEM",
		"ssl.clientAuth=none", "ssl.hostnameVerification=false",
	}
}

// StartZooKeeperEnsemble starts an ensemble, one server on each host of the network.
// config is added to all configuration files.
func StartZooKeeperEnsemble(t testing.TB, network *Network, n int, config ...string) []*ZooKeeperServer {
	t.Helper()
	return startCluster(t, n, func(i int) *ZooKeeperServer {
		z, host := newZooKeeper(false), network.Host(i)
		z.host, z.addr = host, host.IP()+":2181"
		lines := []string{"clientPort=2181", "clientPortAddress=" + host.IP(), "initLimit=100", "syncLimit=25"}
		for j := range n {
			lines = append(lines, fmt.Sprintf("server.%d=%s:2888:3888", j+1, network.Host(j).PeerIP()))
		}
		check(os.MkdirAll(filepath.Join(z.dir, "data"), 0o700))
		check(os.WriteFile(filepath.Join(z.dir, "data", "myid"), fmt.Appendln(nil, i+1), 0o600))
		z.command = z.configure(append(lines, config...), nil)
		return z
	})
}

// configure writes a configuration with these additional lines, and returns the command with these Java properties.
func (z *ZooKeeperServer) configure(lines, properties []string) []string {
	java := installed(ZooKeeper, "java", "Java", "Debian: default-jre-headless")
	const jars = "/usr/share/java/"
	jar := glob(jars+"zookeeper-3.*.jar", jars+"zookeeper.jar")
	if jar == "" {
		check(&missing{ZooKeeper, "ZooKeeper", "Debian: zookeeper"})
	}
	z.version = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jar), "zookeeper-"), ".jar")
	// The manifest of zookeeper.jar names its dependencies, but netty-all.jar is an empty stub.
	path := []string{jars + "zookeeper.jar"}
	netty, _ := filepath.Glob(jars + "netty-*.jar")
	for _, j := range netty {
		if !strings.Contains(j, "-all") {
			path = append(path, j)
		}
	}
	config := append([]string{
		fmt.Sprintf("tickTime=%d", ZooKeeperTick.Milliseconds()),
		"dataDir=" + filepath.Join(z.dir, "data"),
		"minSessionTimeout=200", "maxSessionTimeout=20000",
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
		"maxClientCnxns=0",
		"autopurge.purgeInterval=0",
		"reconfigEnabled=false",
	}, lines...)
	file := filepath.Join(z.dir, "zoo.cfg")
	check(os.WriteFile(file, []byte(strings.Join(config, "\n")+"\n"), 0o600))
	command := []string{java, "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-Dzookeeper.forceSync=no", // data need not survive a crash of the machine
		"-Dzookeeper.skipACL=no",
		"-Djava.awt.headless=true",
	}
	return append(append(command, properties...), "-cp", strings.Join(path, ":"),
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
}

// mode asks a server what it is: leader, follower or standalone. One without a majority is nothing.
func (z *ZooKeeperServer) mode(ctx context.Context) (string, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", z.addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	at, _ := ctx.Deadline()
	c.SetDeadline(at)
	io.WriteString(c, "srvr")
	text, err := io.ReadAll(c)
	_, rest, found := strings.Cut(string(text), "Mode: ")
	if err == nil && !found {
		err = fmt.Errorf("%.100q", text)
	}
	is, _, _ := strings.Cut(rest, "\n")
	return is, err
}
