package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// fallback is how long one address of a name may take before the next one is tried beside it. Some drop
	// packets without an answer, and Go would give each of them two seconds or more.
	fallback = 250 * time.Millisecond

	// dialLimit is how long a dial may take: a resolver waits 5 s for each dead name server. An address may
	// take connectLimit. Then the name is looked up again: it may lead elsewhere by now.
	dialLimit, connectLimit = 20 * time.Second, 2 * time.Second

	// waits is how long a connection that came too late for its call waits for the next one.
	waits = 5 * time.Second

	// A host that accepts a connection and says nothing for answersIn comes last in its name for silentFor.
	answersIn, silentFor = time.Second, time.Minute
)

// A Dialer dials as net.Dialer does, with three differences. All addresses of a name are tried, one soon
// after the other. Those of hosts that hang, which accept connections and say nothing, come last. And a dial
// outlives the call that began it: the next call to the same address gets its connection.
type Dialer struct {
	net.Dialer // without a Timeout: see connectLimit

	// Greeting, if it is set, returns an error if no server begins with these bytes.
	Greeting func(first []byte) error

	left    sync.Map // dials whose call has ended: a <-chan dialed by network and address
	answers sync.Map // of the resolver: an *answer by name
	unheard sync.Map // since when nothing was read from a host that accepts: a time.Time by its address
	open    sync.Map // connections: keys of type *heard

	lookup func(ctx context.Context, name string) ([]string, error) // nil: the resolver of the system
}

type dialed struct {
	conn net.Conn
	err  error
}

// DialContext dials an address of a network.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	key := network + " " + address
	for {
		left, again := d.left.LoadAndDelete(key)
		results, _ := left.(<-chan dialed)
		if !again {
			results = d.begin(network, address)
		}

		select {
		case r, ok := <-results: // or this process was stopped, and the connection has waited in vain
			if ok && (r.conn != nil || !again) {
				return d.hear(r.conn), r.err
			}
		case <-ctx.Done():
			d.left.Store(key, results) // for the next call; of two that were left, the first is for nobody
			return nil, fmt.Errorf("dial %s %s: %w", network, address, ctx.Err())
		}
	}
}

// begin dials in the background. The channel is closed if nobody has received the result in time.
func (d *Dialer) begin(network, address string) <-chan dialed {
	results := make(chan dialed)
	go func() {
		defer close(results)
		ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
		defer cancel()
		r := d.race(ctx, network, address)
		select {
		case results <- r:
		case <-time.After(waits):
			if r.conn != nil {
				r.conn.Close()
			}
		}
	}()
	return results
}

// race dials all addresses of a name, and returns the first connection, or the first error if there is none.
func (d *Dialer) race(ctx context.Context, network, address string) dialed {
	addresses := []string{address}
	host, port, err := net.SplitHostPort(address)
	if err == nil && host != "" && strings.HasPrefix(network, "tcp") {
		if addresses, err = d.LookupHost(ctx, host); err != nil {
			return dialed{nil, &net.OpError{Op: "dial", Net: network, Err: err}}
		}
		for i, ip := range addresses {
			addresses[i] = net.JoinHostPort(ip, port)
		}
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results, first := make(chan dialed), error(nil)
	for started, failed := 0, 0; failed < len(addresses); {
		var late <-chan time.Time
		if started < len(addresses) {
			go d.one(ctx, network, addresses[started], results)
			started++
			late = time.After(fallback)
		}
		select {
		case r := <-results:
			if r.conn != nil {
				return r
			}
			first = cmp.Or(first, r.err)
			failed++
		case <-late:
		case <-ctx.Done():
			return dialed{nil, cmp.Or(first, error(&net.OpError{Op: "dial", Net: network, Err: ctx.Err()}))}
		}
	}
	return dialed{nil, first}
}

// one dials one address. Another one may be faster.
func (d *Dialer) one(ctx context.Context, network, address string, results chan<- dialed) {
	within, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	conn, err := d.Dialer.DialContext(within, network, address)
	select {
	case results <- dialed{conn, err}:
	case <-ctx.Done():
		if conn != nil {
			conn.Close()
		}
	}
}

// ip returns the address of the host that a connection leads to.
func ip(conn net.Conn) string {
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	return host
}

// An answer has the addresses of a name.
type answer struct {
	there chan struct{} // closed when the rest is there
	ips   []string
	err   error
}

// LookupHost returns the addresses of a name, last those of hosts that hang. Looking up outlives the call,
// too, and a late answer serves the next calls: for the three names of a cluster, one after the other, a
// resolver with a dead name server takes 15 s.
func (d *Dialer) LookupHost(ctx context.Context, name string) ([]string, error) {
	a := &answer{there: make(chan struct{})}
	if other, ok := d.answers.LoadOrStore(name, a); ok {
		a = other.(*answer)
	} else {
		go d.ask(name, a)
	}
	select {
	case <-a.there:
	case <-ctx.Done():
		return nil, fmt.Errorf("lookup %s: %w", name, ctx.Err())
	}
	ips := slices.Clone(a.ips)
	slices.SortStableFunc(ips, func(a, b string) int { return d.hangs(a) - d.hangs(b) })
	return ips, a.err
}

// ask asks for the addresses of a name. It keeps the answer for three times as long as that took.
func (d *Dialer) ask(name string, a *answer) {
	ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
	defer cancel()
	lookup := d.lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupHost
	}
	began, keep := time.Now(), time.Duration(0)
	a.ips, a.err = lookup(ctx, name)
	close(a.there)
	if a.err == nil {
		keep = min(3*time.Since(began), dialLimit)
	}
	time.AfterFunc(keep, func() { d.answers.Delete(name) })
}

// hangs returns 1 for a host that has accepted a connection and said nothing, and 0 for others.
func (d *Dialer) hangs(ip string) int {
	since, accepts := d.unheard.Load(ip)
	switch {
	case accepts && time.Since(since.(time.Time)) > silentFor:
		d.unheard.Delete(ip)
	case accepts && time.Since(since.(time.Time)) > answersIn:
		return 1
	}
	return 0
}

// A heard is a connection that notes when its host has answered. Pools look at its socket.
type heard struct {
	*net.TCPConn
	dialer *Dialer
	ip     string
	opened time.Time
	last   atomic.Int64 // when something was read last, as an offset from opened
}

// hear notes from now on when the host of a connection answers.
func (d *Dialer) hear(conn net.Conn) net.Conn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn
	}
	c := &heard{TCPConn: tcp, dialer: d, ip: ip(tcp), opened: time.Now()}
	d.unheard.LoadOrStore(c.ip, c.opened)
	d.open.Store(c, nil)
	return c
}

func (c *heard) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if n > 0 {
		c.dialer.unheard.Delete(c.ip)
		first := c.last.Swap(max(1, int64(time.Since(c.opened)))) == 0 // or 0 in virtual time
		if first && c.dialer.Greeting != nil {
			err = cmp.Or(c.dialer.Greeting(p[:n]), err)
		}
	}
	return n, err
}

func (c *heard) Close() error {
	c.dialer.open.Delete(c)
	return c.TCPConn.Close()
}

// CloseSilent closes, when answers would be too late, the connections on which nothing was read since a call
// began. If all reports true then, it closes all that were open when the call began.
func (d *Dialer) CloseSilent(began time.Time, all func() bool) {
	time.AfterFunc(lateness, func() {
		whole := all()
		for key := range d.open.Range {
			c := key.(*heard)
			last := c.opened.Add(time.Duration(c.last.Load()))
			if last.Before(began) || whole && c.opened.Before(began) {
				c.Close()
			}
		}
	})
}

// DialTLS returns what dials an address and makes the connection one with TLS, by the configuration at that
// moment. If that is nil, the connection stays without.
func (d *Dialer) DialTLS(config func() *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if t := config(); err == nil && t != nil {
			return Handshake(ctx, c, t, address)
		}
		return c, err
	}
}

// RefusesTLS reports whether the text of an error says that there is no TLS with a server until somebody
// changes something. A server that does not have its certificate yet, such as a proxy that has just started,
// says only that it has an error.
func RefusesTLS(text string) bool {
	return strings.Contains(text, "x509: ") ||
		strings.Contains(text, "tls: ") && !strings.Contains(text, "remote error: tls: internal error")
}

// handshakeLimit is how long a handshake may take. The context in which net/http dials has no end.
const handshakeLimit = 10 * time.Second

// Handshake makes a connection one with TLS. Without a ServerName the server must be the host of the address.
func Handshake(ctx context.Context, conn net.Conn, config *tls.Config, address string) (net.Conn, error) {
	if config.ServerName == "" && !config.InsecureSkipVerify {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	t := tls.Client(conn, config)
	if err := t.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("no TLS with %s: %w", address, err)
	}
	return alerted{t}, nil
}

// An alerted connection says why the server has reset it. With TLS 1.3 a server refuses the certificate of a
// client after the handshake, while that sends its first request.
type alerted struct{ *tls.Conn }

func (c alerted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		if _, why := c.Read(make([]byte, 1)); why != nil && RefusesTLS(why.Error()) {
			err = why
		}
	}
	return n, err
}
