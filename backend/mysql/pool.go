package mysql

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// take waits for a place, and returns an idle connection, or a new one. Opening goes on when ctx has ended, and the next
// call finds the connection. If none can be opened, take waits for one that another call uses.
func (d *driver) take(ctx context.Context) (c conn, err error) {
	select {
	case d.places <- struct{}{}:
	case <-ctx.Done():
		return c, d.outOfTime(ctx.Err())
	}
	if c, err = d.idleOrNew(ctx); err != nil {
		<-d.places
		return c, err
	}
	d.using.Add(1)
	if c.old() {
		d.replace()
	}
	return c, nil
}

func (d *driver) idleOrNew(ctx context.Context) (c conn, err error) {
	failed := make(chan error, 1)
	asked := false
	for {
		asked = asked || len(d.idle) == 0 && d.beginOpening(failed)
		var again <-chan time.Time // all connections are used, and one may be closed
		if !asked {
			again = time.After(openAsk)
		}
		select {
		case c = <-d.idle:
		case <-again:
			continue
		case err = <-failed:
			if d.using.Load() > 0 {
				continue
			}
			return c, err
		case <-ctx.Done():
			return c, cmp.Or(err, d.outOfTime(ctx.Err()))
		}
		if c.generation == d.generation.Load() {
			return c, nil
		}
		c.drop()
	}
}

// A place is one of the maxConns connections that a Backend may have for calls.
type place struct {
	taken *atomic.Int32 // of all places
	held  atomic.Bool
}

func (p *place) take() bool {
	if p.taken.Add(1) > maxConns {
		p.taken.Add(-1)
		return false
	}
	p.held.Store(true)
	return true
}

func (p *place) leave() {
	if p != nil && p.held.Swap(false) {
		p.taken.Add(-1)
	}
}

// beginOpening begins to open a connection if there is a place for it, and fewer than maxOpening are being opened.
func (d *driver) beginOpening(failed chan<- error) bool {
	p := &place{taken: &d.taken}
	if !p.take() {
		return false
	}
	select {
	case d.opening <- struct{}{}:
		go d.openForAny(p, failed)
		return true
	default:
		p.leave()
		return false
	}
}

// outOfTime completes the error of a call that has found no connection: the program's pool may have none left.
func (d *driver) outOfTime(err error) error {
	s := d.db.Stats()
	if d.ownDB || s.MaxOpenConnections == 0 || s.InUse < s.MaxOpenConnections {
		return err
	}
	return fmt.Errorf("%w: all %d connections of the program's pool are in use", err, s.MaxOpenConnections)
}

// openForAny opens a connection for whoever needs one first. If the server has no place, the connections that wait for
// notifications give up theirs.
func (d *driver) openForAny(p *place, failed chan<- error) {
	defer func() { <-d.opening }()
	defer time.AfterFunc(openSoon, p.leave).Stop() // it may hang until ioTimeout, and others can connect meanwhile
	ctx, cancel := context.WithTimeout(d.notifier.ctx, ioTimeout)
	defer cancel()
	c, err := d.open(ctx, false)
	for gave := false; is(err, full...) && (gave || d.notifier.giveWay()) && ctx.Err() == nil; gave = true {
		select {
		case <-time.After(openPause): // the server takes a moment to see that a connection has ended
		case <-ctx.Done():
		}
		if next, again := d.open(ctx, false); ctx.Err() == nil {
			c, err = next, again
		}
	}
	if err != nil {
		p.leave()
		failed <- err
		return
	}
	if c.place = p; p.held.Load() || p.take() {
		d.put(c)
	} else {
		c.drop() // it came too late
	}
}

// full are the errors of a server, or of an account, that has no place for another connection.
var full = []uint16{1040, 1203, 1226}

const (
	openPause = 200 * time.Millisecond // between two attempts to open a connection when others have given up theirs
	openSoon  = time.Second            // an attempt that takes longer keeps no place
	openAsk   = 10 * time.Millisecond  // between two looks for a place
)

// replace opens the successor of connections that are old. They are used until it is there.
func (d *driver) replace() {
	if now := time.Now().UnixNano(); now < d.replaceAfter.Load() || !d.replacing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer d.replacing.Store(false)
		ctx, cancel := context.WithTimeout(d.notifier.ctx, 2*ioTimeout)
		defer cancel()
		if s := d.db.Stats(); s.MaxOpenConnections > 0 && s.OpenConnections >= s.MaxOpenConnections {
			select { // the program's pool has no place: one of several gives its own
			case c := <-d.idle:
				c.drop()
			default:
			}
		}
		c, err := d.open(ctx, false)
		if err != nil {
			d.replaceAfter.Store(time.Now().Add(openAgain).UnixNano())
			return
		}
		c.generation = d.leave()
		c.place = &place{taken: &d.taken}
		c.place.held.Store(true)
		d.taken.Add(1) // those that it replaces are closed, or will be when their call has ended
		d.put(c)
	}()
}

// leave makes the connections of today ones that are not used again, and returns the generation of the next ones.
func (d *driver) leave() int64 {
	next := d.generation.Add(1)
	d.dropIdle()
	return next
}

// Moved implements [relational.Dialect].
func (d *driver) Moved() { d.leave() }

// put makes a connection an idle one.
func (d *driver) put(c conn) {
	if c.generation == d.generation.Load() && !d.closed.Load() {
		select {
		case d.idle <- c:
			if d.closed.Load() {
				d.dropIdle()
			}
			return
		default:
		}
	}
	c.drop()
}

// give gives a connection back. After an error it is dropped: it may be in a transaction, and keeps the
// rights with which it began. If it does not answer, no other may.
func (d *driver) give(c conn, err error) {
	if err != nil {
		c.drop()
	} else {
		d.put(c)
	}
	d.using.Add(-1)
	<-d.places
	if err != nil && code(err) == 0 {
		d.dropIdle()
	}
}
