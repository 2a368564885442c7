package mysql

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// A notification lock is a named lock (GET_LOCK) that a leader holds and others wait for. To notify them,
// the leader releases it for a moment. That only says that something may have changed. A connection that
// breaks releases it, too, and with it a second lock, which shows that the leader is there. See
// docs/design/mysql.md, "Notifications".

const (
	waitSeconds = 4               // for which one statement waits
	lockTimeout = 2 * time.Second // of a call about this process's lock
	checkEvery  = 30 * time.Second
	listenAgain = time.Minute // for how long after the last call of Listen a lock is waited for

	// A lock that its leader has lost is looked for at intervals that double. At the first looks something
	// may have changed: the guard of a process that ended releases its leases some milliseconds later.
	firstLooks = 6
	lookEvery  = 12 * time.Millisecond
	lookLeast  = 10 * time.Second
)

const (
	takeSQL    = `SELECT GET_LOCK('%[1]s', %[2]d) AND GET_LOCK('%[1]s:', 0)`
	releaseSQL = `SELECT RELEASE_LOCK('%s')`
	retakeSQL  = `SELECT GET_LOCK('%s', 1)` // behind all listeners; each of them releases it at once
	holdsSQL   = `SELECT IS_USED_LOCK('%[1]s') = CONNECTION_ID() AND IS_USED_LOCK('%[1]s:') = CONNECTION_ID()`
	listenSQL  = `SELECT IF(IS_USED_LOCK('%[1]s') IS NULL, -1, GET_LOCK('%[1]s', %[2]d)), RELEASE_LOCK('%[1]s'), IS_USED_LOCK('%[1]s:') IS NOT NULL` // a listener that stops now delays nobody
)

// A notifier has this process's notification lock, and those that it waits for.
type notifier struct {
	most        int             // how many others are listened to
	unsupported atomic.Bool     // the server has no named locks (Galera, Vitess, TiDB, a proxy)
	ctx         context.Context // ends with close
	cancel      context.CancelFunc

	state    sync.Mutex
	heard    time.Time // when Listen was called last
	watchers map[string]context.CancelFunc
	session  string // of this process, once it has led; "": it has no lock

	mu      sync.Mutex // held while own is used
	own     *conn      // holds the lock; nil: none
	checked time.Time  // when it last did for certain: a killed session loses it without an error
}

func (n *notifier) init(most int) {
	n.most, n.watchers = most, make(map[string]context.CancelFunc)
	n.ctx, n.cancel = context.WithCancel(context.Background())
}

// lockName returns the name of a session's lock. A session is unique, whatever the schema is called in each
// process. It is in lower case, since MySQL ignores case there and MariaDB does not, and at most 64 characters.
func (d *driver) lockName(session string) string {
	return fmt.Sprintf("go-election:%.24x", sha256.Sum256([]byte(session)))
}

// Write implements [lease.Driver]. It takes this process's lock when it has been granted something, and notifies
// others when a change says so. None of this delays the caller, or fails: others poll who has no lock.
func (d *driver) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	done, err := d.Driver.Write(ctx, epoch, wentBack, changes, verify)
	if n := &d.notifier; err == nil && n.most > 0 && !n.unsupported.Load() {
		d.written(changes, done.Results)
	}
	return done, err
}

func (d *driver) written(changes []lease.Change, results []lease.Result) {
	n := &d.notifier
	n.state.Lock()
	defer n.state.Unlock()
	notifies := false
	for i, c := range changes {
		for _, p := range c.Put {
			if r, ok := p.Value.(*lease.Record); ok && r.Nonce != "" && !c.Notify && results[i].Outcome == backend.Granted {
				n.session = r.Nonce
			}
		}
		notifies = notifies || c.Notify
	}
	if n.session != "" {
		go d.keepLock(n.session, notifies)
	}
}

// keepLock takes the lock of this process, or checks now and then that it has it, and notifies others.
func (d *driver) keepLock(session string, notifies bool) {
	n := &d.notifier
	if notifies {
		n.mu.Lock()
	} else if !n.mu.TryLock() {
		return
	}
	defer n.mu.Unlock()
	ctx, cancel := context.WithTimeout(n.ctx, lockTimeout)
	defer cancel()
	name, held, err := d.lockName(session), true, error(nil)
	switch {
	case n.own == nil:
		var c conn
		if c, err = d.open(ctx, true); err == nil {
			n.own = &c
			held, err = n.own.number(ctx, takeSQL, name, 0)
		}
	case notifies:
		if _, err = n.own.number(ctx, releaseSQL, name); err == nil {
			held, err = n.own.number(ctx, retakeSQL, name)
		}
	case time.Since(n.checked) > checkEvery:
		held, err = n.own.number(ctx, holdsSQL, name)
	default:
		return
	}
	if n.checked = time.Now(); err != nil || !held || n.ctx.Err() != nil {
		n.detectUnsupported(err)
		n.dropOwn()
	}
}

// dropOwn closes the connection that has the lock, which releases it. The caller holds n.mu.
func (n *notifier) dropOwn() {
	if n.own != nil {
		n.own.drop()
		n.own = nil
	}
}

func (n *notifier) close() {
	n.cancel()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dropOwn()
}

func (n *notifier) detectUnsupported(err error) {
	if is(err, errUnsupported, errNoFunction, errSyntax) {
		n.unsupported.Store(true)
	}
}

// number runs a query that returns one number, and reports whether that is 1.
func (c conn) number(ctx context.Context, text string, args ...any) (bool, error) {
	rows, err := c.rows(ctx, fmt.Sprintf(text, args...))
	return err == nil && len(rows) == 1 && string(rows[0][0]) == "1", err
}

// Listen implements [lease.Listener]: it waits for the locks of the first holders in known.
func (d *driver) Listen(ctx context.Context, position uint64, known []lease.Item, on func([]lease.Item, uint64) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.notifier.ctx, cancel)()
	d.watch(known)
	defer d.watch(nil)
	return d.Notifications.Listen(position, on, func(position uint64) error { return d.Wait(ctx, position) })
}

// watch begins to listen to holders in known, and ends that for others. Nil: Listen has ended, and may
// be called again.
func (d *driver) watch(known []lease.Item) {
	n := &d.notifier
	n.state.Lock()
	defer n.state.Unlock()
	began := n.heard.IsZero() // it may have rung before
	n.heard = time.Now()
	wanted := make(map[string]bool)
	for _, it := range known {
		if r, ok := it.Value.(*lease.Record); ok && r.Nonce != "" && r.Nonce != n.session && len(wanted) < n.most {
			wanted[r.Nonce] = true
		}
	}
	for session, stop := range n.watchers {
		if known != nil && !wanted[session] {
			stop()
			delete(n.watchers, session)
		}
	}
	for session := range wanted {
		if n.watchers[session] == nil {
			ctx, stop := context.WithCancel(n.ctx)
			n.watchers[session] = stop
			go d.hear(ctx, session)
			began = true
		}
	}
	if began {
		d.Noted()
	}
}

// hear waits for a lock again and again until ctx ends or nobody calls Listen any more.
func (d *driver) hear(ctx context.Context, session string) {
	n, name := &d.notifier, d.lockName(session)
	var c *conn
	defer func() {
		if c != nil {
			c.drop()
		}
	}()
	for looks, pause := 0, lookEvery; n.wanted(ctx, session); {
		answer, there, err := "", false, error(nil)
		if c == nil {
			var opened conn
			if opened, err = d.open(ctx, true); err == nil {
				c = &opened
			}
		}
		if err == nil {
			answer, there, err = c.listen(ctx, name)
		}
		if answer == "0" || answer == "1" { // somebody had the lock
			looks, pause = 0, lookEvery
		}
		switch {
		case ctx.Err() != nil:
			return
		case answer == "0": // nothing has happened
			continue
		case answer == "1" && there:
			d.Noted()
			continue
		case err != nil:
			if n.detectUnsupported(err); c != nil {
				c.drop()
				c = nil
			}
		}
		if looks < firstLooks && (looks > 0 || err != nil) { // a leader that has just ended has released nothing yet
			d.Noted()
		}
		looks++
		select {
		case <-time.After(pause):
			pause = min(2*pause, lookLeast)
		case <-ctx.Done():
		}
	}
}

// listen waits for a lock: "1" if it was released, "0" if not, and "-1" if nobody holds it. there reports
// whether its leader is.
func (c conn) listen(ctx context.Context, name string) (answer string, there bool, err error) {
	rows, err := c.rows(ctx, fmt.Sprintf(listenSQL, name, waitSeconds))
	if err != nil || len(rows) != 1 {
		return "", false, err
	}
	return string(rows[0][0]), string(rows[0][2]) == "1", nil
}

// wanted reports whether the lock of a session is still waited for.
func (n *notifier) wanted(ctx context.Context, session string) bool {
	n.state.Lock()
	defer n.state.Unlock()
	if ctx.Err() != nil {
		return false
	}
	if time.Since(n.heard) > listenAgain || n.unsupported.Load() {
		delete(n.watchers, session)
		return false
	}
	return true
}
