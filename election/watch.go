package election

import (
	"context"
	"iter"
	"slices"
	"time"
)

// Watch calls callback with every change of leader, in order, one call at a time, on a goroutine
// of its own. The first event is the current state. A callback that is slow or panics delays
// nothing else. While it runs, changes by other processes may be coalesced to the newest.
// Transitions of this process are all delivered; only if more than 64 of one election wait, the
// oldest leaderships are coalesced into one event that counts them (Event.Coalesced).
//
// After a crash without a guard a watcher may hear only of the next leader, with Previous. The store does not say when a
// lease has expired, so Vacant for [ReasonExpired] comes first only if this process reads while nobody leads. To act once
// for each change of leader, act on Elected.
//
// stop does not wait. After it no further call begins, but one may still run. The watcher also
// ends when this process leaves the election.
func (e *Election) Watch(callback func(Event)) (stop func()) {
	return e.manager.watch(e, callback, func() {})
}

// Events returns the events of Watch as a range. The range ends when ctx ends, or after the last
// event when this process has left the election.
func (e *Election) Events(ctx context.Context) iter.Seq[Event] {
	return e.manager.events(ctx, e)
}

// Watch calls callback with every change of leader in every election that this manager has joined
// or joins later. The first events are the current states. See [Election.Watch].
func (m *Manager) Watch(callback func(Event)) (stop func()) {
	return m.watch(nil, callback, func() {})
}

// Events returns the events of Watch as a range. The range ends when ctx ends, or after the last
// event when the manager has closed.
func (m *Manager) Events(ctx context.Context) iter.Seq[Event] {
	return m.events(ctx, nil)
}

// watch starts a watcher of e, or of all elections if e is nil. ended is called after the last event.
func (m *Manager) watch(e *Election, callback func(Event), ended func()) (stop func()) {
	w, list := newWatcher(callback, m.log), &m.watchers
	if e != nil {
		list = &e.watchers
	}
	if !m.send(func(time.Duration) input {
		*list = append(*list, w)
		m.addFirstEvents(e, w)
		m.goroutines.Go(func() { // started by the loop: once the loop has ended, Close waits for it
			defer ended()
			defer m.enter(nil)()
			w.run()
		})
		return nil
	}) {
		ended()
		return func() {}
	}
	return func() {
		w.stop(true)
		m.send(func(time.Duration) input {
			*list = slices.DeleteFunc(*list, func(x *watcher) bool { return x == w })
			return nil
		})
	}
}

// addFirstEvents tells a new watcher the present states.
func (m *Manager) addFirstEvents(e *Election, w *watcher) {
	if e == nil {
		for _, x := range m.machine.elections {
			w.add(x.shell.firstEvent(), true, nil)
		}
		return
	}
	w.add(e.firstEvent(), true, nil)
	if e.elec.index < 0 {
		w.stop(false) // this process has left: there will be no other event
	}
}

// events turns watch into a range. The body of the range counts as a callback (ErrOwnCaller).
func (m *Manager) events(ctx context.Context, e *Election) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		events, over := make(chan Event), make(chan struct{})
		stop := m.watch(e, func(ev Event) {
			select {
			case events <- ev:
			case <-ctx.Done():
			}
		}, func() { close(over) })
		defer stop()
		defer m.enter(nil)()
		for {
			select {
			case ev := <-events:
				if !yield(ev) {
					return
				}
			case <-over:
				return
			case <-ctx.Done():
				return
			}
		}
	}
}
