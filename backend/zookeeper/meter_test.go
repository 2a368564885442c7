package zookeeper

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
)

// A meter forwards connections to a ZooKeeper server and counts the requests by kind.
type meter struct {
	addr string

	mu      sync.Mutex
	counts  map[int32]int
	watches int
}

// newMeter starts a meter, which ends after the clients that the test opens later.
func newMeter(t testing.TB, server string) *meter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &meter{addr: l.Addr().String(), counts: map[int32]int{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { m.pass(client, server) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return m
}

func (m *meter) pass(client net.Conn, server string) {
	defer client.Close()
	c, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer c.Close()
	go func() {
		io.Copy(client, c)
		client.Close()
	}()
	in := bufio.NewReader(client)
	for first := true; ; first = false {
		head, err := in.Peek(4)
		if err != nil {
			return
		}
		frame := make([]byte, 4+binary.BigEndian.Uint32(head))
		if _, err := io.ReadFull(in, frame); err != nil {
			return
		}
		if !first && len(frame) >= 12 { // after the connect request: xid and kind
			m.note(int32(binary.BigEndian.Uint32(frame[8:])), frame[len(frame)-1] == 1)
		}
		if _, err := c.Write(frame); err != nil {
			return
		}
	}
}

func (m *meter) note(kind int32, last bool) {
	const exists, getData, getChildren = 3, 4, 12 // they end with whether to leave a watch
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts[kind]++; last && (kind == exists || kind == getData || kind == getChildren) {
		m.watches++
	}
}

// take returns the requests since the last call, and how many of them have left a watch.
func (m *meter) take() (counts map[int32]int, watches int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts, watches = m.counts, m.watches
	m.counts, m.watches = map[int32]int{}, 0
	return counts, watches
}
