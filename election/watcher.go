package election

import (
	"log/slog"
	"slices"
	"sync"
)

// maxOwn is how many own transitions of one election may wait for a slow watcher before the
// oldest leaderships are coalesced.
const maxOwn = 64

// A watcher delivers events to one callback, in order, on a goroutine of its own. Adding an event
// never waits, and takes the same time however many events wait. A new state of other processes
// replaces the one that still waits. Own transitions are kept, and coalesced in pairs when too
// many wait. So the number of waiting events is bounded by the number of elections.
type watcher struct {
	callback func(Event)
	log      *slog.Logger

	mu       sync.Mutex
	queue    []*queued            // in order; some are done
	obsolete int                  // how many of them are done
	waiting  map[string][]*queued // those of each election that are not done
	stopped  bool                 // deliver nothing more
	closing  bool                 // stop when the queue is empty
	wake     chan struct{}
}

type queued struct {
	Event
	own    bool   // about a leadership of this manager
	before *state // the state that this one replaced; nil: none
	done   bool   // delivered or obsolete
}

func newWatcher(callback func(Event), log *slog.Logger) *watcher {
	return &watcher{callback: callback, log: log, waiting: make(map[string][]*queued), wake: make(chan struct{}, 1)}
}

// add queues an event. own says that it is about a leadership of this manager. before is the
// state until now.
func (w *watcher) add(ev Event, own bool, before *state) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	q := &queued{Event: ev, own: own, before: before}
	if ev.Kind == Notice {
		w.notice(q)
	} else {
		w.state(q)
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// state queues a state of an election. If neither this state nor the last waiting one is own, it
// takes the place of that one, but behind any notice that came since.
func (w *watcher) state(q *queued) {
	last, noticed := w.lastState(q.Election)
	if last != nil && !last.own && !q.own {
		if last.Coalesced == 0 && last.before != nil && last.before.is(q.Kind, &q.Leader, q.Term) && !q.Reason.newsAfter(last.before.reason) {
			w.remove(last) // the state is again the one that the watcher knows
			return
		}
		q.Previous, q.Coalesced, q.before = last.Previous, last.Coalesced, last.before
		if !noticed {
			last.Event = q.Event
			return
		}
		w.remove(last)
	}
	w.push(q)
	if q.own {
		w.coalesce(q.Election)
	}
}

// notice queues a notice. It takes the place of a waiting one for the same reason, unless a state
// has come since.
func (w *watcher) notice(q *queued) {
	waiting := w.waiting[q.Election]
	i := slices.IndexFunc(waiting, func(x *queued) bool { return x.Kind == Notice && x.Reason == q.Reason })
	if i >= 0 {
		last, since := waiting[i], waiting[i+1:]
		if !slices.ContainsFunc(since, (*queued).isState) {
			last.Event = q.Event
			return
		}
		w.remove(last)
	}
	w.push(q)
}

func (q *queued) isState() bool { return q.Kind != Notice }

func (w *watcher) push(q *queued) {
	w.queue = append(w.queue, q)
	w.waiting[q.Election] = append(w.waiting[q.Election], q)
}

// lastState returns the last waiting state of an election, or nil. noticed says that a notice has come since.
func (w *watcher) lastState(election string) (last *queued, noticed bool) {
	for _, q := range slices.Backward(w.waiting[election]) {
		if q.isState() {
			return q, noticed
		}
		noticed = true
	}
	return nil, noticed
}

// coalesce removes the oldest own leadership of an election (its elected and its lost event), and counts it in the next
// state, if too many own transitions wait.
func (w *watcher) coalesce(election string) {
	var states []*queued
	own := 0
	for _, q := range w.waiting[election] {
		if q.isState() {
			states = append(states, q)
			own += boolInt(q.own)
		}
	}
	if own <= maxOwn {
		return
	}

	for i := 0; i+2 < len(states); i++ {
		won, lost, next := states[i], states[i+1], states[i+2]
		if won.own && won.Kind == Elected && lost.own && lost.Kind == Vacant {
			coalesced := []*queued{won, lost}
			next.Coalesced++
			if i > 0 && !states[i-1].own && !next.own { // two states of others would be neighbours: remove the older one
				coalesced = []*queued{states[i-1], won, lost}
			}
			next.Previous = coalesced[0].Previous
			for _, q := range coalesced {
				next.Coalesced += q.Coalesced
				w.remove(q)
			}
			return
		}
	}
}

// remove marks a waiting event as done. The queue is swept when more than half of it is done.
func (w *watcher) remove(q *queued) {
	w.markDone(q)
	w.obsolete++
	if w.obsolete > len(w.queue)/2 {
		w.queue = slices.DeleteFunc(w.queue, func(q *queued) bool { return q.done })
		w.obsolete = 0
	}
}

// markDone marks an event as delivered or obsolete.
func (w *watcher) markDone(q *queued) {
	q.done = true
	rest := slices.DeleteFunc(w.waiting[q.Election], func(x *queued) bool { return x == q })
	if len(rest) == 0 {
		delete(w.waiting, q.Election)
	} else {
		w.waiting[q.Election] = rest
	}
}

// run delivers events until the watcher is stopped.
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
		q := w.queue[0]
		w.queue[0] = nil
		w.queue = w.queue[1:]
		over := q.done
		if over {
			w.obsolete--
		} else {
			w.markDone(q)
		}
		w.mu.Unlock()
		if !over {
			q.First = q.Kind != Notice && (q.before == nil || q.before.kind == Unknown && !q.own)
			w.deliver(q.Event)
		}
	}
}

// deliver calls the callback. It logs a panic, and continues. If the callback ends its goroutine
// (runtime.Goexit, as testing.T.FailNow does), deliver runs the watcher from its deferred function.
func (w *watcher) deliver(ev Event) {
	returned := false
	defer func() {
		p := recover()
		switch {
		case p != nil:
			w.log.Error("watcher panicked", "election", ev.Election, "event", ev.String(), "panic", p)
		case !returned:
			w.log.Error("watcher has ended its goroutine", "election", ev.Election, "event", ev.String())
			w.run()
		}
	}()
	w.callback(ev)
	returned = true
}

// stop makes run return: at once if now is set, else after the waiting events.
func (w *watcher) stop(now bool) {
	w.mu.Lock()
	w.closing = true
	w.stopped = w.stopped || now
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
