package testbed

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	ca     *authority
}

// Secure returns the address of the secure port.
func (z *ZooKeeperServer) Secure() string { return z.secure }

// TLSConfig makes a client trust the secure port.
func (z *ZooKeeperServer) TLSConfig() *tls.Config { return z.ca.clientConfig() }

// CAFile is the file with the authority's certificate.
func (z *ZooKeeperServer) CAFile() string { return filepath.Join(z.ca.dir, "ca.pem") }

// StartZooKeeper starts a server for this test and stops it after the test.
// If ZooKeeper is not installed, the test is skipped or fails.
func StartZooKeeper(t testing.TB, o ZooKeeperOptions) *ZooKeeperServer {
	t.Helper()
	Full(t, "starts its own server")
	z, err := startZooKeeper(o)
	if err != nil {
		unavailable(t, err)
	}
	recordServer(t, "ZooKeeper "+z.Version())
	endWithTest(t, z.Daemon)
	return z
}

var sharedZooKeeper = sync.OnceValues(func() (*ZooKeeperServer, error) {
	z, err := startZooKeeper(ZooKeeperOptions{})
	if err == nil {
		z.shared = true
	}
	return z, err
})

// SharedZooKeeper returns the address of the server that all tests of the binary
// share, or the addresses in ELECTION_TEST_ZOOKEEPER_SERVERS, separated by commas.
// Tests must not inject faults into them. Each takes its own paths.
func SharedZooKeeper(t testing.TB) []string {
	t.Helper()
	contract(t)
	if servers := os.Getenv(ZooKeeper.variable()); servers != "" {
		recordServer(t, "ZooKeeper (already running)")
		return strings.Split(servers, ",")
	}
	z, err := sharedZooKeeper()
	if err != nil {
		unavailable(t, err)
	}
	recordServer(t, "ZooKeeper "+z.Version())
	return []string{z.Addr()}
}

func startZooKeeper(o ZooKeeperOptions) (*ZooKeeperServer, error) {
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		dir, err := newDir()
		if err != nil {
			return nil, err
		}
		z := &ZooKeeperServer{}
		lines := append([]string{fmt.Sprintf("clientPort=%d", port), "clientPortAddress=127.0.0.1"}, o.Config...)
		properties := slices.Clip(o.Properties)
		if o.TLS {
			secure, err := freePort()
			if err != nil {
				return nil, err
			}
			if z.ca, err = newAuthority(dir); err != nil {
				return nil, err
			}
			// The server wants key and certificate in one PEM file.
			key, err := os.ReadFile(filepath.Join(dir, "server-key.pem"))
			if err != nil {
				return nil, err
			}
			cert, err := os.ReadFile(filepath.Join(dir, "server-cert.pem"))
			if err != nil {
				return nil, err
			}
			store := filepath.Join(dir, "server.pem")
			if err := os.WriteFile(store, append(key, cert...), 0o600); err != nil {
				return nil, err
			}
			z.secure = loopback(secure)
			lines = append(lines,
				fmt.Sprintf("secureClientPort=%d", secure), "secureClientPortAddress=127.0.0.1",
				"ssl.keyStore.location="+store, "ssl.keyStore.type=PEM",
				"ssl.trustStore.location="+filepath.Join(dir, "ca.pem"), "ssl.trustStore.type=PEM",
				"ssl.clientAuth=none", "ssl.hostnameVerification=false")
			properties = append(properties, "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory")
		}
		clock, env := "", []string(nil)
		if o.Clock {
			if clock, env, err = newClock(ZooKeeper, dir); err != nil {
				return nil, err
			}
		}
		z.Daemon, err = launchZooKeeper(dir, loopback(port), nil, lines, properties, env)
		if err != nil {
			os.RemoveAll(dir)
			return nil, err
		}
		z.clock = clock
		if err = z.awaitPorts(); err == nil {
			return z, nil
		}
		busy := strings.Contains(z.LogTail(), "ddress already in use")
		z.remove()
		if !busy || try == 5 {
			return nil, err
		}
	}
}

// awaitPorts waits until the server answers. If it has a secure port, this and each later start waits for that one,
// too: the server opens it after the plain one.
func (z *ZooKeeperServer) awaitPorts() error {
	if z.secure == "" {
		return z.await()
	}
	plain := z.options.ready
	z.options.ready = func(ctx context.Context) error {
		if err := plain(ctx); err != nil {
			return err
		}
		c, err := new(net.Dialer).DialContext(ctx, "tcp", z.secure)
		if err != nil {
			return err
		}
		return c.Close()
	}
	return z.await()
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
		d, err := launchZooKeeper(dir, host.IP()+":2181", host, append(lines, config...), nil, nil)
		if err != nil {
			unavailable(t, err)
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

// launchZooKeeper starts a server with these additional configuration lines, Java
// properties and environment variables.
func launchZooKeeper(dir, addr string, host *Host, lines, properties, env []string) (*Daemon, error) {
	java, err := lookPath("java")
	if err != nil {
		return nil, &missing{ZooKeeper, "Java", "Debian: default-jre-headless"}
	}
	const jars = "/usr/share/java/"
	jar := glob(jars+"zookeeper-3.*.jar", jars+"zookeeper.jar")
	if jar == "" {
		return nil, &missing{ZooKeeper, "ZooKeeper", "Debian: zookeeper"}
	}
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jar), "zookeeper-"), ".jar")
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
		"dataDir=" + filepath.Join(dir, "data"),
		"minSessionTimeout=200", "maxSessionTimeout=20000",
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
		"maxClientCnxns=0",
		"autopurge.purgeInterval=0",
		"reconfigEnabled=false",
	}, lines...)
	file := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(file, []byte(strings.Join(config, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	command := []string{java, "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-Dzookeeper.forceSync=no", // data need not survive a crash of the machine
		"-Dzookeeper.skipACL=no",
		"-Djava.awt.headless=true",
	}
	command = append(append(command, properties...), "-cp", strings.Join(path, ":"),
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
	return launch(daemonOptions{
		kind: ZooKeeper, version: version, addr: addr, command: command, env: env, host: host, dir: dir,
		ready: func(ctx context.Context) error {
			text, err := fourLetterWord(ctx, addr, "srvr")
			if err == nil && !strings.Contains(text, "Mode: ") {
				err = fmt.Errorf("%.100q", text)
			}
			return err
		},
	})
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
