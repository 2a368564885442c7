package mysql

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

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

	mu        sync.Mutex
	listening int       // calls of Listen
	heard     time.Time // when the last one ended
	waiting   bool      // a goroutine does
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
		if changes[i].Notify && err == nil && !d.notifier.poll {
			d.notify(ctx)
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
	n, c, pause, missed := &d.notifier, conn{}, time.Duration(0), true
	var keeper conn // has the lock, or had it: the server ends it after wait_timeout, and then another process has it
	for n.wanted() {
		answer, err := "", error(nil)
		if time.Now().After(c.until) {
			c.drop()
			c, err = d.open(n.ctx, true)
		}
		if err == nil {
			if missed {
				d.Noted()
			}
			answer, err = c.wait(n.ctx, d.channel(), n.own)
		}
		missed = err != nil
		switch {
		case missed:
			c.drop()
			c, pause = conn{}, min(2*pause+firstPause, lastPause)
			select {
			case <-time.After(pause):
			case <-n.ctx.Done():
			}
			continue
		case answer == "1":
			keeper.drop()
			keeper, c = c, conn{}
		case answer != "0":
			d.Noted()
		}
		pause = 0
	}
	c.drop()
	keeper.drop()
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
