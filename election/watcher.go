package election

import (
	"container/list"
	"log/slog"
	"slices"
	"sync"
)

// maxWaiting is how many events of one election may wait for a slow watcher before they are coalesced.
const maxWaiting = 64

// A watcher keeps events for one receiver, in order. Adding an event never waits, and takes the same
// time however many events wait. A new state of other processes replaces the one that still waits, and
// a new notice the one for the same reason. Own transitions are kept until too many wait. So the number
// of waiting events is bounded by the number of elections.
type watcher struct {
	log *slog.Logger

	mu      sync.Mutex
	queue   *list.List           // of *queued
	waiting map[string][]*queued // the same, by election
	stopped bool                 // deliver nothing more
	closing bool                 // stop when the queue is empty
	wake    chan struct{}
}

type queued struct {
	Event
	own    bool          // about a leadership of this manager
	before *state        // the state that this one replaced; nil: none
	place  *list.Element // in the queue
}

func (q *queued) isNotice() bool { return q.Kind == Notice }

func newWatcher(log *slog.Logger) *watcher {
	w := &watcher{log: log, queue: list.New(), wake: make(chan struct{}, 1)}
	w.waiting = make(map[string][]*queued)
	return w
}

// add queues an event. own says that it is about a leadership of this manager. before is the state until now.
func (w *watcher) add(ev Event, own bool, before *state) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	q := &queued{Event: ev, own: own, before: before}
	if q.isNotice() {
		w.replaceNotice(q)
	} else if w.replaceState(q) {
		return
	}
	q.place = w.queue.PushBack(q)
	w.waiting[q.Election] = append(w.waiting[q.Election], q)
	if len(w.waiting[q.Election]) > maxWaiting {
		w.coalesce(q.Election)
	}
	signal(w.wake)
}

// replaceState removes the last waiting state if neither it nor q is own, so that q takes its place. It
// returns true if q is the state that the receiver knows.
func (w *watcher) replaceState(q *queued) (known bool) {
	states := w.states(q.Election)
	if len(states) == 0 {
		return false
	}
	last := states[len(states)-1]
	if last.own || q.own {
		return false
	}
	w.remove(last)
	q.Previous, q.Coalesced, q.before = last.Previous, last.Coalesced, last.before
	return q.Coalesced == 0 && q.before != nil && q.before.is(q.Kind, &q.Leader, q.Term) &&
		!q.Reason.newsAfter(q.before.reason)
}

// replaceNotice removes the waiting notice for the same reason as q, if there is one.
func (w *watcher) replaceNotice(q *queued) {
	for _, x := range w.waiting[q.Election] {
		if x.isNotice() && x.Reason == q.Reason {
			w.remove(x)
			return
		}
	}
}

// states returns the waiting states of an election.
func (w *watcher) states(election string) []*queued {
	return slices.DeleteFunc(slices.Clone(w.waiting[election]), (*queued).isNotice)
}

// coalesce leaves only the newest state of an election, which counts the own leaderships among those that it
// replaces.
func (w *watcher) coalesce(election string) {
	states := w.states(election)
	newest := states[len(states)-1]
	newest.Previous, newest.before = states[0].Previous, states[0].before
	for _, q := range states[:len(states)-1] {
		newest.Coalesced += q.Coalesced
		if q.own && q.Kind == Elected {
			newest.Coalesced++
		}
		w.remove(q)
	}
}

func (w *watcher) remove(q *queued) {
	w.queue.Remove(q.place)
	rest := slices.DeleteFunc(w.waiting[q.Election], func(x *queued) bool { return x == q })
	if len(rest) == 0 {
		delete(w.waiting, q.Election)
	} else {
		w.waiting[q.Election] = rest
	}
}

// next waits for an event and removes it. ok is false if the watcher was stopped.
func (w *watcher) next() (ev Event, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.queue.Len() == 0 && !w.closing {
		w.mu.Unlock()
		<-w.wake
		w.mu.Lock()
	}
	if w.stopped || w.queue.Len() == 0 {
		w.stopped = true
		return Event{}, false
	}
	q := w.queue.Front().Value.(*queued)
	w.remove(q)
	q.First = !q.isNotice() && (q.before == nil || q.before.kind == Unknown && !q.own)
	return q.Event, true
}

// run calls callback for each event until the watcher is stopped.
func (w *watcher) run(callback func(Event)) {
	for ev, ok := w.next(); ok; ev, ok = w.next() {
		w.deliver(callback, ev)
	}
}

// deliver calls the callback. It logs a panic, and continues. If the callback ends its goroutine
// (runtime.Goexit, as testing.T.FailNow does), deliver runs the watcher from its deferred function.
func (w *watcher) deliver(callback func(Event), ev Event) {
	returned := false
	defer func() {
		p := recover()
		switch {
		case p != nil:
			w.log.Error("watcher panicked", "election", ev.Election, "event", ev.String(), "panic", p)
		case !returned:
			w.log.Error("watcher has ended its goroutine", "election", ev.Election, "event", ev.String())
			w.run(callback)
		}
	}()
	callback(ev)
	returned = true
}

// stop makes next return false: at once if now is set, else after the waiting events.
func (w *watcher) stop(now bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = true
	w.stopped = w.stopped || now
	signal(w.wake)
}
