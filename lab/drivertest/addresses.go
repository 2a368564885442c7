package drivertest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

// Store.test is a name with several addresses in the world that [InWorldOfManyAddresses] makes. The first
// ones, as DeadAddress, drop all packets without an answer. The last but one accepts connections and hangs.
const (
	manyAddresses = "store.test"
	DeadAddress   = "198.18.9.9"
	hungAddress   = "198.18.9.2"
	liveAddress   = "198.18.9.1"
)

// worldScript makes the world: a cable to a neighbour that is not there, and the name.
const worldScript = `set -e
ip link set lo up
ip link add dead type veth peer name gone
ip addr add ` + liveAddress + `/24 dev dead
ip addr add ` + hungAddress + `/24 dev dead
ip link set dead up
ip link set gone up
for a in $DEAD; do ip neigh add $a lladdr 02:00:00:00:00:01 dev dead; done
mount --bind "$1" /etc/hosts
shift
exec "$@"`

// InWorldOfManyAddresses runs the test again, in namespaces where manyAddresses is a name, and returns true
// there. The test returns at once where it returns false. It needs root, iproute2 and unshare.
func InWorldOfManyAddresses(t *testing.T) bool {
	t.Helper()
	const inside = "ELECTION_TEST_MANY_ADDRESSES"
	if os.Getenv(inside) != "" {
		return true
	}
	testbed.Full(t, "makes namespaces")
	if os.Getuid() != 0 {
		testbed.Unavailable(t, "the privilege to create network namespaces", "as root")
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	dead, text := []string{DeadAddress, "198.18.9.8", "198.18.9.7"}, "127.0.0.1 localhost\n"
	for _, a := range append(dead, hungAddress, liveAddress) {
		text += a + " " + manyAddresses + "\n"
	}
	testbed.NoError(t, os.WriteFile(hosts, []byte(text), 0o644))
	this := "-test.run=^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	command := exec.CommandContext(t.Context(), "unshare", "--mount", "--net", "--kill-child",
		"sh", "-c", worldScript, "sh", hosts, os.Args[0], this, "-test.v", "-test.timeout=15m")
	command.Env = append(os.Environ(), inside+"=1", "DEAD="+strings.Join(dead, " "))
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	t.Logf("%s", out)
	return false
}

// AtManyAddresses returns the address of a server of this host under that name. It forwards connections to
// the server.
func AtManyAddresses(t testing.TB, server string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(server)
	testbed.NoError(t, err)
	hung, err := net.Listen("tcp", net.JoinHostPort(hungAddress, port))
	testbed.NoError(t, err)
	t.Cleanup(func() { hung.Close() })
	testbed.NewProxyAt(t, net.JoinHostPort(liveAddress, port), server)
	return net.JoinHostPort(manyAddresses, port)
}
