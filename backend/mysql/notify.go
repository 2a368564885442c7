package mysql

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
)

// A process that waits for changes runs a statement that waits for a named lock. Whoever has changed something
// lists the statements of its account and ends those (KILL QUERY). One of the processes has the lock. See
// docs/design/mysql.md, "Notifications".

const (
	waitSeconds = 4
	waitSQL     = "SELECT '%[1]s' AS `%[3]s`; SELECT GET_LOCK('%[1]s', %[2]d) AS `%[3]s`" // the first answer says that it begins
	waitersSQL  = `SHOW PROCESSLIST`                                                      // of this account, with the first 100 characters of each statement

	notifyWithin = 500 * time.Millisecond // or others poll
	listenAgain  = 5 * time.Second        // for how long after the last call of Listen has ended this process waits
	firstPause   = 50 * time.Millisecond  // after a failure; it doubles
	lastPause    = 10 * time.Second
)

// A notifier has the connection that waits.
type notifier struct {
	poll   bool            // no notifications
	own    string          // marks the statement of this process
	ctx    context.Context // ends with close
	cancel context.CancelFunc

	pending sync.WaitGroup                     // notifications under way
	yield   atomic.Pointer[context.CancelFunc] // closes the connection that waits, for a while; nil: there is none

	mu        sync.Mutex
	listening int       // calls of Listen
	heard     time.Time // when the last one ended
	waiting   bool      // a goroutine does
}

// giveWay closes the connection that waits, since a call needs its place. It returns false if there is none.
func (n *notifier) giveWay() bool {
	yield := n.yield.Swap(nil)
	if yield != nil {
		(*yield)()
	}
	return yield != nil
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
	c, err := d.conns.Take(ctx, false)
	if err != nil {
		return
	}
	rows, err := c.C.rows(ctx, waitersSQL)
	for _, row := range rows {
		text := bytes.Join(row, nil)
		if err == nil && bytes.Contains(text, []byte(d.channel())) && !bytes.Contains(text, []byte(d.notifier.own)) {
			if _, err = c.C.ExecContext(ctx, fmt.Sprintf("KILL QUERY %d", number(row[0]))); code(err) != 0 {
				err = nil // it has just ended, or is another account's
			}
		}
	}
	d.conns.Give(c, err != nil)
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

// wait waits until nobody has called Listen for a while. It says that something may have changed when it begins, and after its
// statement was ended or it could not wait for a while: as soon as the next statement waits, so that no change falls between.
func (d *driver) wait() {
	n, w, pause := &d.notifier, waiter{missed: true}, time.Duration(0)
	for n.wanted() {
		ctx, yield := context.WithCancel(n.ctx)
		n.yield.Store(&yield)
		if d.poolIsShort(&w) {
			yield()
		}
		err := d.waitOnce(ctx, &w)
		n.yield.Store(nil)
		gaveWay := ctx.Err() != nil
		yield()

		if err == nil {
			pause = 0
			continue
		}
		w.missed = true
		w.drop()
		pause = min(2*pause+firstPause, lastPause)
		if gaveWay {
			pause = lastPause
		}
		select {
		case <-time.After(pause):
		case <-n.ctx.Done():
		}
	}
	w.drop()
}

// A waiter has the connection of wait.
type waiter struct {
	conn   *client.Conn[conn] // nil: none
	missed bool               // something may have changed, and nothing has said so
	waited int64              // how often the program has waited for a connection of its pool
}

func (w *waiter) drop() {
	if w.conn != nil {
		w.conn.C.drop()
		w.conn = nil
	}
}

// poolIsShort reports whether the program's pool has no connection left for this, or the program has waited for one.
func (d *driver) poolIsShort(w *waiter) bool {
	s := d.db.Stats()
	usedUp := w.conn == nil && s.MaxOpenConnections > 0 && s.InUse >= s.MaxOpenConnections
	missing := w.conn != nil && s.WaitCount > w.waited
	w.waited = s.WaitCount
	return !d.ownDB && (usedUp || missing)
}

// waitOnce waits for waitSeconds at most. A connection that is old is kept if there is no other.
func (d *driver) waitOnce(ctx context.Context, w *waiter) error {
	if w.conn == nil || d.conns.Old(w.conn) {
		c, err := d.conns.Beside(ctx, func(ctx context.Context) (conn, error) { return d.open(ctx, true) })
		if err != nil && w.conn == nil {
			return err
		}
		if err == nil {
			w.drop()
			w.conn = c
		}
	}
	answer, err := w.conn.C.wait(ctx, d.channel(), d.notifier.own, func() {
		if w.missed {
			d.Noted()
		}
		w.missed = false
	})
	if err == nil && answer == "1" {
		return d.exchange(ctx, w.conn)
	}
	w.missed = w.missed || answer != "0"
	return err
}

// exchange makes the connection that has got the lock the one of the calls, and that one the one that waits. When the
// lock's connection is replaced, another process gets it.
func (d *driver) exchange(ctx context.Context, waits *client.Conn[conn]) error {
	c, err := d.conns.Take(ctx, false)
	if err != nil {
		return err
	}
	err = backend.Join(d.setUp(ctx, waits.C, false), d.setUp(ctx, c.C, true))
	*c, *waits = *waits, *c
	d.conns.Give(c, err != nil)
	return err
}

// wait returns "1" if this connection has got the lock, "0" if it has not, and something else if somebody has ended the
// statement. It calls begins when that begins.
func (c conn) wait(ctx context.Context, channel, own string, begins func()) (answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, (waitSeconds+2)*time.Second)
	defer cancel()
	rows, err := c.QueryContext(ctx, fmt.Sprintf(waitSQL, channel, waitSeconds, own))
	var got sql.NullString
	if err == nil {
		defer rows.Close()
		for rows.Next() {
		}
		begins()
		if rows.NextResultSet() && rows.Next() {
			err = rows.Scan(&got)
		}
		err = cmp.Or(err, rows.Err())
	}
	if is(err, errInterrupted) {
		return "", nil
	}
	return got.String, err
}

// wanted reports whether this process is still to wait. If not, the next call of Listen begins again.
func (n *notifier) wanted() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = n.ctx.Err() == nil && (n.listening > 0 || time.Since(n.heard) < listenAgain)
	return n.waiting
}
