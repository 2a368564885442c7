package redis

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
)

// A listener is a subscription, on a connection of its own that stays open between calls of Listen.
type listener struct {
	sub   *goredis.PubSub
	own   goredis.UniversalClient // of this subscription: the one of the calls is replaced now and then
	ended chan struct{}
	err   error // why it has ended
}

// A notice says that something has changed.
type notice struct {
	position uint64       // greater than that of the notice before, and not less than the Order of an item
	items    []lease.Item // what has changed; none: unknown
}

const (
	maxNotices = 8        // that are kept for the next call of Listen
	maxMessage = 16 << 10 // in bytes; the script sends less
)

// Listen implements [lease.Listener] by SUBSCRIBE.
func (d *driver) Listen(ctx context.Context, position uint64, _ []lease.Item, on lease.Heard) error {
	for {
		l, next, changed := d.listen(position)
		switch {
		case position == 0 || position > d.currentPosition():
			return nil
		case next.position > position:
			if !on(next.items, next.position) {
				return nil
			}
			position = next.position
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

// listen subscribes, unless it has. It returns the first notice after a position, and what the next closes.
func (d *driver) listen(after uint64) (l *listener, next notice, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener == nil {
		own := d.newClient(true)
		d.listener = &listener{sub: own.Subscribe(d.ctx), own: own, ended: make(chan struct{})}
		go d.hear(d.listener, time.Until(d.quiet))
	}
	switch i := slices.IndexFunc(d.heard, func(n notice) bool { return n.position > after }); {
	case i == 0: // others may be forgotten
		next.position = d.heard[len(d.heard)-1].position
	case i > 0:
		next = d.heard[i]
	}
	return d.listener, next, d.changed
}

// hear notes what has changed, until the connection breaks. What was missed before it was made counts as a
// change, too. It begins after a while.
func (d *driver) hear(l *listener, after time.Duration) {
	client.Pause(d.ctx, after)
	for l.err = l.sub.Subscribe(d.ctx, d.channel()); l.err == nil; {
		var message any
		if message, l.err = l.sub.ReceiveTimeout(d.ctx, noEnd); l.err == nil {
			said, _ := message.(*goredis.Message)
			d.noteNews(l, said)
		}
	}
	l.sub.Close()
	d.conns.Close(l.own)
	d.mu.Lock()
	if d.listener == l {
		d.listener = nil
	}
	d.mu.Unlock()
	close(l.ended)
}

// noteNews notes a message; nil: some may have been missed.
func (d *driver) noteNews(l *listener, said *goredis.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener != l {
		return // the one that follows begins with a notice
	}
	n := notice{position: d.heard[len(d.heard)-1].position + 1}
	if said != nil {
		n.items = itemsIn(said.Payload, d.epoch)
	}
	for _, it := range n.items {
		n.position = max(n.position, it.Order)
	}
	d.heard = append(d.heard[max(0, len(d.heard)-maxNotices):], n)
	close(d.changed)
	d.changed = make(chan struct{})
}

// itemsIn returns the items in a message: the epoch, the number of the last change, and then kind, name,
// version and text of each. It returns nil unless all of them are what a change up to that one has left in
// that epoch: then something else has changed.
func itemsIn(message, epoch string) (items []lease.Item) {
	if len(message) > maxMessage {
		return nil
	}
	parts := strings.Split(message, "\n")
	if parts[0] != epoch || len(parts)%4 != 2 {
		return nil
	}
	number, _ := strconv.ParseUint(parts[1], 10, 53)
	for p := range slices.Chunk(parts[2:], 4) {
		it := item(lease.Key{Kind: lease.Kind(p[0]), Name: p[1]}, p[2], p[3])
		ours := strings.HasSuffix(it.Version, "/"+sum(p[3])) && !it.Edited && it.Value != nil
		if !ours || it.Order == 0 || it.Order > number {
			return nil
		}
		items = append(items, it)
	}
	return items
}

// listenerPause is how long there is no listener after its place was needed.
const listenerPause = 10 * time.Second

// giveWay closes the listener's connection for a call, and reports whether its place may be free soon.
func (d *driver) giveWay() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); d.listener != nil && now.After(d.quiet) {
		d.quiet = now.Add(listenerPause)
		d.dropListener()
	}
	return time.Until(d.quiet) > listenerPause-2*time.Second
}

// dropListener ends the subscription. The caller holds d.mu.
func (d *driver) dropListener() {
	if d.listener != nil {
		go d.listener.sub.Close() // it waits for a dial
		d.listener = nil
	}
}
