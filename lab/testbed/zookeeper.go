package testbed

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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
	Full(t, "starts its own server")
	z, err := startZooKeeper(o)
	started(t, z, err)
	endWithTest(t, z.Daemon)
	return z
}

var sharedZooKeeper = share(func() (*ZooKeeperServer, error) {
	if servers := ZooKeeper.named(); servers != "" {
		return &ZooKeeperServer{Daemon: &Daemon{options: daemonOptions{kind: ZooKeeper, addr: servers}}}, nil
	}
	return startZooKeeper(ZooKeeperOptions{})
})

// SharedZooKeeper returns the address of the server that all tests of the binary
// share, or the addresses in ELECTION_TEST_ZOOKEEPER_SERVERS, separated by commas.
// Tests must not inject faults into them. Each takes its own paths.
func SharedZooKeeper(t testing.TB) []string {
	t.Helper()
	return strings.Split(sharedZooKeeper(t).Addr(), ",")
}

func startZooKeeper(o ZooKeeperOptions) (*ZooKeeperServer, error) {
	dir, err := newDir()
	if err != nil {
		return nil, err
	}
	d := daemonOptions{kind: ZooKeeper, dir: dir}
	properties := o.Properties
	if o.TLS {
		if d.ca, err = newAuthority(dir); err != nil {
			return nil, err
		}
		properties = append(slices.Clip(properties), "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory")
	}
	if o.Clock {
		if d.clock, d.env, err = newClock(ZooKeeper, faketime(), dir, 0); err != nil {
			return nil, err
		}
	}

	z := &ZooKeeperServer{}
	z.Daemon, err = launchOnPort(func(port int) (daemonOptions, error) {
		lines := append([]string{fmt.Sprintf("clientPort=%d", port), "clientPortAddress=127.0.0.1"}, o.Config...)
		if o.TLS {
			secure, err := z.securePort(d.ca)
			if err != nil {
				return d, err
			}
			lines = append(lines, secure...)
		}
		d.addr = loopback(port)
		plain, err := d.zooKeeper(lines, properties)
		plain.ready = z.alsoSecure(plain.ready)
		return plain, err
	})
	if err != nil {
		return nil, err
	}
	return z, nil
}

// securePort chooses a second port, and returns the lines of the configuration for it.
func (z *ZooKeeperServer) securePort(ca *authority) (lines []string, err error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	// The server wants key and certificate in one PEM file.
	key, err := os.ReadFile(ca.file("server-key.pem"))
	if err != nil {
		return nil, err
	}
	cert, err := os.ReadFile(ca.file("server-cert.pem"))
	if err != nil {
		return nil, err
	}
	z.secure = loopback(port)
	return []string{
		fmt.Sprintf("secureClientPort=%d", port), "secureClientPortAddress=127.0.0.1",
		"ssl.keyStore.location=" + ca.file("server.pem"), "ssl.keyStore.type=PEM",
		"ssl.trustStore.location=" + ca.file("ca.pem"), "ssl.trustStore.type=PEM",
		"ssl.clientAuth=none", "ssl.hostnameVerification=false",
	}, os.WriteFile(ca.file("server.pem"), append(key, cert...), 0o600)
}

// alsoSecure waits for the secure port, too, if there is one: the server opens it after the plain one.
func (z *ZooKeeperServer) alsoSecure(plain func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := plain(ctx)
		if err != nil || z.secure == "" {
			return err
		}
		return (&Daemon{options: daemonOptions{addr: z.secure}}).listens(ctx)
	}
}

// StartZooKeeperEnsemble starts an ensemble, one server on each host of the network.
// config is added to all configuration files.
func StartZooKeeperEnsemble(t testing.TB, network *Network, n int, config ...string) []*ZooKeeperServer {
	t.Helper()
	Full(t, "starts a cluster")
	var servers []*ZooKeeperServer
	var daemons []*Daemon
	for i := range n {
		host := network.Host(i)
		dir, err := newDir()
		if err != nil {
			t.Fatal(err)
		}
		lines := []string{"clientPort=2181", "clientPortAddress=" + host.IP(), "initLimit=100", "syncLimit=25"}
		for j := range n {
			lines = append(lines, fmt.Sprintf("server.%d=%s:2888:3888", j+1, network.Host(j).PeerIP()))
		}
		if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "data", "myid"), fmt.Appendln(nil, i+1), 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := daemonOptions{kind: ZooKeeper, dir: dir, addr: host.IP() + ":2181", host: host}.zooKeeper(append(lines, config...), nil)
		if err != nil {
			unavailable(t, err)
		}
		d, err := launch(o)
		if err != nil {
			t.Fatal(err)
		}
		servers, daemons = append(servers, &ZooKeeperServer{Daemon: d}), append(daemons, d)
	}
	endWithTest(t, daemons...)
	for _, d := range daemons {
		if err := d.await(); err != nil {
			t.Fatal(err)
		}
	}
	recordServer(t, fmt.Sprintf("ZooKeeper %s, %d servers", servers[0].Version(), n))
	return servers
}

// Leads reports whether the server leads its ensemble or is standalone.
func (z *ZooKeeperServer) Leads(t testing.TB) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	text, err := fourLetterWord(ctx, z.Addr(), "srvr")
	return err == nil && !strings.Contains(text, "Mode: follower") && strings.Contains(text, "Mode: ")
}

// Asks returns the server's answer to a four-letter word.
func (z *ZooKeeperServer) Asks(t testing.TB, word string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	text, err := fourLetterWord(ctx, z.Addr(), word)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// zooKeeper adds what runs a server with these additional configuration lines and Java properties.
func (d daemonOptions) zooKeeper(lines, properties []string) (daemonOptions, error) {
	java, err := lookPath("java")
	if err != nil {
		return d, &missing{ZooKeeper, "Java", "Debian: default-jre-headless"}
	}
	const jars = "/usr/share/java/"
	jar := glob(jars+"zookeeper-3.*.jar", jars+"zookeeper.jar")
	if jar == "" {
		return d, &missing{ZooKeeper, "ZooKeeper", "Debian: zookeeper"}
	}
	d.version = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jar), "zookeeper-"), ".jar")
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
		"dataDir=" + filepath.Join(d.dir, "data"),
		"minSessionTimeout=200", "maxSessionTimeout=20000",
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
		"maxClientCnxns=0",
		"autopurge.purgeInterval=0",
		"reconfigEnabled=false",
	}, lines...)
	file := filepath.Join(d.dir, "zoo.cfg")
	if err := os.WriteFile(file, []byte(strings.Join(config, "\n")+"\n"), 0o600); err != nil {
		return d, err
	}
	command := []string{java, "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-Dzookeeper.forceSync=no", // data need not survive a crash of the machine
		"-Dzookeeper.skipACL=no",
		"-Djava.awt.headless=true",
	}
	d.command = append(append(command, properties...), "-cp", strings.Join(path, ":"),
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
	d.ready = func(ctx context.Context) error {
		text, err := fourLetterWord(ctx, d.addr, "srvr")
		if err == nil && !strings.Contains(text, "Mode: ") {
			err = fmt.Errorf("%.100q", text)
		}
		return err
	}
	return d, nil
}

// fourLetterWord sends a four-letter word and returns the answer.
func fourLetterWord(ctx context.Context, addr, word string) (string, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if at, ok := ctx.Deadline(); ok {
		c.SetDeadline(at)
	}
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(c)
	return string(text), err
}
