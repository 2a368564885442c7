package testbed

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// Test processes that run at the same time each take one block of ports. Without that, a
// process could take a port that looks free because the server of another process is still
// starting there, or was killed and will come back.
const (
	firstPort = 15000
	block     = 1250
	blocks    = 14
)

// ports are those of this process. A killed server comes back on its port, so one is reused after all others.
var ports struct {
	sync.Mutex
	guard net.Listener // reserves the block: listens on its first port until this process ends
	first int
	left  []int // in a random order, counted from the second
}

// freePort returns a free loopback port.
//
// It is below the range from which the kernel takes the ports of clients. Otherwise
// the kernel could give a client that dials a dead server that very port; the client
// would then talk to itself, or keep the server from coming back.
func freePort() int {
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
		check(fmt.Errorf("no free block of ports: %w", err))
	}
	for range block {
		if len(ports.left) == 0 {
			ports.left = rand.Perm(block - 1)
		}
		port := ports.first + 1 + ports.left[0]
		ports.left = ports.left[1:]
		var l net.Listener
		if l, err = net.Listen("tcp4", loopback(port)); err == nil {
			l.Close()
			return port
		}
	}
	panic(failure{fmt.Errorf("no free port: %w", err)})
}

// FreeAddr returns a free loopback address, for a program that listens there.
func FreeAddr(t testing.TB) string {
	t.Helper()
	port, err := attempt(freePort)
	NoError(t, err)
	return loopback(port)
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
