package testbed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// A Host is where one node of a cluster lives: a network namespace with two links, one to a switch that all
// hosts of the cluster share, for traffic between nodes, and one to the test, for clients. So a node can be
// cut off from the others while its clients still reach it.
//
// The namespaces have no names. When their processes end, the kernel removes them and their links.
type Host struct {
	namespace
	network int       // its number
	hub     namespace // of the switch
	number  int       // in the network, from 1
}

// A namespace is one for networks. Its keeper holds it while no server is in it; nil: this process's own.
type namespace struct{ keeper *process }

// networks counts those of this process. Addresses come from the range that RFC 2544 reserves for tests.
var networks atomic.Int32

// newHosts makes a network of n hosts that lasts until the test ends. It needs
// root, iproute2 and nsenter. Without them it skips the test, or fails it in CI.
func newHosts(t testing.TB, n int) []*Host {
	t.Helper()
	Full(t, "starts a cluster")
	try := func() ([]*Host, error) { return attempt(func() []*Host { return newNetwork(t, n) }) }
	hosts, err := try()
	for n := 0; n < 20 && err != nil && strings.Contains(err.Error(), "File exists"); n++ {
		hosts, err = try() // another test binary has a network of this number
	}
	if err != nil && (errors.Is(err, syscall.EPERM) || strings.Contains(err.Error(), "not permitted")) {
		// Root in a container may lack the privilege. No package helps, so the test
		// is skipped even in CI, with a loud message.
		t.Attr("missing", "network namespaces")
		t.Skipf("testbed: NETWORK NAMESPACES ARE MISSING: they may not be created here: %v", err)
	}
	if err != nil {
		unavailable(t, err)
	}
	return hosts
}

func newNetwork(t testing.TB, n int) (hosts []*Host) {
	number, hub := 1+(int(networks.Add(1))+os.Getpid()*8)%250, newNamespace(t)
	check(hub.ip("link add name switch type bridge", "link set dev switch up"))
	for i := range n {
		h := &Host{newNamespace(t), number, hub, i + 1}
		h.connect()
		hosts = append(hosts, h)
	}
	return hosts
}

// newNamespace starts a process that only sleeps, in a new namespace, until the test ends.
func newNamespace(t testing.TB) namespace {
	attr := syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	keeper, err := spawn(attr, []string{"sleep", "infinity"}, nil, os.DevNull)
	if err != nil {
		check(fmt.Errorf("a network namespace: %w", err))
	}
	t.Cleanup(keeper.kill)
	return namespace{keeper}
}

// connect makes the links of a host.
func (h *Host) connect() {
	here, outer := namespace{}, fmt.Sprintf("ge%dn%d", h.network, h.number)
	link := "link add name %s netns %d type veth peer name %s netns %d"
	check(here.ip(
		fmt.Sprintf(link, h.port(), h.hub.keeper.pid(), "peers", h.keeper.pid()),
		fmt.Sprintf(link, outer, os.Getpid(), "clients", h.keeper.pid()),
		fmt.Sprintf("addr add 198.19.%d.%d/30 dev %s", h.network, 4*h.number+1, outer),
		"link set dev "+outer+" up"))
	check(h.hub.ip("link set dev " + h.port() + " master switch up"))
	check(h.ip("link set dev lo up",
		"addr add "+h.PeerIP()+"/24 dev peers", "link set dev peers up",
		"addr add "+h.IP()+"/30 dev clients", "link set dev clients up"))
}

// IP is the host's address for the test and its clients.
func (h *Host) IP() string { return fmt.Sprintf("198.19.%d.%d", h.network, 4*h.number+2) }

// PeerIP is the host's address for the other hosts.
func (h *Host) PeerIP() string { return fmt.Sprintf("198.18.%d.%d", h.network, h.number) }

// Cut cuts the host off from the other hosts, or connects it again. Packets between
// them are dropped without an answer. Clients still reach the host.
func (h *Host) Cut(t testing.TB, on bool) {
	t.Helper()
	to := " master switch"
	if on {
		to = " nomaster" // like pulling its cable at the switch
	}
	NoError(t, h.hub.ip("link set dev "+h.port()+to))
}

// port is the name of the switch's end of the host's link.
func (h *Host) port() string { return fmt.Sprint("host", h.number) }

// command returns a command that runs the given one in this namespace. nsenter executes
// the program in its own process.
func (n namespace) command(command []string) []string {
	if n.keeper == nil {
		return command
	}
	nsenter := installed("", "nsenter", "nsenter", "Debian: util-linux")
	return append([]string{nsenter, fmt.Sprintf("--net=/proc/%d/ns/net", n.keeper.pid()), "--"}, command...)
}

// ip gives the program ip some lines.
func (n namespace) ip(lines ...string) error {
	command := n.command([]string{installed("", "ip", "ip", "Debian: iproute2"), "-batch", "-"})
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %q: %w: %s", lines, err, out)
	}
	return nil
}
