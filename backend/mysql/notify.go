package mysql

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
)

// A process that waits for changes runs a statement that waits for a named lock, which a connection of its
// calls has. Whoever has changed something ends it (KILL QUERY): see docs/design/mysql.md, "Notifications".

const (
	waitSQL     = "SELECT '%[1]s' AS `%[2]s`; SELECT GET_LOCK('%[2]s', %[3]d) AS `%[1]s`" // the first begins
	waitSeconds = 4
	waitersSQL  = `SHOW PROCESSLIST` // of this account, with the first 100 characters of each statement

	notifyWithin = 500 * time.Millisecond // or others poll
	listenOn     = 5 * time.Second        // for how long it waits after the last call of Listen, or a failure
)

// A notifier has the connection that waits.
type notifier struct {
	poll bool   // no notifications
	own  string // the lock of this process

	pending sync.WaitGroup                     // notifications under way
	yield   atomic.Pointer[context.CancelFunc] // closes the connection that waits, for a while; nil: none

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

// channel is in the statements with which the members of a table wait. They may name its schema in different
// ways, but have read the same epoch.
func (d *driver) channel() string {
	return fmt.Sprintf("go-election:%.24x", sha256.Sum256([]byte(d.Epoch())))
}

// Write implements [lease.Driver]. It notifies others when a change says so.
func (d *driver) Write(ctx context.Context, epoch string, wentBack int,
	changes []lease.Change, verify []lease.Item) (lease.Written, error) {
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
		text := string(bytes.Join(row, nil))
		if err == nil && strings.Contains(text, d.channel()) && !strings.Contains(text, d.notifier.own) {
			if _, err = c.C.ExecContext(ctx, fmt.Sprintf("KILL QUERY %d", number(row[0]))); code(err) != 0 {
				err = nil // it has just ended, or is another account's
			}
		}
	}
	d.conns.Give(c, err != nil)
}

// Listen implements [lease.Listener]: it hears of all changes of the table that somebody waits for.
func (d *driver) Listen(ctx context.Context, position uint64,
	_ []lease.Item, on func([]lease.Item, uint64) bool) error {
	n := &d.notifier
	n.mu.Lock()
	if n.listening++; !n.waiting {
		n.waiting = true
		go d.waitWhileWanted()
	}
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.listening--
		n.heard = time.Now()
	}()
	return d.Driver.Listen(ctx, position, on, d.Wait)
}

// wanted reports whether this process is still to wait. If not, the next call of Listen begins again.
func (d *driver) wanted() bool {
	n := &d.notifier
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = d.Context.Err() == nil && (n.listening > 0 || time.Since(n.heard) < listenOn)
	return n.waiting
}

// waitWhileWanted waits, on one connection after another.
func (d *driver) waitWhileWanted() {
	for d.wanted() {
		ctx, yield := context.WithCancel(d.Context)
		d.notifier.yield.Store(&yield)
		err := d.waitOnOne(ctx)
		d.notifier.yield.Store(nil)
		yield()
		if err == nil {
			return
		}
		client.Pause(d.Context, listenOn)
	}
}

// errLeave ends a connection: the program needs it, or it leads to another server than those of the calls.
var errLeave = errors.New("this connection waits no longer")

// waitOnOne waits on one connection until that fails, or nobody has called Listen for a while: then it
// returns nil. It says that something may have changed when the first statement waits, and after somebody has
// ended one: as soon as the next one waits, so that no change falls between.
func (d *driver) waitOnOne(ctx context.Context) error {
	if s := d.db.Stats(); !d.ownDB && s.MaxOpenConnections > 0 && s.InUse >= s.MaxOpenConnections {
		return errLeave
	}
	c, err := d.open(ctx, true)
	if err != nil {
		return err
	}
	defer c.drop()

	waited, before := d.db.Stats().WaitCount, ""
	for missed := true; d.wanted(); {
		if !d.ownDB && d.db.Stats().WaitCount > waited {
			return errLeave
		}
		answer, err := c.wait(ctx, d.channel(), d.notifier.own, func() {
			if missed {
				d.Noted()
			}
			missed = false
		})
		missed = missed || answer != "0"
		if answer == "1" && before == "1" {
			return errLeave
		}
		before = answer
		if answer == "1" { // no connection of the calls has the lock, or it was replaced
			_, err = c.rows(ctx, "DO RELEASE_LOCK('"+d.notifier.own+"')")
			if err == nil {
				_, err = d.query(ctx, "DO GET_LOCK('"+d.notifier.own+"', 0)")
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wait returns "1" if this connection has got the lock, "0" if it has not, and "" if somebody has ended the
// statement. It calls begins when that begins.
func (c conn) wait(ctx context.Context, channel, own string, begins func()) (answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, (waitSeconds+2)*time.Second)
	defer cancel()
	rows, err := c.QueryContext(ctx, fmt.Sprintf(waitSQL, channel, own, waitSeconds))
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
