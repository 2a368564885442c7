package testbed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// A Network is a private network for the nodes of a cluster. Each node lives in a
// network namespace with two links: one to a switch that all nodes share, for
// traffic between nodes, and one to the test, for clients. So a node can be cut off
// from the others while its clients still reach it.
//
// The namespaces have no names. The kernel removes them and their links when the
// processes in them end.
type Network struct {
	number int
	keeper *process // holds the switch's namespace
	hosts  []*Host
}

// A Host is the namespace of one node in a [Network].
type Host struct {
	network *Network
	number  int
	keeper  *process // holds the namespace while its server is down
}

// Addresses come from the range that RFC 2544 reserves for testing networks.
var networks struct {
	count atomic.Int32
	sync.Mutex
}

// NewNetwork makes a network of n hosts that lasts until the test ends. It needs
// root, iproute2 and nsenter. Without them it skips the test, or fails it in CI.
func NewNetwork(t testing.TB, n int) *Network {
	t.Helper()
	Full(t, "starts a cluster")
	for _, program := range []string{"ip", "nsenter"} {
		if _, err := lookPath(program); err != nil {
			Unavailable(t, program, "Debian: iproute2, util-linux")
		}
	}
	if os.Getuid() != 0 {
		Unavailable(t, "the privilege to create network namespaces", "as root")
	}
	net, err := newNetwork(n)
	for try := 0; try < 20 && err != nil && strings.Contains(err.Error(), "File exists"); try++ {
		net, err = newNetwork(n) // another test binary has a network of this number
	}
	switch {
	case err == nil:
	case errors.Is(err, syscall.EPERM), strings.Contains(err.Error(), "not permitted"):
		// Root in a container may lack the privilege. No package helps, so the test
		// is skipped even in CI, with a loud message.
		t.Attr("missing", "network namespaces")
		t.Skipf("testbed: NETWORK NAMESPACES ARE MISSING: root may not create them here: %v", err)
	default:
		t.Fatalf("testbed: make a network: %v", err)
	}
	t.Cleanup(net.remove)
	return net
}

func newNetwork(n int) (*Network, error) {
	networks.Lock()
	defer networks.Unlock()
	net := &Network{number: 1 + int((int(networks.count.Add(1))+os.Getpid()*8)%250)}
	var err error
	if net.keeper, err = keepNamespace(); err != nil {
		return nil, err
	}
	err = errors.Join(net.ip("link add name switch type bridge"), net.ip("link set dev switch up"))
	for i := 1; i <= n && err == nil; i++ {
		err = net.add(i)
	}
	if err != nil {
		net.remove()
		return nil, err
	}
	return net, nil
}

// keepNamespace starts a process that only sleeps, in a new network namespace.
func keepNamespace() (*process, error) {
	dir, err := scratch()
	if err != nil {
		return nil, err
	}
	p, err := spawnIn(syscall.CLONE_NEWNET, []string{"sleep", "infinity"}, nil, filepath.Join(dir, "keepers"))
	if err != nil {
		return nil, fmt.Errorf("a network namespace: %w", err)
	}
	return p, nil
}

func (n *Network) add(number int) error {
	keeper, err := keepNamespace()
	if err != nil {
		return err
	}
	h := &Host{network: n, number: number, keeper: keeper}
	n.hosts = append(n.hosts, h)
	outer := fmt.Sprintf("ge%dn%d", n.number, number)
	return errors.Join(
		run("ip", "link", "add", "name", h.port(), "netns", strconv.Itoa(n.keeper.pid()), "type", "veth", "peer", "name", "peers", "netns", strconv.Itoa(keeper.pid())),
		n.ip("link set dev "+h.port()+" master switch up"),
		h.ip("link set dev lo up"),
		h.ip("addr add "+h.PeerIP()+"/24 dev peers"),
		h.ip("link set dev peers up"),
		run("ip", "link", "add", "name", outer, "type", "veth", "peer", "name", "clients", "netns", strconv.Itoa(keeper.pid())),
		run("ip", "addr", "add", fmt.Sprintf("198.19.%d.%d/30", n.number, 4*number+1), "dev", outer),
		run("ip", "link", "set", "dev", outer, "up"),
		h.ip("addr add "+h.IP()+"/30 dev clients"),
		h.ip("link set dev clients up"),
	)
}

// Host returns host i, counted from 0.
func (n *Network) Host(i int) *Host { return n.hosts[i] }

// IP is the host's address for the test and its clients.
func (h *Host) IP() string { return fmt.Sprintf("198.19.%d.%d", h.network.number, 4*h.number+2) }

// PeerIP is the host's address for the other hosts.
func (h *Host) PeerIP() string { return fmt.Sprintf("198.18.%d.%d", h.network.number, h.number) }

// Cut cuts the host off from the other hosts, or connects it again. Packets between
// them are dropped without an answer. Clients still reach the host.
func (h *Host) Cut(t testing.TB, on bool) {
	t.Helper()
	noError(t, h.cut(on))
}

func (h *Host) cut(on bool) error {
	if on {
		return h.network.ip("link set dev " + h.port() + " nomaster") // like pulling its cable at the switch
	}
	return h.network.ip("link set dev " + h.port() + " master switch")
}

// port is the name of the switch's end of the host's link.
func (h *Host) port() string { return "host" + strconv.Itoa(h.number) }

// command returns a command that runs the given one on this host. nsenter executes
// the program in its own process.
func (h *Host) command(command []string) []string {
	return append([]string{"nsenter", "--net=/proc/" + strconv.Itoa(h.keeper.pid()) + "/ns/net", "--"}, command...)
}

func (h *Host) ip(args string) error {
	return run(h.command(append([]string{"ip"}, strings.Fields(args)...))...)
}

func (n *Network) ip(args string) error {
	inside := Host{keeper: n.keeper}
	return inside.ip(args)
}

func (n *Network) remove() {
	for _, h := range n.hosts {
		h.keeper.kill()
	}
	n.keeper.kill()
}

func run(command ...string) error {
	path, err := lookPath(command[0])
	if err != nil {
		return err
	}
	if out, err := exec.Command(path, command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, out)
	}
	return nil
}
