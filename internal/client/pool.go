package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// A Pool has the connections of one process to a server: one as a rule, more if that is slow.
//
// A connection is replaced when it is old, so that it follows a name or a proxy that has moved. Its successor
// is open before it is closed: while a server takes no new connections, those that work are used on. Opening
// goes on when the call that began it has ended, and the next call finds the connection.
//
// Age, Most, Open and Close are set before the first call. All methods may be called at once.
type Pool[C any] struct {
	Age   time.Duration // after which a connection is replaced
	Most  int           // connections at once, besides a successor
	Open  func(context.Context) (C, error)
	Close func(C)

	mu      sync.Mutex
	changed sync.Cond  // something below has
	idle    []*Conn[C] // the one that was used last is the last one
	used    int        // connections that are neither idle nor being opened
	waiting int        // calls of Take
	stop    func()     // ends the watching of a connection; nil: none is watched

	generation   int       // connections of another one are not used again
	opening      int       // how many are being opened, also as successors
	begun        time.Time // when the last one has begun that is no successor
	failures     int       // of opening, so far
	failed       error
	replaceAfter time.Time
	closed       bool
}

// A Conn is a connection of a Pool.
type Conn[C any] struct {
	C C

	opened, usedAt time.Time
	generation     int
}

const (
	openLimit  = 15 * time.Second // of one Open
	openSoon   = 3 * time.Second  // one that takes longer may hang, and others can be opened meanwhile
	openAtOnce = 2                // a server that is slow for too many logins gets no more of them
	openAgain  = 5 * time.Second  // after a successor could not be opened
	idleLimit  = 10 * time.Second // after which one of several that are idle is closed
)

// Take returns an idle connection, or opens one. While another call uses the only one, Take waits for that,
// unless more is set: then it opens another one, up to Most, one after the other. If none can be opened, it
// waits for those that are used, and fails when there are none. Each connection is given back by Give.
func (p *Pool[C]) Take(ctx context.Context, more bool) (*Conn[C], error) {
	most := 1
	if more {
		most = p.Most
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting++
	defer func() { p.waiting--; p.changed.Broadcast() }()
	return p.take(ctx, most, func() bool { return true })
}

// take waits until may allows to take an idle connection, and there is one. The caller holds p.mu.
func (p *Pool[C]) take(ctx context.Context, most int, may func() bool) (*Conn[C], error) {
	if p.changed.L == nil {
		p.changed.L = &p.mu
	}
	defer context.AfterFunc(ctx, p.wake)()
	for failures := p.failures; ; p.changed.Wait() {
		switch last := len(p.idle) - 1; {
		case p.closed:
			return nil, errors.New("the connections are closed")
		case ctx.Err() != nil && p.failures > failures:
			return nil, p.failed
		case ctx.Err() != nil: // open none for nobody
			return nil, ctx.Err()
		case last >= 0 && may():
			c := p.idle[last]
			p.idle = p.idle[:last]
			p.used++
			if time.Since(c.opened) > p.Age {
				p.replace()
			}
			return c, nil
		case p.failures > failures && p.used+p.opening+len(p.idle) == 0:
			return nil, p.failed
		case p.stop != nil && may():
			p.stop()
			p.stop = nil
		case p.failures == failures && p.used+len(p.idle) < most && p.mayBegin():
			p.begin(false)
		}
	}
}

// mayBegin reports whether the server may be asked for a connection: for another one if the first takes long.
func (p *Pool[C]) mayBegin() bool {
	return p.opening == 0 || p.opening < openAtOnce && time.Since(p.begun) >= openSoon
}

// wake has all calls that wait look again.
func (p *Pool[C]) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed.Broadcast()
}

// begin begins to open a connection, or the successor of all. The caller holds p.mu.
func (p *Pool[C]) begin(successor bool) {
	p.opening++
	if !successor {
		p.begun = time.Now()
		time.AfterFunc(openSoon, p.wake)
	}
	generation := p.generation
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), openLimit)
		defer cancel()
		c, err := p.Open(ctx)

		p.mu.Lock()
		defer p.mu.Unlock()
		p.opening--
		switch surplus := !successor && p.used+len(p.idle) >= p.Most; {
		case err != nil && successor:
			p.replaceAfter = time.Now().Add(openAgain)
		case err != nil:
			p.failures++
			p.failed = err
		case surplus || p.closed || generation != p.generation:
			go p.Close(c)
		default:
			if successor {
				p.leave()
			}
			// They get old at different times, so that not all processes open successors at once.
			now := time.Now()
			p.idle = append(p.idle, &Conn[C]{c, now.Add(-rand.N(p.Age/4 + 1)), now, p.generation})
		}
		p.changed.Broadcast()
	}()
}

// Replace opens a successor of all connections, as if they were old. A session may keep what its account had
// when it began.
func (p *Pool[C]) Replace() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replace()
}

func (p *Pool[C]) replace() {
	if now := time.Now(); !p.closed && now.After(p.replaceAfter) {
		p.replaceAfter = now.Add(openLimit)
		p.begin(true)
	}
}

// leave makes the connections of today ones that are not used again. The caller holds p.mu.
func (p *Pool[C]) leave() {
	p.generation++
	for _, c := range p.idle {
		go p.Close(c.C)
	}
	p.idle = nil
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
	p.changed.Broadcast()
}

// Give gives a connection back. One that is broken is closed.
func (p *Pool[C]) Give(c *Conn[C], broken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	if broken || p.closed || c.generation != p.generation {
		go p.Close(c.C)
	} else {
		c.usedAt = time.Now()
		p.idle = append(p.idle, c)
	}
	if len(p.idle) > 1 && time.Since(p.idle[0].usedAt) > idleLimit {
		go p.Close(p.idle[0].C)
		p.idle = p.idle[1:]
	}
	p.changed.Broadcast()
}

// Watch calls f with a connection while no call needs it. Then the context of f ends, f returns its error,
// and Watch waits until the connection is idle again. After any other error it is closed.
func (p *Pool[C]) Watch(ctx context.Context, f func(context.Context, C) error) error {
	for {
		p.mu.Lock()
		c, err := p.take(ctx, 1, func() bool { return p.waiting == 0 })
		if err != nil {
			p.mu.Unlock()
			return err
		}
		within, stop := context.WithCancel(ctx)
		p.stop = stop
		p.mu.Unlock()

		err = f(within, c.C)
		stopped := err != nil && err == within.Err()
		p.mu.Lock()
		p.stop = nil
		p.mu.Unlock()
		stop()
		p.Give(c, err != nil && !stopped)
		if !stopped || ctx.Err() != nil {
			return err
		}
	}
}

// Moved says that connections may lead to a former server. None of them is used for a later call.
func (p *Pool[C]) Moved() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave()
}

// End closes the connections. Those that a call uses are closed with its end.
func (p *Pool[C]) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.leave()
}
