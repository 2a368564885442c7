package testbed

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// A Proxy forwards TCP connections to a target and injects network faults.
// All its methods may be called at any time from any goroutine.
//
// It does to a stream only what a network can do: bytes may arrive late or never,
// but after lost bytes no others arrive.
type Proxy struct {
	listener net.Listener
	dials    context.Context // ends with the proxy
	end      context.CancelFunc
	wg       sync.WaitGroup

	mu       sync.Mutex
	changed  *sync.Cond // one of the following has
	target   string
	links    map[*link]bool
	accepted int     // connections so far
	drop     [2]bool // lose data, by direction
	hold     [2]bool // hold data back, by direction
	delay    time.Duration
	login    time.Duration // for which a connection waits before it is led on
	traps    []*Trap
}

type direction int

const (
	requests direction = iota // from the client to the server
	replies
)

// A link is a connection from a client and the matching one to the server. The proxy's lock guards it.
type link struct {
	client *net.TCPConn
	server *net.TCPConn // nil until dialled
	closed bool
	broken [2]bool // data was lost, so no more may follow; by direction
}

// NewProxy starts a proxy on a loopback port and closes it after the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	return NewProxyAt(t, FreeAddr(t), target)
}

// NewProxyAt is NewProxy at some address.
func NewProxyAt(t testing.TB, addr, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp4", addr)
	NoError(t, err)
	p := &Proxy{listener: listener, target: target, links: make(map[*link]bool)}
	p.changed = sync.NewCond(&p.mu)
	p.dials, p.end = context.WithCancel(context.Background())
	p.wg.Go(func() {
		for {
			c, err := p.listener.Accept()
			if err != nil {
				return // closed
			}
			p.add(&link{client: c.(*net.TCPConn)})
		}
	})
	t.Cleanup(p.Close)
	return p
}

// Proxy starts a proxy in front of the server and closes it after the test.
func (d *Daemon) Proxy(t testing.TB) *Proxy {
	t.Helper()
	return NewProxy(t, d.addr)
}

// Addr returns where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Config returns a copy of c that connects through the proxy.
func (p *Proxy) Config(c *mysql.Config) *mysql.Config {
	c = c.Clone()
	c.Net, c.Addr = "tcp", p.Addr()
	return c
}

// Accepted returns how many connections there were so far.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Open returns how many connections there are.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// change changes the proxy's state and wakes the goroutines that wait for a change.
func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.changed.Broadcast()
}

// SetTarget sends new connections to another address, like a DNS name or a virtual address after a failover.
// Open connections stay with the old target. Where nobody listens at the address, new connections are reset.
func (p *Proxy) SetTarget(addr string) { p.change(func() { p.target = addr }) }

// Cut cuts the network: it silently drops what either side sends, including that
// a side has closed the connection. Connections stay open and new ones hang. When
// the cut is healed, connections that lost data stay silent and the others resume.
func (p *Proxy) Cut(on bool) { p.change(func() { p.drop = [2]bool{on, on} }) }

// CutReplies cuts one direction: requests arrive and are executed, but replies are lost.
func (p *Proxy) CutReplies(on bool) { p.change(func() { p.drop = [2]bool{replies: on} }) }

// CutRequests cuts the other direction: what the server sends arrives, but requests do not.
func (p *Proxy) CutRequests(on bool) { p.change(func() { p.drop = [2]bool{requests: on} }) }

// Hold holds back what either side sends, and new connections. All of it arrives,
// late and in order, after Hold(false): like a cut short enough for TCP to retransmit.
func (p *Proxy) Hold(on bool) { p.change(func() { p.hold = [2]bool{on, on} }) }

// Delay delays every piece of a request and of a reply by d.
func (p *Proxy) Delay(d time.Duration) { p.change(func() { p.delay = d }) }

// DelayLogins makes each new connection wait for d, like a server that is slow to let it in.
func (p *Proxy) DelayLogins(d time.Duration) { p.change(func() { p.login = d }) }

// Break makes the open connections silent, as a firewall does that has forgotten them.
func (p *Proxy) Break() {
	p.change(func() {
		for l := range p.links {
			l.broken = [2]bool{true, true}
		}
	})
}

// Reset resets all open connections on both sides.
func (p *Proxy) Reset() {
	p.change(func() {
		for l := range p.links {
			l.reset()
		}
	})
}

// Close resets all connections, stops listening and waits until all goroutines have ended.
func (p *Proxy) Close() {
	p.end()
	p.listener.Close()
	p.Reset()
	p.wg.Wait()
}

// add starts serving a client.
func (p *Proxy) add(l *link) {
	p.change(func() {
		if p.dials.Err() != nil {
			l.reset()
			return
		}
		p.accepted++
		p.links[l] = true
		p.wg.Go(func() {
			p.serve(l)
			p.change(func() {
				l.close()
				delete(p.links, l)
			})
		})
	})
}

// serve connects a client to the target and returns when both sides have closed.
func (p *Proxy) serve(l *link) {
	if !p.pass(l, requests, nil) {
		return
	}
	p.mu.Lock()
	target, login := p.target, p.login
	p.mu.Unlock()
	select {
	case <-time.After(login):
	case <-p.dials.Done():
	}
	var d net.Dialer
	c, err := d.DialContext(p.dials, "tcp", target)
	if err != nil {
		p.reset(l) // closest to "connection refused"
		return
	}
	p.change(func() {
		l.server = c.(*net.TCPConn)
		if l.closed {
			l.reset() // Reset was called during the dial
		}
	})

	var both sync.WaitGroup
	both.Go(func() { p.pump(l, requests, l.server, l.client) })
	both.Go(func() { p.pump(l, replies, l.client, l.server) })
	both.Wait()
}

// pump forwards what one side of a link sends, until that side closes.
func (p *Proxy) pump(l *link, dir direction, to, from *net.TCPConn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && p.pass(l, dir, buf[:n]) {
			if _, err := to.Write(buf[:n]); err != nil {
				p.reset(l) // the other side has closed
				return
			}
		}
		if err == nil {
			continue
		}
		if p.pass(l, dir, nil) && errors.Is(err, io.EOF) {
			to.CloseWrite()
		} else {
			p.reset(l)
		}
		return
	}
}

// pass waits until a piece may be forwarded, and reports false if it is lost or the link is closed. A piece
// without bytes is the beginning or the end of a stream: it is never lost, but waits until a cut is over.
func (p *Proxy) pass(l *link, dir direction, piece []byte) bool {
	due := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	due = due.Add(p.delay)
	if p.delay > 0 {
		defer time.AfterFunc(p.delay, func() { p.change(func() {}) }).Stop()
	}

	for trap := p.catch(l, dir, piece); !l.closed; p.changed.Wait() {
		switch {
		case trap != nil && trap.fate == HoldRequest && !trap.released:
		case len(piece) > 0 && (l.broken[dir] || p.drop[dir]):
			l.broken[dir] = true
			return false
		case !p.drop[dir] && !p.hold[dir] && !time.Now().Before(due):
			return true
		}
	}
	return false
}

func (p *Proxy) reset(l *link) { p.change(l.reset) }

// reset breaks the link.
func (l *link) reset() {
	for _, c := range []*net.TCPConn{l.client, l.server} {
		if c != nil {
			c.SetLinger(0) // makes Close send a reset
		}
	}
	l.close()
}

func (l *link) close() {
	l.closed = true
	l.client.Close()
	if l.server != nil {
		l.server.Close()
	}
}
