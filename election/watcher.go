package election

import (
	"log/slog"
	"sync"
)

// maxOwn is how many own transitions of one election may wait for a slow watcher
// before its oldest reigns are folded.
const maxOwn = 64

// A watcher delivers events to one callback, in order, on a goroutine of its own.
// Adding an event never waits, and takes the same time however many wait. For
// each election the newest state of others replaces an older one that is still
// waiting; own transitions are kept, and folded in pairs when too many wait.
type watcher struct {
	callback func(Event)
	log      *slog.Logger

	mu      sync.Mutex
	queue   []queued
	first   int            // number of queue[0]; numbers do not change
	newest  map[about]int  // number of the last event that was added
	own     map[string]int // own transitions that wait, by election
	stopped bool
	closing bool // stop when the queue is empty
	wake    chan struct{}
}

type queued struct {
	Event
	own    bool
	before *state // that it replaced; nil: none
	dead   bool   // obsolete: not to be delivered
}

// about is what events replace each other: states of an election, or notices of
// it for one reason.
type about struct {
	election string
	notice   Reason
}

func newWatcher(callback func(Event), log *slog.Logger) *watcher {
	return &watcher{callback: callback, log: log, newest: make(map[about]int), own: make(map[string]int), wake: make(chan struct{}, 1)}
}

// add queues an event. own: it is about a reign of this manager. before is the
// state until now.
func (w *watcher) add(ev Event, own bool, before *state) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	key := about{election: ev.Election}
	if ev.Kind == Notice {
		key.notice = ev.Reason
	}
	if i, ok := w.newest[key]; ok && i >= w.first && !own {
		if q := &w.queue[i-w.first]; !q.own && !q.dead {
			if ev.Kind != Notice && q.Folded == 0 && q.before != nil && q.before.is(ev.Kind, &ev.Leader, ev.Term) {
				q.dead = true // things are as the watcher knows them
				return
			}
			ev.Previous, ev.Folded = q.Previous, q.Folded
			q.Event = ev
			return
		}
	}
	w.newest[key] = w.first + len(w.queue)
	w.queue = append(w.queue, queued{ev, own, before, false})
	if own {
		if w.own[ev.Election]++; w.own[ev.Election] > maxOwn {
			w.fold(ev.Election)
		}
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// fold takes the oldest own pair of elected and lost of an election out of the
// queue, and counts it in the election's next event.
func (w *watcher) fold(election string) {
	var pair []*queued
	for i := range w.queue {
		q := &w.queue[i]
		switch {
		case q.Election != election || q.Kind == Notice || q.dead:
		case len(pair) == 0 && q.own && q.Kind == Elected, len(pair) == 1 && q.own && q.Kind == Vacant:
			pair = append(pair, q)
		case len(pair) == 1:
			pair = nil
		case len(pair) == 2:
			q.Folded += 1 + pair[0].Folded + pair[1].Folded
			q.Previous = pair[0].Previous
			pair[0].dead, pair[1].dead = true, true
			w.own[election] -= 2
			return
		}
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
			clear(w.newest)
			clear(w.own)
			w.mu.Unlock()
			<-w.wake
			continue
		}
		q := w.queue[0]
		w.queue[0] = queued{}
		w.queue = w.queue[1:]
		w.first++
		if q.own && !q.dead {
			w.own[q.Election]--
		}
		w.mu.Unlock()
		if !q.dead {
			w.deliver(q.Event)
		}
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
