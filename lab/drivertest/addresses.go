package drivertest

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// Store.test is a name with two addresses in the world that [InWorldOfTwoAddresses] makes. The first one, DeadAddress,
// drops all packets without an answer.
const (
	twoAddresses = "store.test"
	DeadAddress  = "198.18.9.9"
	liveAddress  = "198.18.9.1"
)

// worldScript makes the world: a cable to a neighbour that is not there, and the name.
const worldScript = `set -e
ip link set lo up
ip link add dead type veth peer name gone
ip addr add ` + liveAddress + `/24 dev dead
ip link set dead up
ip link set gone up
ip neigh add ` + DeadAddress + ` lladdr 02:00:00:00:00:01 dev dead
mount --bind "$1" /etc/hosts
shift
exec "$@"`

// InWorldOfTwoAddresses runs the test again, in namespaces where twoAddresses is a name, and returns true there. The
// test returns at once where it returns false. It needs root, iproute2 and unshare.
func InWorldOfTwoAddresses(t *testing.T) bool {
	t.Helper()
	const inside = "ELECTION_TEST_TWO_ADDRESSES"
	if os.Getenv(inside) != "" {
		return true
	}
	testbed.Full(t, "makes namespaces")
	if os.Getuid() != 0 {
		testbed.Unavailable(t, "the privilege to create network namespaces", "as root")
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost\n"+DeadAddress+" "+twoAddresses+"\n"+liveAddress+" "+twoAddresses+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "unshare", "--mount", "--net", "--kill-child", "sh", "-c", worldScript, "sh", hosts,
		os.Args[0], "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v", "-test.timeout=15m")
	command.Env = append(os.Environ(), inside+"=1")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	t.Logf("%s", out)
	return false
}

// AtTwoAddresses returns the address of a server of this host under that name. It forwards connections to the server.
func AtTwoAddresses(t testing.TB, server string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(server)
	if err != nil {
		t.Fatal(err)
	}
	Forward(t, net.JoinHostPort(liveAddress, port), server, 0)
	return net.JoinHostPort(twoAddresses, port)
}

// Forward leads connections to an address on to a server, each after some time, and returns the address.
func Forward(t testing.TB, addr, server string, after time.Duration) string {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	lead := func(from net.Conn) {
		defer from.Close()
		<-time.After(after)
		to, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer to.Close()
		go func() { io.Copy(to, from); to.(*net.TCPConn).CloseWrite() }()
		io.Copy(from, to)
	}
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go lead(from)
		}
	}()
	return l.Addr().String()
}
