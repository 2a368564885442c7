package election

import (
	"context"
	"iter"
	"slices"
	"time"
)

// Watch calls callback with every change of leader, in order, one call at a time, on a goroutine of its own.
// The first event is the current state. A callback that is slow or panics delays nothing else. While it runs,
// changes by other processes may be coalesced to the newest. Transitions of this process are all delivered,
// unless more than 64 events of one election wait: the newest then replaces them, and counts the leaderships
// (Event.Coalesced).
//
// After a crash without a guard a watcher may hear only of the next leader, with Previous. The store does not
// say when a lease has expired, so Vacant for [ReasonExpired] comes first only if this process reads while
// nobody leads. To act once for each change of leader, act on Elected.
//
// stop does not wait. After it no further call begins, but one may still run. The watcher also ends when this
// process leaves the election.
func (e *Election) Watch(callback func(Event)) (stop func()) {
	return e.manager.watch(e, callback)
}

// Events returns the events of Watch as a range. It ends when ctx ends, or after the last event when this
// process has left the election.
func (e *Election) Events(ctx context.Context) iter.Seq[Event] {
	return e.manager.events(ctx, e)
}

// Watch calls callback with every change of leader in every election that this manager has joined
// or joins later. The first events are the current states. See [Election.Watch].
func (m *Manager) Watch(callback func(Event)) (stop func()) {
	return m.watch(nil, callback)
}

// Events returns the events of Watch as a range. It ends when ctx ends, or after the last event when the
// manager has closed.
func (m *Manager) Events(ctx context.Context) iter.Seq[Event] {
	return m.events(ctx, nil)
}

// watch delivers the events of e, or of all elections if e is nil, to a callback.
func (m *Manager) watch(e *Election, callback func(Event)) (stop func()) {
	_, stop = m.addWatcher(e, func(w *watcher) {
		m.goroutines.Go(func() { // started by the loop: once the loop has ended, Close waits for it
			defer m.enter(nil)()
			w.run(callback)
		})
	})
	return stop
}

// addWatcher adds a watcher and has the loop call added, unless the manager has ended.
func (m *Manager) addWatcher(e *Election, added func(*watcher)) (w *watcher, stop func()) {
	w, list := newWatcher(m.log), &m.watchers
	if e != nil {
		list = &e.watchers
	}
	if !m.send(func(time.Duration) input {
		*list = append(*list, w)
		m.addFirstEvents(e, w)
		added(w)
		return nil
	}) {
		w.stop(true)
	}
	return w, func() {
		w.stop(true)
		m.send(func(time.Duration) input {
			*list = slices.DeleteFunc(*list, func(x *watcher) bool { return x == w })
			return nil
		})
	}
}

// addFirstEvents tells a new watcher the present states.
func (m *Manager) addFirstEvents(e *Election, w *watcher) {
	elections := m.machine.elections
	if e != nil {
		elections = []*elec{&e.elec}
	}
	for _, x := range elections {
		ev := x.shell.Current()
		ev.Reason, ev.Time = ReasonCurrent, time.Now()
		w.add(ev, true, nil)
	}
	if e != nil && e.elec.index < 0 {
		w.stop(false) // this process has left: there will be no other event
	}
}

// events turns a watcher into a range. The body of the range counts as a callback (ErrOwnCaller).
func (m *Manager) events(ctx context.Context, e *Election) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		w, stop := m.addWatcher(e, func(*watcher) {})
		defer stop()
		defer context.AfterFunc(ctx, func() { w.stop(true) })()
		defer m.enter(nil)()
		for ev, ok := w.next(); ok && yield(ev); ev, ok = w.next() {
		}
	}
}
