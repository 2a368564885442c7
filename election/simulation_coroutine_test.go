package election

import (
	"context"
	"iter"
)

// A coroutine is one call of a Backend. It runs until its driver needs an answer, and goes on when the simulation has one.
// So a world needs no goroutine that runs beside it, and a seed determines everything.
type coroutine struct {
	n       *simNode
	call    *call
	ctx     *callContext
	yield   func(*driverCall) bool
	next    func() (*driverCall, bool)
	stop    func()
	pending *driverCall // it waits for this one's answer
	reply   reply
	running bool
}

type callContext struct {
	context.Context
	co   *coroutine
	done chan struct{}
	err  error
}

func newCoroutine(n *simNode, c *call) *coroutine {
	co := &coroutine{n: n, call: c}
	co.ctx = &callContext{Context: context.Background(), co: co, done: make(chan struct{})}
	return co
}

type coroutineKey struct{}

func (c *callContext) Value(key any) any {
	if key == (coroutineKey{}) {
		return c.co
	}
	return nil
}

func (c *callContext) Err() error { return c.err }

// Done is asked for only by a call that is about to wait for the Backend's session mutex: it waits
// here instead, until no other call of the node has the mutex.
func (c *callContext) Done() <-chan struct{} {
	l, co := &c.co.n.lease, c.co
	for c.err == nil && l.writing != nil && l.writing != co {
		l.waiting = append(l.waiting, co)
		co.await(&driverCall{})
	}
	if c.err == nil {
		l.writing = co
	}
	return c.done
}

// begin starts the call, after the present step.
func (co *coroutine) begin(do func(context.Context) reply) {
	co.next, co.stop = iter.Pull(func(yield func(*driverCall) bool) {
		co.yield = yield
		co.reply = do(co.ctx)
	})
	co.n.s.after(0, func() { co.n.run(co.n.life, co.advance) })
}

// await makes the coroutine wait for the answer of a driver call. It is called within the coroutine.
func (co *coroutine) await(d *driverCall) {
	if co.ctx.err == nil {
		co.pending = d
		if co.yield(d) {
			co.pending = nil
		} else if co.ctx.err == nil { // abandoned
			co.ctx.err = context.Canceled
			close(co.ctx.done)
		}
	}
	if co.ctx.err != nil {
		d.err = errTimeout
	}
}

// advance runs the coroutine until it needs an answer or has ended.
func (co *coroutine) advance() {
	if co.running || co.n.lease.underWay[co.call.kind] != co {
		return
	}
	co.running = true
	d, more := co.next()
	co.running = false
	if more {
		if d.send != nil {
			d.send(co)
		}
		return
	}
	co.n.lease.underWay[co.call.kind] = nil
	co.passTurn()
	co.n.leaseCallEnded(co.reply)
}

// passTurn lets the next call write the session.
func (co *coroutine) passTurn() {
	l := &co.n.lease
	if l.writing != co {
		return
	}
	l.writing = nil
	waiting := l.waiting
	l.waiting = nil
	for _, next := range waiting {
		if next.pending == nil || next.pending.send != nil {
			continue // it has given up
		}
		n, life := next.n, next.n.life
		n.s.after(0, func() { n.run(life, next.advance) })
	}
}

// answer gives the coroutine the answer of a driver call, if it still waits for that.
func (co *coroutine) answer(d *driverCall, set func()) {
	if co.pending != d || co.n.lease.underWay[co.call.kind] != co {
		return
	}
	set()
	co.advance()
}

func (c *callContext) end(err error) {
	if c.err == nil {
		c.err = err
		close(c.done)
	}
}

func (co *coroutine) end(err error) {
	co.ctx.end(err)
	co.advance()
}

func (co *coroutine) abandon() {
	co.ctx.end(context.Canceled)
	co.stop()
	co.n.lease.underWay[co.call.kind] = nil
}
