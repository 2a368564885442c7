package mysql

import (
	"cmp"
	"context"
	"fmt"
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
	opening, failed := d.opening, make(chan error, 1)
	for {
		var ok bool
		select {
		case c = <-d.idle:
			ok = true
		default:
		}
		if !ok {
			select {
			case c = <-d.idle:
			case opening <- struct{}{}:
				opening = nil
				go d.openForAny(failed)
				continue
			case err = <-failed:
				if d.using.Load() > 0 {
					continue
				}
				return c, err
			case <-ctx.Done():
				return c, cmp.Or(err, d.outOfTime(ctx.Err()))
			}
		}
		if c.generation == d.generation.Load() {
			return c, nil
		}
		c.drop()
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
func (d *driver) openForAny(failed chan<- error) {
	defer func() { <-d.opening }()
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
		failed <- err
		return
	}
	d.put(c)
}

// full are the errors of a server, or of an account, that has no place for another connection.
var full = []uint16{1040, 1203, 1226}

// openPause is between two attempts to open a connection when others have given up theirs.
const openPause = 200 * time.Millisecond

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
	d.using.Add(-1)
	if err != nil {
		c.drop()
	} else {
		d.put(c)
	}
	<-d.places
	if err != nil && code(err) == 0 {
		d.dropIdle()
	}
}
