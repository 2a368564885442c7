package testbed

import (
	"net"
	"testing"
)

// Ports differ, and come from the block that this process has reserved.
func TestPortsComeFromTheReservedBlock(t *testing.T) {
	seen := map[int]bool{}
	for range 100 {
		port := freePort()
		if seen[port] || port <= ports.first || port >= ports.first+block {
			t.Fatalf("port %d after %v, in the block that begins at %d", port, seen, ports.first)
		}
		seen[port] = true
	}
	if l, err := net.Listen("tcp4", loopback(ports.first)); err == nil {
		l.Close()
		t.Errorf("port %d is free, so another process could take this block", ports.first)
	}
}
