package mysql

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// A process that waits for changes runs a statement that waits for a named lock. Whoever has changed something
// lists the statements of its account and ends those (KILL QUERY). One of the processes has the lock. See
// docs/design/mysql.md, "Notifications".

const (
	waitSeconds = 4
	waitSQL     = "SELECT GET_LOCK('%s', %d) AS `%s`"
	waitersSQL  = `SHOW PROCESSLIST` // of this account, with the first 100 characters of each statement

	notifyWithin = 500 * time.Millisecond // or others poll
	listenAgain  = time.Minute            // for how long after the last call of Listen has ended this process waits
	firstPause   = 50 * time.Millisecond  // after a failure; it doubles
	lastPause    = 10 * time.Second
)

// A notifier keeps the connection that waits.
type notifier struct {
	poll   bool            // no notifications
	own    string          // marks the statement of this process
	ctx    context.Context // ends with close
	cancel context.CancelFunc

	pending sync.WaitGroup // notifications under way

	mu        sync.Mutex
	listening int       // calls of Listen
	heard     time.Time // when the last one ended
	waiting   bool      // a goroutine does
	yield     func()    // makes it close its connections for a while; nil: it has none
}

// giveWay closes the connections that wait, since a call needs their place. It returns false if there are none.
func (n *notifier) giveWay() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	had := n.yield != nil
	if had {
		n.yield()
		n.yield = nil
	}
	return had
}

// holds notes how the connections that wait can be closed.
func (n *notifier) holds(yield func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.yield = yield
}

// channel is the name of the lock for which the members of a table wait. They may name its schema in different
// ways, but have read the same epoch.
func (d *driver) channel() string {
	return fmt.Sprintf("go-election:%.24x", sha256.Sum256([]byte(d.Epoch())))
}

// Write implements [lease.Driver]. It notifies others when a change says so.
func (d *driver) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	done, err := d.Driver.Write(ctx, epoch, wentBack, changes, verify)
	for i := range changes {
		if changes[i].Notify && err == nil && done.Results[i].Outcome == backend.Granted && !d.notifier.poll {
			// A new leader does not wait until all have heard of it.
			d.notifier.pending.Go(func() { d.notify(context.WithoutCancel(ctx)) })
			break
		}
	}
	return done, err
}

// notify ends the statements of others. If it fails, they poll.
func (d *driver) notify(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, notifyWithin)
	defer cancel()
	c, err := d.take(ctx)
	if err != nil {
		return
	}
	rows, err := c.rows(ctx, waitersSQL)
	for _, row := range rows {
		text := bytes.Join(row, nil)
		if err == nil && bytes.Contains(text, []byte(d.channel())) && !bytes.Contains(text, []byte(d.notifier.own)) {
			if _, err = c.ExecContext(ctx, fmt.Sprintf("KILL QUERY %d", number(row[0]))); code(err) != 0 {
				err = nil // it has just ended, or is another account's
			}
		}
	}
	d.give(c, err)
}

// Listen implements [lease.Listener]: it hears of all changes of the table that somebody waits for.
func (d *driver) Listen(ctx context.Context, position uint64, _ []lease.Item, on func([]lease.Item, uint64) bool) error {
	n := &d.notifier
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.ctx, cancel)()
	n.mu.Lock()
	if n.listening++; !n.waiting {
		n.waiting = true
		go d.wait()
	}
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.listening--
		n.heard = time.Now()
	}()
	return d.Notifications.Listen(position, on, func(position uint64) error { return d.Wait(ctx, position) })
}

// wait waits until nobody has called Listen for a while. It says that something may have changed when
// its statement is ended, when it begins, and after it could not wait for a while.
func (d *driver) wait() {
	n, w, pause := &d.notifier, waiter{missed: true}, time.Duration(0)
	for n.wanted() {
		ctx, yield := context.WithCancel(n.ctx)
		n.holds(yield)
		err := d.waitOnce(ctx, &w)
		n.holds(nil)
		gaveWay := ctx.Err() != nil
		yield()

		if w.missed = err != nil; !w.missed {
			pause = 0
			continue
		}
		w.conn.drop()
		w.conn, pause = conn{}, min(2*pause+firstPause, lastPause)
		if gaveWay {
			w.keeper.drop()
			w.keeper, pause = conn{}, lastPause
		}
		select {
		case <-time.After(pause):
		case <-n.ctx.Done():
		}
	}
	w.conn.drop()
	w.keeper.drop()
}

// A waiter has the connections of wait.
type waiter struct {
	conn        // waits for the lock
	keeper conn // has the lock, or had it: the server ends it after wait_timeout, and then another process has it
	missed bool // what happened since the last wait, if anything
}

// waitOnce waits for waitSeconds at most. A connection that is old is kept if there is no other.
func (d *driver) waitOnce(ctx context.Context, w *waiter) error {
	if w.Conn == nil || w.old() {
		c, err := d.open(ctx, true)
		if err != nil && w.Conn == nil {
			return err
		}
		if err == nil {
			w.conn.drop()
			w.conn = c
		}
	}
	if w.missed {
		d.Noted()
	}
	answer, err := w.wait(ctx, d.channel(), d.notifier.own)
	switch {
	case err != nil:
		return err
	case answer == "1":
		w.keeper.drop()
		w.keeper, w.conn = w.conn, conn{}
	case answer != "0":
		d.Noted()
	}
	return nil
}

// wait returns "1" if this connection has got the lock, "0" if it has not, and something else if somebody
// has ended the statement.
func (c conn) wait(ctx context.Context, channel, own string) (answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, (waitSeconds+2)*time.Second)
	defer cancel()
	rows, err := c.rows(ctx, fmt.Sprintf(waitSQL, channel, waitSeconds, own))
	if is(err, errInterrupted) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return string(rows[0][0]), nil
}

// wanted reports whether this process is still to wait. If not, the next call of Listen begins again.
func (n *notifier) wanted() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = n.ctx.Err() == nil && (n.listening > 0 || time.Since(n.heard) < listenAgain)
	return n.waiting
}
