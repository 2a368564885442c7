package testbed

import (
	"bytes"
	"slices"
	"testing"
	"time"
)

// A Fate is what happens to a request that a trap has caught.
type Fate string

const (
	LoseRequest Fate = "lose request" // not executed; the connection is silent from then on
	LoseReply   Fate = "lose reply"   // executed; the connection returns no reply from then on
	HoldRequest Fate = "hold request" // executed when the trap is released, even if the client has given up
)

// A Trap waits for one request.
type Trap struct {
	proxy    *Proxy
	text     []byte
	fate     Fate
	caught   chan struct{}
	released bool // what it has held may go on
}

// Trap sets a trap for the next request that contains text, on any connection.
// It reads statements only if the driver interpolates them and the connection has no TLS.
func (p *Proxy) Trap(text string, fate Fate) *Trap {
	trap := &Trap{proxy: p, text: []byte(text), fate: fate, caught: make(chan struct{})}
	p.change(func() { p.traps = append(p.traps, trap) })
	return trap
}

// Release forwards a held request.
func (t *Trap) Release() { t.proxy.change(func() { t.released = true }) }

// Wait waits until the trap has caught its request.
func (t *Trap) Wait(tb testing.TB, limit time.Duration) {
	tb.Helper()
	select {
	case <-t.caught:
	case <-time.After(limit):
		tb.Fatalf("no request with %q within %v", t.text, limit)
	}
}

// catch returns the trap that catches this piece, and disarms it.
func (p *Proxy) catch(l *link, dir direction, piece []byte) *Trap {
	i := slices.IndexFunc(p.traps, func(t *Trap) bool { return bytes.Contains(piece, t.text) })
	if i < 0 || dir != requests {
		return nil
	}
	trap := p.traps[i]
	p.traps = slices.Delete(p.traps, i, i+1)
	close(trap.caught)
	switch trap.fate {
	case LoseRequest:
		l.broken = [2]bool{true, true}
	case LoseReply:
		l.broken[replies] = true
	}
	return trap
}
