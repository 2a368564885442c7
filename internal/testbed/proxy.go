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

// A Proxy passes TCP connections on to a target, and misbehaves when told to.
// All its methods may be called at any time from any goroutine.
//
// What it does to a stream is what a network can do. Bytes may be late or never
// come, but none ever come after some that were lost.
type Proxy struct {
	addr   string
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	target   string
	listener net.Listener // nil while connections are refused
	links    map[*link]bool
	drop     [2]bool // what arrives is lost, by direction
	hold     [2]bool // what arrives waits
	delay    time.Duration
	traps    []*Trap
	stats    Stats
	changed  chan struct{} // closed, and replaced, whenever one of the above changes
}

// Stats are the counters of a Proxy.
type Stats struct {
	Accepted int // connections so far
	Open     int // connections now
	Lost     int // pieces of requests and replies that were dropped
}

type direction int

const (
	requests direction = iota // from the client to the server
	replies
)

// A link is one connection of a client and its counterpart at the server.
type link struct {
	ctx    context.Context
	cancel context.CancelFunc
	client *net.TCPConn
	server *net.TCPConn // nil until dialled
	torn   [2]bool      // something was lost: nothing may follow, by direction
}

// NewProxy starts a proxy on a loopback port and closes it after the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{
		addr:    loopback(port),
		target:  target,
		links:   make(map[*link]bool),
		changed: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if err := p.listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Proxy starts a proxy in front of the server and closes it after the test.
func (s *Server) Proxy(t testing.TB) *Proxy {
	t.Helper()
	return NewProxy(t, s.addr)
}

// Addr returns where the proxy listens.
func (p *Proxy) Addr() string { return p.addr }

// Config returns a copy of c that connects through the proxy.
func (p *Proxy) Config(c *mysql.Config) *mysql.Config {
	c = c.Clone()
	c.Net, c.Addr = "tcp", p.addr
	return c
}

// Stats returns the counters.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Open = len(p.links)
	return s
}

// change changes the proxy's state and wakes whoever waits for that.
func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

// SetTarget sends new connections to another address, as a moved name or a
// virtual address does after a failover. Open connections stay where they are.
func (p *Proxy) SetTarget(addr string) { p.change(func() { p.target = addr }) }

// Cut cuts the network: what either side sends is lost without a word, also
// that it has hung up. Connections stay open and new ones hang. A connection
// that lost something stays dumb when the cut is healed; the others go on.
func (p *Proxy) Cut(on bool) { p.change(func() { p.drop = [2]bool{on, on} }) }

// CutReplies cuts one way only: requests arrive and are executed, and the
// answers are lost.
func (p *Proxy) CutReplies(on bool) { p.change(func() { p.drop = [2]bool{replies: on} }) }

// CutRequests cuts the other way only: nothing that a client sends arrives, and what
// the server says by itself still comes through.
func (p *Proxy) CutRequests(on bool) { p.change(func() { p.drop = [2]bool{requests: on} }) }

// Hold holds back what either side sends, and new connections. All of it
// arrives late, in order, when hold is called again with false: a cut short
// enough for the network to make up for it.
func (p *Proxy) Hold(on bool) { p.change(func() { p.hold = [2]bool{on, on} }) }

// Delay makes every piece of a request and of a reply take d longer.
func (p *Proxy) Delay(d time.Duration) { p.change(func() { p.delay = d }) }

// Reset breaks all open connections, on both sides, by a TCP reset.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
}

// Refuse makes new connections fail at once, or be accepted again. Open ones
// stay.
func (p *Proxy) Refuse(on bool) {
	if !on {
		// The port is none that the kernel gives to others: this succeeds.
		if err := poll(sqlLimit, p.listen); err != nil {
			panic(err)
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
}

// Close closes all connections and waits until nothing is left running.
func (p *Proxy) Close() {
	p.cancel()
	p.Refuse(true)
	p.Reset()
	p.wg.Wait()
}

// listen makes sure that connections are accepted.
func (p *Proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil || p.ctx.Err() != nil {
		return nil
	}
	l, err := net.Listen("tcp4", p.addr)
	if err != nil {
		return err
	}
	p.listener = l
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed by Refuse
			}
			p.add(c.(*net.TCPConn))
		}
	})
	return nil
}

// add starts to serve a client.
func (p *Proxy) add(client *net.TCPConn) {
	l := &link{client: client}
	l.ctx, l.cancel = context.WithCancel(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		client.Close()
		return
	}
	p.stats.Accepted++
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

// serve connects a client to the target and returns when both have hung up.
func (p *Proxy) serve(l *link) {
	if !p.open(l, requests) {
		return
	}
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	var d net.Dialer
	c, err := d.DialContext(l.ctx, "tcp", target)
	p.mu.Lock()
	if err != nil {
		l.reset() // the nearest thing to "connection refused"
		p.mu.Unlock()
		return
	}
	l.server = c.(*net.TCPConn)
	if l.ctx.Err() != nil {
		l.reset() // Reset came while we were dialling
	}
	p.mu.Unlock()

	var both sync.WaitGroup
	both.Go(func() { p.pump(l, requests, l.server, l.client) })
	both.Go(func() { p.pump(l, replies, l.client, l.server) })
	both.Wait()
}

// pump passes on what one side of a link sends, until it has hung up.
func (p *Proxy) pump(l *link, dir direction, to, from *net.TCPConn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && p.pass(l, dir, buf[:n]) {
			if _, err := to.Write(buf[:n]); err != nil {
				// The other side is gone for good. Let this one know.
				p.mu.Lock()
				l.reset()
				p.mu.Unlock()
				return
			}
		}
		if err != nil {
			if !p.open(l, dir) {
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

// pass waits until a piece may go on, and reports false if it is lost.
func (p *Proxy) pass(l *link, dir direction, piece []byte) bool {
	due := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	due = due.Add(p.delay)
	if trap := p.spring(dir, piece); trap != nil {
		switch trap.fate {
		case LoseRequest:
			l.torn = [2]bool{true, true}
		case LoseReply:
			l.torn[replies] = true
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
		case l.torn[dir] || p.drop[dir]:
			l.torn[dir] = true
			p.stats.Lost++
			return false
		case !p.hold[dir] && late <= 0:
			return true
		}
		var ripe <-chan time.Time // never, if only a change can let it pass
		if late > 0 {
			ripe = time.After(late)
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ripe:
		case <-l.ctx.Done():
		}
		p.mu.Lock()
	}
	return false
}

// open waits until the proxy lets news through in this direction: a new
// connection, or that somebody has hung up. It reports false if the link is
// closed.
func (p *Proxy) open(l *link, dir direction) bool {
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
