package testbed

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Processes that test at the same time share the ports among them, block by block: one that
// another has chosen, and whose server is still starting, or was killed and is to come
// back, looks free.
const (
	firstPort = 15000
	block     = 2500
	blocks    = 6
)

// ports that were handed out. A server that was killed comes back on its port, so none is
// handed out again before most of the block was.
var ports struct {
	sync.Mutex
	guard net.Listener // on the first port of this process's block, until it ends
	first int
	taken map[int]bool
}

// freePort returns a loopback port that nobody listens on.
//
// It is below the range from which the kernel takes the ports of clients.
// Otherwise a client that dials a dead server could be given that very port,
// and then either talk to itself or keep the server from coming back.
func freePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	var err error
	for _, n := range rand.Perm(blocks) {
		if ports.guard != nil {
			break
		}
		ports.first = firstPort + n*block
		ports.guard, err = net.Listen("tcp4", loopback(ports.first))
	}
	if err != nil {
		return 0, fmt.Errorf("no free block of ports: %w", err)
	}
	if ports.taken == nil || len(ports.taken) > block*3/4 {
		ports.taken = make(map[int]bool)
	}
	for range 100 {
		port := ports.first + 1 + rand.IntN(block-1)
		if ports.taken[port] {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp4", loopback(port)); err == nil {
			l.Close()
			ports.taken[port] = true
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port: %w", err)
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
