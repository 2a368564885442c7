package mysql

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-election/go-election/backend/lease"
)

// A process that waits for changes runs a statement that sleeps and says for which table. Whoever has changed
// something lists the statements of its account and ends those (KILL QUERY). See docs/design/mysql.md,
// "Notifications".

const (
	sleepSeconds = 4
	sleepSQL     = "SELECT SLEEP(%d) AS `%s`"
	sleepersSQL  = `SHOW PROCESSLIST` // of this account, with the first 100 characters of each statement

	notifyWithin = 500 * time.Millisecond // or others poll
	listenAgain  = time.Minute            // for how long after the last call of Listen this process sleeps
	firstPause   = 50 * time.Millisecond  // after a failure; it doubles
	lastPause    = 10 * time.Second
)

// A notifier keeps the connection that sleeps.
type notifier struct {
	poll   bool            // no notifications
	ctx    context.Context // ends with close
	cancel context.CancelFunc

	mu       sync.Mutex
	heard    time.Time // when Listen was called last
	sleeping bool      // a goroutine does
}

// channel is the name under which the members of a table sleep. They may name its schema in different
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

// notify ends the sleep of others. If it fails, they poll.
func (d *driver) notify(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, notifyWithin)
	defer cancel()
	c, err := d.take(ctx)
	if err != nil {
		return
	}
	name := []byte(d.channel())
	rows, err := c.rows(ctx, sleepersSQL)
	for _, row := range rows {
		if asleep := slices.ContainsFunc(row, func(column []byte) bool { return bytes.Contains(column, name) }); asleep && err == nil {
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
	if n.heard = time.Now(); !n.sleeping {
		n.sleeping = true
		go d.sleep()
	}
	n.mu.Unlock()
	return d.Notifications.Listen(position, on, func(position uint64) error { return d.Wait(ctx, position) })
}

// sleep sleeps again and again until nobody has called Listen for a while. It says that something may
// have changed when it is woken, and when it begins: somebody may have changed something before.
func (d *driver) sleep() {
	n, c, pause := &d.notifier, conn{}, time.Duration(0)
	for n.wanted() {
		began, woken, err := c.Conn == nil, false, error(nil)
		if time.Now().After(c.until) {
			c.drop()
			c, err = d.open(n.ctx, true)
		}
		if err == nil && began {
			d.Noted()
		}
		if err == nil {
			woken, err = c.sleep(n.ctx, d.channel())
		}
		if woken {
			d.Noted()
		}
		if err == nil {
			pause = 0
			continue
		}
		c.drop()
		c, pause = conn{}, min(2*pause+firstPause, lastPause)
		select {
		case <-time.After(pause):
		case <-n.ctx.Done():
		}
	}
	c.drop()
}

// sleep reports whether somebody has woken it.
func (c conn) sleep(ctx context.Context, channel string) (woken bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, (sleepSeconds+2)*time.Second)
	defer cancel()
	rows, err := c.rows(ctx, fmt.Sprintf(sleepSQL, sleepSeconds, channel))
	if is(err, errInterrupted) {
		return true, nil
	}
	return err == nil && string(rows[0][0]) != "0", err
}

// wanted reports whether this process is still to sleep. If not, the next call of Listen begins again.
func (n *notifier) wanted() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sleeping = n.ctx.Err() == nil && time.Since(n.heard) < listenAgain
	return n.sleeping
}
