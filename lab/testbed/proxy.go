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
	addr   string
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	listener net.Listener

	mu       sync.Mutex
	target   string
	links    map[*link]bool
	accepted int     // connections so far
	drop     [2]bool // lose data, by direction
	hold     [2]bool // hold data back, by direction
	delay    time.Duration
	traps    []*Trap
	changed  chan struct{} // closed and replaced whenever one of the above changes
}

type direction int

const (
	requests direction = iota // from the client to the server
	replies
)

// A link is a connection from a client and the matching one to the server.
type link struct {
	ctx    context.Context
	cancel context.CancelFunc
	client *net.TCPConn
	server *net.TCPConn // nil until dialled
	broken [2]bool      // data was lost, so no more may follow; by direction
}

// NewProxy starts a proxy on a loopback port and closes it after the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{
		target:  target,
		links:   make(map[*link]bool),
		changed: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	var err error
	for range 5 {
		p.addr = loopback(freePort())
		if p.listener, err = net.Listen("tcp4", p.addr); err == nil {
			break // otherwise another program was faster
		}
	}
	noError(t, err)
	p.wg.Go(func() {
		for {
			c, err := p.listener.Accept()
			if err != nil {
				return // closed
			}
			p.add(c.(*net.TCPConn))
		}
	})
	t.Cleanup(p.Close)
	return p
}

// Proxy starts a proxy in front of the server and closes it after the test.
func (d *Daemon) Proxy(t testing.TB) *Proxy {
	t.Helper()
	return NewProxy(t, d.options.addr)
}

// Addr returns where the proxy listens.
func (p *Proxy) Addr() string { return p.addr }

// Config returns a copy of c that connects through the proxy.
func (p *Proxy) Config(c *mysql.Config) *mysql.Config {
	c = c.Clone()
	c.Net, c.Addr = "tcp", p.addr
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
	close(p.changed)
	p.changed = make(chan struct{})
}

// SetTarget sends new connections to another address, like a DNS name or a
// virtual address after a failover. Open connections stay with the old target. Where nobody
// listens at the address, new connections are reset.
func (p *Proxy) SetTarget(addr string) { p.change(func() { p.target = addr }) }

// Cut cuts the network: it silently drops what either side sends, including that
// a side has closed the connection. Connections stay open and new ones hang. When
// the cut is healed, connections that lost data stay silent and the others resume.
func (p *Proxy) Cut(on bool) { p.change(func() { p.drop = [2]bool{on, on} }) }

// CutReplies cuts one direction: requests arrive and are executed, but replies are
// lost.
func (p *Proxy) CutReplies(on bool) { p.change(func() { p.drop = [2]bool{replies: on} }) }

// CutRequests cuts the other direction: no data from clients arrives, but data that
// the server sends does.
func (p *Proxy) CutRequests(on bool) { p.change(func() { p.drop = [2]bool{requests: on} }) }

// Hold holds back what either side sends, and new connections. All of it arrives,
// late and in order, after Hold(false): like a cut short enough for TCP to retransmit.
func (p *Proxy) Hold(on bool) { p.change(func() { p.hold = [2]bool{on, on} }) }

// Delay delays every piece of a request and of a reply by d.
func (p *Proxy) Delay(d time.Duration) { p.change(func() { p.delay = d }) }

// Reset resets all open connections on both sides.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
}

// Close closes all connections and waits until all goroutines have ended.
func (p *Proxy) Close() {
	p.cancel()
	p.listener.Close()
	p.Reset()
	p.wg.Wait()
}

// add starts serving a client.
func (p *Proxy) add(client *net.TCPConn) {
	l := &link{client: client}
	l.ctx, l.cancel = context.WithCancel(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		client.Close()
		return
	}
	p.accepted++
	p.links[l] = true
	p.wg.Go(func() {
		p.serve(l)
		p.mu.Lock()
		defer p.mu.Unlock()
		l.cancel()
		client.Close()
		if l.server != nil {
			l.server.Close()
		}
		delete(p.links, l)
	})
}

// serve connects a client to the target and returns when both sides have closed.
func (p *Proxy) serve(l *link) {
	if !p.waitOpen(l, requests) {
		return
	}
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	var d net.Dialer
	c, err := d.DialContext(l.ctx, "tcp", target)
	p.mu.Lock()
	if err != nil {
		l.reset() // closest to "connection refused"
		p.mu.Unlock()
		return
	}
	l.server = c.(*net.TCPConn)
	if l.ctx.Err() != nil {
		l.reset() // Reset was called during the dial
	}
	p.mu.Unlock()

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
				// The other side has closed: reset this one too.
				p.mu.Lock()
				l.reset()
				p.mu.Unlock()
				return
			}
		}
		if err != nil {
			if !p.waitOpen(l, dir) {
				return
			}
			if errors.Is(err, io.EOF) {
				to.CloseWrite()
				return
			}
			p.mu.Lock()
			l.reset()
			p.mu.Unlock()
			return
		}
	}
}

// pass waits until a piece may be forwarded, and reports false if it is lost.
func (p *Proxy) pass(l *link, dir direction, piece []byte) bool {
	due := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	due = due.Add(p.delay)
	if trap := p.catch(dir, piece); trap != nil {
		switch trap.fate {
		case LoseRequest:
			l.broken = [2]bool{true, true}
		case LoseReply:
			l.broken[replies] = true
		case HoldRequest:
			p.mu.Unlock()
			select {
			case <-trap.released:
			case <-l.ctx.Done():
			}
			p.mu.Lock()
		}
	}
	for l.ctx.Err() == nil {
		late := time.Until(due)
		switch {
		case l.broken[dir] || p.drop[dir]:
			l.broken[dir] = true
			return false
		case !p.hold[dir] && late <= 0:
			return true
		}
		var timer <-chan time.Time // nil if the piece waits only for a change
		if late > 0 {
			timer = time.After(late)
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-timer:
		case <-l.ctx.Done():
		}
		p.mu.Lock()
	}
	return false
}

// waitOpen waits until the proxy forwards new and closed connections in this
// direction. It reports false if the link was closed meanwhile.
func (p *Proxy) waitOpen(l *link, dir direction) bool {
	for l.ctx.Err() == nil {
		p.mu.Lock()
		closed, changed := p.drop[dir] || p.hold[dir], p.changed
		p.mu.Unlock()
		if !closed {
			return true
		}
		select {
		case <-changed:
		case <-l.ctx.Done():
		}
	}
	return false
}

// reset breaks the link. The caller holds the proxy's lock.
func (l *link) reset() {
	l.cancel()
	for _, c := range []*net.TCPConn{l.client, l.server} {
		if c != nil {
			c.SetLinger(0) // makes Close send a reset
			c.Close()
		}
	}
}
