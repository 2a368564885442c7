package testbed

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// ports that were handed out. A server that was killed comes back on its port,
// so a port is never handed out twice.
var ports struct {
	sync.Mutex
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
	if ports.taken == nil {
		ports.taken = make(map[int]bool)
	}
	var err error
	for range 100 {
		port := 15000 + rand.IntN(15000)
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
