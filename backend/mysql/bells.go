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

// A bell is a named lock (GET_LOCK) that a process holds and others wait for. To ring it, the process
// releases it for a moment. A connection that breaks rings it, too. It only says that something may
// have changed. See docs/design/mysql.md, "Notifications".

const (
	bellPatience = 4               // seconds for which one statement waits
	bellTimeout  = 2 * time.Second // of a call about this process's bell
	bellCheck    = 30 * time.Second
	listenAgain  = time.Minute // a bell is listened to for that long after the last call of Listen

	// After a bell has rung, or when there is none, it is looked for so often: each time something may
	// have changed. The end of a process rings its bell, and its guard releases its leases after that.
	bellLooks = 10
	lookEvery = 5 * time.Millisecond
	lookLeast = 10 * time.Second
)

const (
	takeSQL   = `SELECT GET_LOCK('%s', %d)`
	ringSQL   = `SELECT RELEASE_LOCK('%s')`
	holdsSQL  = `SELECT IS_USED_LOCK('%s') = CONNECTION_ID()`
	listenSQL = `SELECT IF(IS_USED_LOCK('%[1]s') IS NULL, -1, GET_LOCK('%[1]s', %[2]d)), RELEASE_LOCK('%[1]s')` // a listener that stops now delays nobody
)

// bells has this process's bell, and those that it listens to.
type bells struct {
	most        int             // how many others are listened to
	rung        atomic.Uint64   // how often something may have changed
	unsupported atomic.Bool     // the server has no named locks (Galera, Vitess, TiDB, a proxy)
	ctx         context.Context // ends with close
	cancel      context.CancelFunc

	state    sync.Mutex
	changed  chan struct{} // closed, and replaced, when a bell has rung
	heard    time.Time     // when Listen was called last
	watchers map[string]context.CancelFunc
	session  string // of this process, once it has led; "": it has no bell

	mu      sync.Mutex // held while own is used
	own     *conn      // holds the lock; nil: none
	checked time.Time  // when it last did for certain: a killed session loses it without an error
}

func (b *bells) init(most int) {
	b.most, b.changed, b.watchers = most, make(chan struct{}), make(map[string]context.CancelFunc)
	b.ctx, b.cancel = context.WithCancel(context.Background())
}

// lockName returns the name of a session's lock. A session is unique, whatever the schema is called in each
// process. It is in lower case, since MySQL ignores case there and MariaDB does not, and at most 64 characters.
func (d *driver) lockName(session string) string {
	return fmt.Sprintf("go-election:%.24x", sha256.Sum256([]byte(session)))
}

// written takes this process's bell when it has been granted something, and rings it when a change says
// so. None of this delays the caller, or fails: others poll who has no bell.
func (d *driver) written(changes []lease.Change, results []lease.Result) {
	b := &d.bells
	if b.most == 0 || b.unsupported.Load() {
		return
	}
	b.state.Lock()
	defer b.state.Unlock()
	rings := false
	for i, c := range changes {
		for _, p := range c.Put {
			if r, ok := p.Value.(*lease.Record); ok && r.Nonce != "" && !c.Notify && results[i].Outcome == backend.Granted {
				b.session = r.Nonce
			}
		}
		rings = rings || c.Notify
	}
	if b.session != "" {
		go d.keepBell(b.session, rings)
	}
}

// keepBell takes the bell of this process, or checks now and then that it has it, and rings it.
func (d *driver) keepBell(session string, rings bool) {
	b := &d.bells
	if rings {
		b.mu.Lock()
	} else if !b.mu.TryLock() {
		return
	}
	defer b.mu.Unlock()
	ctx, cancel := context.WithTimeout(b.ctx, bellTimeout)
	defer cancel()
	name, held, err := d.lockName(session), true, error(nil)
	switch {
	case b.own == nil:
		var c conn
		if c, err = d.open(ctx, true); err == nil {
			b.own = &c
			held, err = b.own.number(ctx, takeSQL, name, 0)
		}
	case rings:
		if _, err = b.own.number(ctx, ringSQL, name); err == nil {
			held, err = b.own.number(ctx, takeSQL, name, 1) // behind all listeners; each of them releases it at once
		}
	case time.Since(b.checked) > bellCheck:
		held, err = b.own.number(ctx, holdsSQL, name)
	default:
		return
	}
	if b.checked = time.Now(); err != nil || !held || b.ctx.Err() != nil {
		b.detectUnsupported(err)
		b.dropOwn()
	}
}

// dropOwn closes the connection that has the bell, which rings it. The caller holds b.mu.
func (b *bells) dropOwn() {
	if b.own != nil {
		b.own.drop()
		b.own = nil
	}
}

func (b *bells) close() {
	b.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropOwn()
}

func (b *bells) detectUnsupported(err error) {
	if is(err, errUnsupported, errNoFunction, errSyntax) {
		b.unsupported.Store(true)
	}
}

// number runs a query that returns one number, and reports whether that is 1.
func (c conn) number(ctx context.Context, text string, args ...any) (bool, error) {
	rows, err := c.rows(ctx, fmt.Sprintf(text, args...))
	return err == nil && len(rows) == 1 && string(rows[0][0]) == "1", err
}

// Listen implements [lease.Listener]: it listens to the bells of the first holders in known. A position is
// how often a bell has rung, plus one.
func (d *driver) Listen(ctx context.Context, position uint64, known []lease.Item, on func([]lease.Item, uint64) bool) error {
	b := &d.bells
	d.watch(known)
	defer d.watch(nil)
	for {
		b.state.Lock()
		changed := b.changed
		b.state.Unlock()
		now := b.rung.Load() + 1
		switch {
		case position == 0 || position > now:
			return nil
		case position < now:
			if !on(nil, now) {
				return nil
			}
			position = now
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-b.ctx.Done():
			return b.ctx.Err()
		}
	}
}

// watch begins to listen to holders in known, and ends that for others. Nil: Listen has ended, and may
// be called again.
func (d *driver) watch(known []lease.Item) {
	b := &d.bells
	b.state.Lock()
	defer b.state.Unlock()
	began := b.heard.IsZero() // it may have rung before
	b.heard = time.Now()
	wanted := make(map[string]bool)
	for _, it := range known {
		if r, ok := it.Value.(*lease.Record); ok && r.Nonce != "" && r.Nonce != b.session && len(wanted) < b.most {
			wanted[r.Nonce] = true
		}
	}
	for session, stop := range b.watchers {
		if known != nil && !wanted[session] {
			stop()
			delete(b.watchers, session)
		}
	}
	for session := range wanted {
		if b.watchers[session] == nil {
			ctx, stop := context.WithCancel(b.ctx)
			b.watchers[session] = stop
			go d.hear(ctx, session)
			began = true
		}
	}
	if began {
		b.ringLocked()
	}
}

// hear listens to a bell until ctx ends or nobody calls Listen any more.
func (d *driver) hear(ctx context.Context, session string) {
	b, name := &d.bells, d.lockName(session)
	var c *conn
	defer func() {
		if c != nil {
			c.drop()
		}
	}()
	for looks, pause := 0, lookEvery; b.wanted(ctx, session); {
		answer, err := "", error(nil)
		if c == nil {
			var opened conn
			if opened, err = d.open(ctx, true); err == nil {
				c = &opened
			}
		}
		if err == nil {
			answer, err = c.listen(ctx, name)
		}
		switch {
		case ctx.Err() != nil:
			return
		case answer == "0": // nothing has happened
			continue
		case answer == "1":
			b.ring()
			looks, pause = 0, lookEvery
			continue
		case err != nil:
			if b.detectUnsupported(err); c != nil {
				c.drop()
				c = nil
			}
		}
		if looks++; looks <= bellLooks {
			b.ring()
		} else {
			pause = min(2*pause, lookLeast)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// listen waits for a lock: "1" if it was released, "0" if not, and "-1" if nobody holds it.
func (c conn) listen(ctx context.Context, name string) (string, error) {
	rows, err := c.rows(ctx, fmt.Sprintf(listenSQL, name, bellPatience))
	if err != nil || len(rows) != 1 {
		return "", err
	}
	return string(rows[0][0]), nil
}

// wanted reports whether the bell of a session is still listened to.
func (b *bells) wanted(ctx context.Context, session string) bool {
	b.state.Lock()
	defer b.state.Unlock()
	if ctx.Err() != nil {
		return false
	}
	if time.Since(b.heard) > listenAgain || b.unsupported.Load() {
		delete(b.watchers, session)
		return false
	}
	return true
}

// ring notes that something may have changed.
func (b *bells) ring() {
	b.state.Lock()
	defer b.state.Unlock()
	b.ringLocked()
}

func (b *bells) ringLocked() {
	b.rung.Add(1)
	close(b.changed)
	b.changed = make(chan struct{})
}
