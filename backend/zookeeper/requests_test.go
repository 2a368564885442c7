package zookeeper

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/internal/testbed"
)

// A meter forwards connections to a server and counts the requests by kind.
type meter struct {
	addr string

	mu     sync.Mutex
	counts map[int32]int
}

// Kinds of requests.
const (
	getData = 4
	doSync  = 9
	doPing  = 11
	multi   = 14
)

func newMeter(t testing.TB, server string) *meter {
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
	t.Cleanup(func() { // after the Backends that are opened later are closed
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
		if !first { // after the connect request: xid and kind
			m.mu.Lock()
			m.counts[int32(binary.BigEndian.Uint32(frame[8:]))]++
			m.mu.Unlock()
		}
		if _, err := c.Write(frame); err != nil {
			return
		}
	}
}

// take returns the requests since the last call.
func (m *meter) take() map[int32]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := m.counts
	m.counts = map[int32]int{}
	return counts
}

// A leader of many elections makes one request for each renewal, and a follower of all of them about one.
// (A busy machine may cause more.)
func TestRequestsOfIdleManagers(t *testing.T) {
	for _, elections := range []int{1, 500} {
		t.Run(fmt.Sprint(elections), func(t *testing.T) {
			t.Parallel()
			const ttl = 9 * time.Second
			servers := testbed.SharedZooKeeper(t)
			root := newRoot(t, servers)
			leads, follows := newMeter(t, servers[0]), newMeter(t, servers[0])
			manage := func(addr string) []*election.Election {
				b, err := Open(Options{Servers: []string{addr}, Root: root})
				if err != nil {
					t.Fatal(err)
				}
				m, err := election.New(b, election.Options{TTL: ttl})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					ctx, cancel := context.WithTimeout(context.Background(), ttl)
					defer cancel()
					m.Close(ctx)
				})
				var all []*election.Election
				for i := range elections {
					e, err := m.Join(fmt.Sprint("jobs", i))
					if err == nil {
						err = e.Lead(func(ctx context.Context, _ *election.Leadership) error { <-ctx.Done(); return nil })
					}
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, e)
				}
				return all
			}
			eventually := func(what string, all []*election.Election, ok func(*election.Election) bool) {
				t.Helper()
				testbed.Eventually(t, patience, what, func() error {
					for _, e := range all {
						if !ok(e) {
							return errors.New(e.Name())
						}
					}
					return nil
				})
			}
			eventually("a leads all", manage(leads.addr), (*election.Election).Leading)
			eventually("b knows the leaders", manage(follows.addr), func(e *election.Election) bool {
				_, _, ok := e.Leader()
				return ok
			})
			testbed.Eventually(t, patience, "a while in which nothing else happens", func() error {
				leads.take()
				follows.take()
				began := time.Now()
				<-time.After(2 * ttl)
				a, b := leads.take(), follows.take()
				renewals := int(time.Since(began)/(ttl/3)) + 2
				t.Logf("in %v a leader has sent %v and a follower %v", time.Since(began), a, b)
				if a[multi] > renewals || a[getData]+a[doSync]+a[doPing] > 2 || len(a) > 3 {
					return fmt.Errorf("a leader: want at most %d renewals and nothing else, got %v (by kind)", renewals, a)
				}
				if b[multi] > 2 || b[getData] > 2*renewals || b[doSync] > renewals/2 || b[doPing] > 2 {
					return fmt.Errorf("a follower: want no writes, about %d readings and few syncs, got %v (by kind)", renewals, b)
				}
				return nil
			})
		})
	}
}
