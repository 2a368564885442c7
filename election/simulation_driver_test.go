package election

import (
	"context"
	"time"

	"github.com/go-election/go-election/backend/lease"
)

// A simDriver is a lease.Driver for one life of a node. Each of its calls is a message with an answer.
type simDriver struct {
	items *simItems
	node  *simNode // nil: an operator's, whose calls are carried out at once
	life  int

	newest   uint64 // the greatest count of an answer
	wentBack int
	oldUpTo  uint64 // versions up to this one are from before the store went back
}

// A driverCall is what a coroutine waits for.
type driverCall struct {
	send   func(*coroutine) // nil: it waits for its turn
	answer itemsAnswer
	err    error // why there is no answer
}

type itemsAnswer struct {
	err      error
	view     lease.View
	written  lease.Written
	told     []lease.Item // Listen
	goesOn   bool         // Listen: the store can tell
	versions []uint64     // of view.Items
	counter  uint64       // of the store
}

// ask makes a round trip to the store, which serves the request and replies. went reports whether the
// answer shows that the store went back.
func (d *simDriver) ask(ctx context.Context, writes bool, serve func(reply func(itemsAnswer))) (a itemsAnswer, went bool, err error) {
	co, _ := ctx.Value(coroutineKey{}).(*coroutine)
	if co == nil {
		if d.node != nil && d.items.st.admit(d.items.st.primary) != nil {
			return a, false, errGone
		}
		serve(func(answer itemsAnswer) { a = answer })
		return a, d.notice(&a, d.newest, d.wentBack), a.err
	}
	newest, wentBack := d.newest, d.wentBack
	c := &driverCall{}
	c.send = func(co *coroutine) {
		n, life, connection, server := d.node, d.life, d.items.connection, d.items.st.primary
		deliver := func() {
			if connection != d.items.connection {
				return
			}
			reply := func(a itemsAnswer) {
				n.sendBack(life, co.call, func() {
					if connection == d.items.connection {
						co.answer(c, func() { c.answer = a })
					}
				})
			}
			if err := d.items.st.admit(server); err != nil {
				reply(itemsAnswer{err: err})
			} else {
				serve(reply)
			}
		}
		// In one of four half-minutes what was read for a bid is old when the bid arrives, for all.
		if s := n.s; writes && co.call.kind == callAcquire && !s.calm && s.now/(30*time.Second)%4 == 0 {
			s.after(s.upTo(maxDelay/2), func() { n.send(co.call, deliver) })
		} else {
			n.send(co.call, deliver)
		}
	}
	if co.await(c); c.err != nil {
		return a, false, c.err
	}
	a = c.answer
	return a, d.notice(&a, newest, wentBack), a.err
}

// place is the store that answers the node at this moment.
func (d *simDriver) place() *simItems {
	if d.node != nil && d.node.life == d.life && d.node.lease.elsewhere != nil {
		return d.node.lease.elsewhere
	}
	return d.items
}

// notice compares an answer with the newest one that had come when its request was sent.
func (d *simDriver) notice(a *itemsAnswer, newest uint64, wentBack int) (went bool) {
	switch {
	case a.err != nil:
	case a.counter < newest && wentBack == d.wentBack:
		d.wentBack++
		d.oldUpTo, d.newest = a.counter, a.counter
		return true
	default:
		d.newest = max(d.newest, a.counter)
	}
	return false
}

func (d *simDriver) Limits() lease.Limits {
	return lease.Limits{Name: "simulated", MinTTL: time.Millisecond, MaxTTL: d.items.st.maxTTL, Batch: d.items.batch, Checks: d.items.batch - 1, MaxValue: 64 << 10,
		Now: func() time.Time { return epoch.Add(d.items.st.clock()) }}
}

func (d *simDriver) Close() error { return nil }

func (d *simDriver) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	a, _, err := d.ask(ctx, false, func(reply func(itemsAnswer)) { reply(d.place().read(keys)) })
	if err != nil {
		return lease.View{}, err
	}
	d.finish(&a.view, a.versions)
	return a.view, nil
}

func (d *simDriver) finish(v *lease.View, versions []uint64) {
	v.WentBack = d.wentBack
	for i := range v.Items {
		v.Items[i].Old = versions[i] > 0 && versions[i] <= d.oldUpTo
	}
}

func (d *simDriver) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	if wentBack != d.wentBack {
		return lease.Written{}, lease.ErrEpoch
	}
	a, went, err := d.ask(ctx, true, func(reply func(itemsAnswer)) { reply(d.place().write(d, epoch, changes, verify)) })
	if went && err == nil {
		err = lease.ErrEpoch // too late to refuse the changes
	}
	if err != nil {
		return lease.Written{}, err
	}
	return a.written, nil
}

func (d *simDriver) List(ctx context.Context, kind lease.Kind, from string, limit int) (lease.View, error) {
	a, _, err := d.ask(ctx, false, func(reply func(itemsAnswer)) {
		place := d.place()
		reply(place.read(place.keys(kind, from, limit)))
	})
	if err != nil {
		return lease.View{}, err
	}
	d.finish(&a.view, a.versions)
	return a.view, nil
}

// A tellingDriver is the driver of a store that tells of changes.
type tellingDriver struct{ *simDriver }

func (d tellingDriver) Listen(ctx context.Context, position uint64, _ []lease.Item, on func([]lease.Item, uint64) bool) error {
	for {
		a, _, err := d.ask(ctx, false, func(reply func(itemsAnswer)) { d.place().listen(position, reply) })
		if err != nil || !a.goesOn {
			return err
		}
		position = a.view.Position
		if !on(a.told, position) {
			return nil
		}
	}
}
