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

// The notification lock. A leader holds a named lock (GET_LOCK) that nobody else wants;
// its followers wait for it. When the leader releases a lease it lets go of the
// lock for a moment, and they wake up in less than a millisecond. So does a
// connection that breaks. It is a hint to read now and nothing more: the row
// alone says who leads.

// notifyPatience bounds what a call spends on its own notification lock, and how long Listen waits
// for its statement to be stopped.
const notifyPatience = 250 * time.Millisecond

// notifyCheck is how often a leader looks whether it still has its notifier: a killed
// session or a restarted server has taken it away in silence.
const notifyCheck = 30 * time.Second

// FIRST waiting, THEN letting go, in one statement, so that no follower that is
// stopped in between keeps the others asleep.
const (
	awaitSQL  = `SELECT GET_LOCK(?, ?), RELEASE_LOCK(?)`
	takeSQL   = `SELECT GET_LOCK(?, 0)`
	retakeSQL = `SELECT GET_LOCK(?, 1)`
	notifySQL = `SELECT RELEASE_LOCK(?)`
	mineSQL   = `SELECT IS_USED_LOCK(?) = CONNECTION_ID()`
	whoamiSQL = `SELECT CONNECTION_ID(), {server}, IS_USED_LOCK(?) IS NOT NULL`

	// killSQL kills if the server is the one whose session is meant: this comes
	// by another connection, which a proxy or a failover may have led elsewhere.
	// There is no session 0. The identity is in hexadecimal.
	killSQL = `KILL QUERY IF({server} = X'%x', %d, 0)`
)

// notifyLockName returns the name of a leader's lock: lower case, since MySQL ignores
// case there and MariaDB does not, and at most 64 characters.
func (b *Backend) notifyLockName(nonce string) string {
	sum := sha256.Sum256([]byte(b.notifier.about + " " + nonce))
	return fmt.Sprintf("go-election:%x", sum[:24])
}

// A notification lock is this Backend's own, and what it knows of notification locks in general.
type notifier struct {
	about    string        // the tables, however they are named: one process may lead in several
	most     int           // how many of others to listen to
	patience time.Duration // notifyPatience; tests on a busy machine have more

	mu     sync.Mutex // held while the own session is in use
	own    *sql.Conn  // the session that has our notification lock; nil: none
	looked time.Time  // when it was last known to have it

	notes   sync.Mutex
	held    map[string]bool // elections that we hold
	without []string        // leaders, by their nonces, that were seen to have no notification lock
	dumb    bool            // the server has no notification locks
}

func (l *notifier) holds(names ...string) {
	l.notes.Lock()
	defer l.notes.Unlock()
	if l.held == nil {
		l.held = make(map[string]bool)
	}
	for _, name := range names {
		l.held[name] = true
	}
}

func (l *notifier) released(names ...string) {
	l.notes.Lock()
	defer l.notes.Unlock()
	for _, name := range names {
		delete(l.held, name)
	}
}

func (l *notifier) leads() bool {
	l.notes.Lock()
	defer l.notes.Unlock()
	return len(l.held) > 0
}

// missing notes whether a leader has a notification lock, and reports whether it was seen to have
// none before.
func (l *notifier) missing(nonce string, has bool) (again bool) {
	l.notes.Lock()
	defer l.notes.Unlock()
	again = slices.Contains(l.without, nonce)
	switch {
	case has:
		l.without = slices.DeleteFunc(l.without, func(n string) bool { return n == nonce })
	case !again:
		l.without = append(l.without, nonce)
	}
	return again
}

// forget forgets all leaders but these.
func (l *notifier) forget(but []string) {
	l.notes.Lock()
	defer l.notes.Unlock()
	l.without = slices.DeleteFunc(l.without, func(n string) bool { return !slices.Contains(but, n) })
}

func (l *notifier) isDumb() bool {
	l.notes.Lock()
	defer l.notes.Unlock()
	return l.dumb
}

// silence notes that the server has no notification locks, if err says so (Galera, Vitess,
// TiDB, a proxy). Then all is polled.
func (l *notifier) silence(err error) bool {
	if !is(err, errUnsupported, errNoFunction, errSyntax) {
		return false
	}
	l.notes.Lock()
	defer l.notes.Unlock()
	l.dumb = true
	return true
}

func (l *notifier) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own != nil {
		drop(l.own)
		l.own.Close()
		l.own = nil
	}
}

// takeNotifyLock takes this Backend's own notification lock if it leads anything. It never fails: a
// leader without a notification lock is polled.
func (b *Backend) takeNotifyLock(ctx context.Context) {
	l := &b.notifier
	if b.notifyConns == nil || l.isDumb() || !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	if !l.leads() {
		if l.own != nil { // it has lost all it held
			b.releaseNotifyLock(true)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	name := b.notifyLockName(b.guard.Nonce())
	if l.own != nil {
		if time.Since(l.looked) < notifyCheck {
			return
		}
		if n, err := b.ask1(ctx, l.own, mineSQL, name); err == nil && n == 1 {
			l.looked = time.Now()
			return
		}
		b.releaseNotifyLock(true)
	}
	conn, err := b.notifyConns.Conn(ctx)
	if err != nil {
		return
	}
	n, err := b.ask1(ctx, conn, takeSQL, name)
	if err != nil || n != 1 {
		l.silence(err)
		conn.Close()
		return
	}
	l.own, l.looked = conn, time.Now()
	b.db.SetMaxOpenConns(maxConns - 1)
}

// releaseNotifyLock gives the own session back, or away if it is spoilt. l.mu is held.
func (b *Backend) releaseNotifyLock(spoilt bool) {
	if spoilt {
		drop(b.notifier.own)
	}
	b.notifier.own.Close()
	b.notifier.own = nil
	b.db.SetMaxOpenConns(maxConns)
}

// ring wakes the followers, and takes the notification lock again if we still lead anything.
func (b *Backend) ring(ctx context.Context) {
	l := &b.notifier
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	name := b.notifyLockName(b.guard.Nonce())
	if _, err := b.ask1(ctx, l.own, notifySQL, name); err != nil {
		b.releaseNotifyLock(true) // that rings too
		return
	}
	if !l.leads() {
		b.releaseNotifyLock(false)
		return
	}
	// Behind all who are waiting; each of them lets go at once.
	if n, err := b.ask1(ctx, l.own, retakeSQL, name); err != nil || n != 1 {
		b.releaseNotifyLock(true)
		return
	}
	l.looked = time.Now()
}

// ask1 runs a query that answers with one number; NULL is -1.
func (b *Backend) ask1(ctx context.Context, conn *sql.Conn, text string, args ...any) (int64, error) {
	var n sql.NullInt64
	if err := conn.QueryRowContext(ctx, text, args...).Scan(&n); err != nil {
		return 0, err
	}
	if !n.Valid {
		return -1, nil
	}
	return n.Int64, nil
}

// Listen implements [backend.Backend]: it waits for the notification locks of those who lead
// most of the leases in seen. It hears of releases and broken connections, not of
// anything else. A leader without a notification lock, which may just have rung it, makes it return
// once, and is not waited for after that until it has one.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	if err := b.enter(""); err != nil {
		return err
	}
	leaders := b.loudest(seen)
	b.notifier.forget(leaders)
	if len(leaders) == 0 || b.notifier.isDumb() {
		<-ctx.Done()
		return ctx.Err()
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	ended := make(chan error, len(leaders))
	for _, nonce := range leaders {
		all.Go(func() {
			ended <- b.await(waiting, nonce)
			stop() // one is enough
		})
	}
	all.Wait()
	err := <-ended // the first to end is why all ended
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if b.notifier.silence(err) {
		<-ctx.Done()
		return ctx.Err()
	}
	return b.fail("listen", err)
}

// loudest returns the nonces of the first other processes in seen, not more than
// there are connections for.
func (b *Backend) loudest(seen []backend.Lease) []string {
	self := b.guard.Nonce()
	var nonces []string
	for i := range seen {
		nonce := seen[i].Holder.Nonce
		if nonce != "" && nonce != self && len(nonces) < b.notifier.most && !slices.Contains(nonces, nonce) {
			nonces = append(nonces, nonce)
		}
	}
	return nonces
}

// await waits for the notification lock of one leader. nil: it rang, or may have.
func (b *Backend) await(ctx context.Context, nonce string) error {
	for look := notifyPatience; ; {
		conn, err := b.notifyConns.Conn(ctx)
		if err != nil {
			return err
		}
		there, rang, err := b.awaitOn(ctx, conn, b.notifyLockName(nonce))
		if err != nil {
			drop(conn)
		}
		conn.Close()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case fresh(err): // died while it was idle; nothing was sent
			continue
		case err != nil:
			return err
		}
		again := b.notifier.missing(nonce, there)
		switch {
		case rang:
			return nil
		case there:
			look = notifyPatience
			continue
		case !again:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(look):
			look = min(2*look, notifyWait*time.Second)
		}
	}
}

// awaitOn waits on one connection for notifyWait at most, if there is such a notifier. When ctx
// ends it stops the statement in the server, where it would go on and be the next to get
// the lock; the connection can then be used again. If it cannot be stopped, the
// connection is closed, and GET_LOCK ends by itself.
func (b *Backend) awaitOn(ctx context.Context, conn *sql.Conn, name string) (there, rang bool, err error) {
	var id int64
	var server string
	texts := b.statements.Load()
	if err := conn.QueryRowContext(ctx, texts.text[whoamiSQL], name).Scan(&id, &server, &there); err != nil || !there {
		return false, false, err
	}
	query, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	ended := make(chan struct{})
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		short, cancel := context.WithTimeout(context.Background(), b.notifier.patience)
		defer cancel()
		if _, err := b.db.ExecContext(short, fmt.Sprintf(texts.text[killSQL], server, id)); err != nil {
			cut()
		}
		select {
		case <-ended:
		case <-short.Done():
			cut()
		}
	})
	var got, let sql.NullInt64
	err = conn.QueryRowContext(query, awaitSQL, name, notifyWait, name).Scan(&got, &let)
	close(ended)
	if !stop() {
		<-killed // not before: it might hit the next statement
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
