package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// The notification lock is a named lock (GET_LOCK) that a leader holds and its followers
// wait for. When the leader releases a lease, it releases the lock for a moment, and the
// followers wake up. A notification is a hint to read now; the row alone says who leads.
// See docs/design/mysql.md, "Notifications".

// notifyCallTimeout bounds what a call spends on this Backend's own notification lock, and
// how long Listen waits for its statement to be stopped.
const notifyCallTimeout = 250 * time.Millisecond

// notifyCheckEvery is how often a leader checks that it still holds its lock: a killed
// session or a restarted server takes it away without an error.
const notifyCheckEvery = 30 * time.Second

const (
	// One statement waits for the lock and then releases it, so that a follower that
	// is stopped in between does not delay the others.
	awaitLockSQL = `SELECT GET_LOCK(?, ?), RELEASE_LOCK(?)`

	takeLockSQL     = `SELECT GET_LOCK(?, 0)`
	retakeLockSQL   = `SELECT GET_LOCK(?, 1)`
	releaseLockSQL  = `SELECT RELEASE_LOCK(?)`
	holdsLockSQL    = `SELECT IS_USED_LOCK(?) = CONNECTION_ID()`
	identifyConnSQL = `SELECT CONNECTION_ID(), {server}, IS_USED_LOCK(?) IS NOT NULL`

	// killSQL is sent on another connection, which a proxy or a failover may have led
	// to another server. There it kills session 0, which does not exist. The identity
	// is in hexadecimal.
	killSQL = `KILL QUERY IF({server} = X'%x', %d, 0)`
)

// notifyLockName returns the name of a leader's lock: in lower case, since MySQL ignores
// case there and MariaDB does not, and at most 64 characters.
func (b *Backend) notifyLockName(nonce backend.Nonce) string {
	sum := sha256.Sum256([]byte(b.notifier.tables + " " + string(nonce)))
	return fmt.Sprintf("go-election:%x", sum[:24])
}

// A notifier has this Backend's own notification lock, and what it knows of the locks of
// other leaders.
type notifier struct {
	tables     string        // schema and table: one process may lead in several
	maxLeaders int           // how many other leaders to listen to
	timeout    time.Duration // notifyCallTimeout; tests on a busy machine use more

	mu      sync.Mutex // held while conn is in use
	conn    *sql.Conn  // the connection that holds our lock; nil: none
	checked time.Time  // when conn last held the lock for certain

	state       sync.Mutex
	held        map[string]bool // elections that this process leads
	lockless    []backend.Nonce // nonces of leaders that had no notification lock when we looked
	unsupported bool            // the server has no named locks
}

func (l *notifier) markHeld(names ...string) {
	l.state.Lock()
	defer l.state.Unlock()
	if l.held == nil {
		l.held = make(map[string]bool)
	}
	for _, name := range names {
		l.held[name] = true
	}
}

func (l *notifier) markReleased(names ...string) {
	l.state.Lock()
	defer l.state.Unlock()
	for _, name := range names {
		delete(l.held, name)
	}
}

func (l *notifier) leading() bool {
	l.state.Lock()
	defer l.state.Unlock()
	return len(l.held) > 0
}

// recordLock records whether a leader has a notification lock. It reports whether that
// leader had none before.
func (l *notifier) recordLock(nonce backend.Nonce, has bool) (hadNone bool) {
	l.state.Lock()
	defer l.state.Unlock()
	hadNone = slices.Contains(l.lockless, nonce)
	switch {
	case has:
		l.lockless = slices.DeleteFunc(l.lockless, func(n backend.Nonce) bool { return n == nonce })
	case !hadNone:
		l.lockless = append(l.lockless, nonce)
	}
	return hadNone
}

// forgetExcept forgets all leaders but these.
func (l *notifier) forgetExcept(leaders []backend.Nonce) {
	l.state.Lock()
	defer l.state.Unlock()
	l.lockless = slices.DeleteFunc(l.lockless, func(n backend.Nonce) bool { return !slices.Contains(leaders, n) })
}

func (l *notifier) isUnsupported() bool {
	l.state.Lock()
	defer l.state.Unlock()
	return l.unsupported
}

// detectUnsupported reports whether err says that the server has no named locks (Galera,
// Vitess, TiDB, a proxy). If so, everything is polled from now on.
func (l *notifier) detectUnsupported(err error) bool {
	if !is(err, errUnsupported, errNoFunction, errSyntax) {
		return false
	}
	l.state.Lock()
	defer l.state.Unlock()
	l.unsupported = true
	return true
}

func (l *notifier) closeConn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		drop(l.conn)
		l.conn.Close()
		l.conn = nil
	}
}

// takeNotifyLock takes this Backend's own notification lock if it leads anything, and
// checks now and then that it still holds it. It never fails: followers poll a leader that
// has no lock.
func (b *Backend) takeNotifyLock(ctx context.Context) {
	l := &b.notifier
	if b.notifyConns == nil || l.isUnsupported() || !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	if !l.leading() {
		if l.conn != nil { // this process has lost all its leases
			b.returnNotifyConn(true)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	name := b.notifyLockName(b.owner.Nonce())
	if l.conn != nil {
		if time.Since(l.checked) < notifyCheckEvery {
			return
		}
		if n, err := b.queryNumber(ctx, l.conn, holdsLockSQL, name); err == nil && n == 1 {
			l.checked = time.Now()
			return
		}
		b.returnNotifyConn(true)
	}
	conn, err := b.notifyConns.Conn(ctx)
	if err != nil {
		return
	}
	n, err := b.queryNumber(ctx, conn, takeLockSQL, name)
	if err != nil || n != 1 {
		l.detectUnsupported(err)
		conn.Close()
		return
	}
	l.conn, l.checked = conn, time.Now()
	b.db.SetMaxOpenConns(maxConns - 1)
}

// returnNotifyConn returns the connection of our own lock to its pool, or closes it, which
// releases the lock. The caller holds notifier.mu.
func (b *Backend) returnNotifyConn(closeIt bool) {
	if closeIt {
		drop(b.notifier.conn)
	}
	b.notifier.conn.Close()
	b.notifier.conn = nil
	b.db.SetMaxOpenConns(maxConns)
}

// notify wakes the followers by releasing our lock. It takes the lock again if this process
// still leads anything.
func (b *Backend) notify(ctx context.Context) {
	l := &b.notifier
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	name := b.notifyLockName(b.owner.Nonce())
	if _, err := b.queryNumber(ctx, l.conn, releaseLockSQL, name); err != nil {
		b.returnNotifyConn(true) // closing it releases the lock too
		return
	}
	if !l.leading() {
		b.returnNotifyConn(false)
		return
	}
	// This waits behind all followers; each of them releases the lock at once.
	if n, err := b.queryNumber(ctx, l.conn, retakeLockSQL, name); err != nil || n != 1 {
		b.returnNotifyConn(true)
		return
	}
	l.checked = time.Now()
}

// queryNumber runs a query that returns one number; NULL is -1.
func (b *Backend) queryNumber(ctx context.Context, conn *sql.Conn, text string, args ...any) (int64, error) {
	var n sql.NullInt64
	if err := conn.QueryRowContext(ctx, text, args...).Scan(&n); err != nil {
		return 0, err
	}
	if !n.Valid {
		return -1, nil
	}
	return n.Int64, nil
}

// Listen implements [backend.Backend]: it waits for the notification locks of the leaders
// with the most leases in seen. Only releases and broken connections wake it. For a leader
// without a lock it returns once, since a notification may just have been sent; after that
// it ignores that leader until there is a lock.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	if err := b.enter(""); err != nil {
		return err
	}
	leaders := b.leadersToAwait(seen)
	b.notifier.forgetExcept(leaders)
	if len(leaders) == 0 || b.notifier.isUnsupported() {
		<-ctx.Done()
		return ctx.Err()
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	ended := make(chan error, len(leaders))
	for _, nonce := range leaders {
		all.Go(func() {
			ended <- b.awaitNotification(waiting, nonce)
			stop() // one notification is enough
		})
	}
	all.Wait()
	err := <-ended // the first one made the others end
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if b.notifier.detectUnsupported(err) {
		<-ctx.Done()
		return ctx.Err()
	}
	return b.fail("listen", err)
}

// leadersToAwait returns the nonces of the first other leaders in seen, as many as there
// are connections for.
func (b *Backend) leadersToAwait(seen []backend.Lease) []backend.Nonce {
	self := b.owner.Nonce()
	var nonces []backend.Nonce
	for i := range seen {
		nonce := seen[i].Holder.Nonce
		if nonce != "" && nonce != self && len(nonces) < b.notifier.maxLeaders && !slices.Contains(nonces, nonce) {
			nonces = append(nonces, nonce)
		}
	}
	return nonces
}

// awaitNotification waits for the notification lock of one leader. It returns nil if the
// leader has notified its followers, or may have.
func (b *Backend) awaitNotification(ctx context.Context, nonce backend.Nonce) error {
	for pause := notifyCallTimeout; ; {
		conn, err := b.notifyConns.Conn(ctx)
		if err != nil {
			return err
		}
		exists, notified, err := b.awaitOnConn(ctx, conn, b.notifyLockName(nonce))
		if err != nil {
			drop(conn)
		}
		conn.Close()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case nothingSent(err):
			continue
		case err != nil:
			return err
		}
		hadNone := b.notifier.recordLock(nonce, exists)
		switch {
		case notified:
			return nil
		case exists:
			pause = notifyCallTimeout
			continue
		case !hadNone:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
			pause = min(2*pause, notifyWait*time.Second)
		}
	}
}

// awaitOnConn waits on one connection for a lock, if that exists, for notifyWait at most.
// When ctx ends it stops the statement in the server. There it would go on and be the next
// to get the lock. The connection can then be used again. If the statement cannot be
// stopped, the connection is closed, and GET_LOCK ends by itself.
func (b *Backend) awaitOnConn(ctx context.Context, conn *sql.Conn, name string) (exists, notified bool, err error) {
	var id int64
	var server string
	texts := b.statements.Load()
	if err := conn.QueryRowContext(ctx, texts.text[identifyConnSQL], name).Scan(&id, &server, &exists); err != nil || !exists {
		return false, false, err
	}
	query, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	ended := make(chan struct{})
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		short, cancel := context.WithTimeout(context.Background(), b.notifier.timeout)
		defer cancel()
		if _, err := b.db.ExecContext(short, fmt.Sprintf(texts.text[killSQL], server, id)); err != nil {
			abandon()
		}
		select {
		case <-ended:
		case <-short.Done():
			abandon()
		}
	})
	var got, released sql.NullInt64
	err = conn.QueryRowContext(query, awaitLockSQL, name, notifyWait, name).Scan(&got, &released)
	close(ended)
	if !stop() {
		<-killed // a later KILL could stop the next statement
	}
	switch {
	case is(err, errInterrupted) && ctx.Err() != nil:
		return true, false, nil
	case err != nil:
		return true, false, err
	case !got.Valid && ctx.Err() == nil:
		return true, false, errors.New("GET_LOCK returned NULL: a limit on the running time, a KILL, or no memory")
	}
	return true, got.Int64 == 1, nil
}
