package redis

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/go-election/go-election/backend/lease"
)

// A listener is a subscription, on a connection of its own that stays open between calls of Listen.
type listener struct {
	sub   *goredis.PubSub
	own   goredis.UniversalClient // of this subscription: the one of the calls is replaced now and then; nil: the program's
	ended chan struct{}
	err   error // why it has ended
}

// Listen implements [lease.Listener] by SUBSCRIBE. It only says that something has changed. A position is how
// often that was said, plus one.
func (d *driver) Listen(ctx context.Context, position uint64, _ []lease.Item, on func([]lease.Item, uint64) bool) error {
	for {
		l, now, changed := d.listen()
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
		case <-l.ended:
			return d.fail(l.err)
		case <-ctx.Done():
			return ctx.Err()
		case <-d.ctx.Done():
			return d.ctx.Err()
		}
	}
}

// listen subscribes, unless it has. It returns the position, and what is closed by the next change.
func (d *driver) listen() (l *listener, position uint64, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener == nil {
		l := &listener{ended: make(chan struct{})}
		if d.newClient != nil {
			l.own = d.newClient()
			l.sub = l.own.Subscribe(d.ctx)
		} else {
			l.sub = d.clients.Get().Subscribe(d.ctx)
		}
		d.listener = l
		go d.hear(d.listener, time.Until(d.quiet))
	}
	return d.listener, d.position, d.changed
}

// hear notes that something may have changed, until the connection breaks. What was missed before it
// was made counts as well. It begins after a while.
func (d *driver) hear(l *listener, after time.Duration) {
	pause(d.ctx, after)
	for l.err = l.sub.Subscribe(d.ctx, d.channel()); l.err == nil; {
		if _, l.err = l.sub.Receive(d.ctx); l.err == nil {
			d.mu.Lock()
			d.position++
			close(d.changed)
			d.changed = make(chan struct{})
			d.mu.Unlock()
		}
	}
	l.sub.Close()
	if l.own != nil {
		l.own.Close()
	}
	d.mu.Lock()
	if d.listener == l {
		d.listener = nil
	}
	d.mu.Unlock()
	close(l.ended)
}

// listenerPause is how long there is no listener after its place was needed.
const listenerPause = 10 * time.Second

// giveWay closes the listener's connection, since a call needs its place. It returns false if there is none.
func (d *driver) giveWay() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener == nil || time.Now().Before(d.quiet) {
		return false
	}
	d.quiet = time.Now().Add(listenerPause)
	d.dropListener()
	return true
}

// dropListener ends the subscription. The caller holds d.mu.
func (d *driver) dropListener() {
	if d.listener != nil {
		go d.listener.sub.Close() // it waits for a dial
		d.listener = nil
	}
}
