package election

import (
	"log/slog"
	"slices"
	"sync"
)

// maxQueue is how many events may wait for a slow watcher before its oldest own
// reigns are folded.
const maxQueue = 256

// A watcher delivers events to one callback, in order, on a goroutine of its own.
// Adding an event never waits. For each election the newest state of others
// replaces an older one that is still waiting; own transitions are kept, and
// folded in pairs when far too many wait.
type watcher struct {
	callback func(Event)
	log      *slog.Logger

	mu      sync.Mutex
	queue   []queued
	stopped bool
	closing bool // stop when the queue is empty
	wake    chan struct{}
}

type queued struct {
	Event
	own    bool
	before *Event // the state that it replaced
}

func newWatcher(callback func(Event), log *slog.Logger) *watcher {
	return &watcher{callback: callback, log: log, wake: make(chan struct{}, 1)}
}

// add queues an event. own: it is about a reign of this manager. before is the
// state until now.
func (w *watcher) add(ev Event, own bool, before *Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	if i := w.replaces(ev, own); i >= 0 {
		q := &w.queue[i]
		if ev.Kind != Notice && q.Folded == 0 && q.before != nil && ev.same(q.before) {
			w.queue = slices.Delete(w.queue, i, i+1) // things are as the watcher knows them
			return
		}
		ev.Previous, ev.Folded = q.Previous, q.Folded
		q.Event = ev
		return
	}
	w.queue = append(w.queue, queued{ev, own, before})
	if len(w.queue) > maxQueue {
		w.fold()
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// replaces returns the index of the waiting event that ev makes obsolete, or −1.
func (w *watcher) replaces(ev Event, own bool) int {
	for i := len(w.queue) - 1; i >= 0 && !own; i-- {
		q := &w.queue[i]
		switch {
		case q.Election != ev.Election:
		case q.Kind == Notice && ev.Kind == Notice && q.Reason == ev.Reason:
			return i
		case q.Kind == Notice || ev.Kind == Notice:
		case q.own:
			return -1
		default:
			return i
		}
	}
	return -1
}

// fold takes the oldest own pair of elected and lost out of the queue, and counts
// it in the next event of that election.
func (w *watcher) fold() {
	for i := range w.queue {
		if !w.queue[i].own || w.queue[i].Kind != Elected {
			continue
		}
		name := w.queue[i].Election
		var later []int
		for j := i + 1; j < len(w.queue) && len(later) < 2; j++ {
			if w.queue[j].Election == name && w.queue[j].Kind != Notice {
				later = append(later, j)
			}
		}
		if len(later) < 2 || !w.queue[later[0]].own || w.queue[later[0]].Kind != Vacant {
			continue
		}
		next := &w.queue[later[1]]
		next.Folded += 1 + w.queue[i].Folded + w.queue[later[0]].Folded
		next.Previous = w.queue[i].Previous
		w.queue = append(w.queue[:later[0]], w.queue[later[0]+1:]...)
		w.queue = append(w.queue[:i], w.queue[i+1:]...)
		return
	}
}

// run delivers until the watcher is stopped.
func (w *watcher) run() {
	for {
		w.mu.Lock()
		if w.stopped || w.closing && len(w.queue) == 0 {
			w.stopped = true
			w.mu.Unlock()
			return
		}
		if len(w.queue) == 0 {
			w.queue = nil
			w.mu.Unlock()
			<-w.wake
			continue
		}
		ev := w.queue[0].Event
		w.queue = w.queue[1:]
		w.mu.Unlock()
		w.deliver(ev)
	}
}

// deliver calls the callback. A panic in it is logged and harms nobody else.
func (w *watcher) deliver(ev Event) {
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("watcher panicked", "election", ev.Election, "event", ev.String(), "panic", p)
		}
	}()
	w.callback(ev)
}

// end makes run return: at once, or after what is waiting has been delivered.
func (w *watcher) end(now bool) {
	w.mu.Lock()
	w.closing = true
	w.stopped = w.stopped || now
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
