package election

import (
	"strings"
	"testing"

	"github.com/go-election/go-election/backend"
)

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

func elected(name, id string, term uint64) Event {
	return Event{Election: name, Kind: Elected, Leader: Candidate{ID: id, Nonce: backend.Nonce(id)}, Term: term, Reason: ReasonElected, Leading: id == "me"}
}

func lostEvent(name string, term uint64) Event {
	return Event{Election: name, Kind: Vacant, Term: term, Reason: ReasonRefused}
}

func kinds(w *watcher) (text string) {
	for _, q := range pending(w) {
		text += q.Kind.String()[:1] + q.Leader.ID + " "
	}
	return strings.TrimSpace(text)
}

func pending(w *watcher) (queue []*queued) {
	for e := w.queue.Front(); e != nil; e = e.Next() {
		queue = append(queue, e.Value.(*queued))
	}
	return queue
}

func TestOnlyTransitionsOfOthersAreCoalesced(t *testing.T) {
	w := newWatcher(nil)
	w.add(elected("jobs", "a", 1), false, nil)
	w.add(lostEvent("jobs", 1), false, nil)
	w.add(elected("jobs", "b", 2), false, nil)
	w.add(elected("jobs", "me", 3), true, nil)
	w.add(lostEvent("jobs", 3), true, nil)
	w.add(elected("jobs", "c", 4), false, nil)
	w.add(elected("jobs", "d", 5), false, nil)
	if got, want := kinds(w), "eb eme v ed"; got != want {
		t.Errorf("waiting: %s, want %s", got, want)
	}
}

func TestAShortUnseenChangeIsNotReported(t *testing.T) {
	w := newWatcher(nil)
	a := elected("jobs", "a", 1)
	w.add(Event{Election: "jobs", Kind: Unknown, Reason: ReasonUnreachable}, false, &state{kind: Elected, leader: &a.Leader, term: a.Term})
	w.add(a, false, &state{kind: Unknown})
	if got := kinds(w); got != "" {
		t.Errorf("waiting: %s, want nothing", got)
	}
}

func TestOneElectionDoesNotDisplaceAnother(t *testing.T) {
	w := newWatcher(nil)
	w.add(elected("x", "a", 1), false, nil)
	w.add(elected("y", "b", 1), false, nil)
	w.add(elected("x", "c", 2), false, nil)
	if got, want := kinds(w), "eb ec"; got != want {
		t.Errorf("waiting: %s, want %s", got, want)
	}
}

func TestASlowWatcherIsToldHowManyItMissed(t *testing.T) {
	w := newWatcher(nil)
	const leaderships = 1000
	for term := uint64(1); term <= leaderships; term++ {
		w.add(elected("jobs", "me", term), true, nil)
		w.add(lostEvent("jobs", term), true, nil)
	}
	queue := pending(w)
	if len(queue) > maxWaiting {
		t.Errorf("%d events wait, at most %d should", len(queue), maxWaiting)
	}
	told, coalesced := 0, 0
	for i, q := range queue {
		if q.Kind == Elected {
			told++
		}
		coalesced += q.Coalesced
		if i > 0 && q.Kind == queue[i-1].Kind {
			t.Errorf("event %d: %v after %v", i, q.Kind, queue[i-1].Kind)
		}
	}
	if told+coalesced != leaderships {
		t.Errorf("%d leaderships told and %d counted, want %d together", told, coalesced, leaderships)
	}
	if last := queue[len(queue)-1]; last.Kind != Vacant || last.Term != leaderships {
		t.Errorf("the last event is %v, want the final state", last.Event)
	}
}

func TestANoticeIsNotDeliveredAfterAGreaterTerm(t *testing.T) {
	w := newWatcher(nil)
	w.add(elected("jobs", "a", 1), false, nil)
	w.add(Event{Election: "jobs", Kind: Notice, Reason: ReasonSameID, Term: 1}, false, nil)
	w.add(elected("jobs", "b", 2), false, nil)
	w.add(Event{Election: "jobs", Kind: Notice, Reason: ReasonSameID, Term: 2}, false, nil)
	w.add(elected("jobs", "c", 3), false, nil)
	w.add(Event{Election: "jobs", Kind: Notice, Reason: ReasonSameID, Term: 3}, false, nil)
	if n := len(pending(w)); n != 2 {
		t.Errorf("%d events wait, want the last state and the last notice", n)
	}
	term := uint64(0)
	for _, q := range pending(w) {
		if q.Term < term {
			t.Errorf("%v of term %d is told after term %d", q.Event, q.Term, term)
		}
		term = q.Term
	}
}

// The number of events that wait for a hanging callback is bounded, and so is the work of add: the
// loop calls it, and leases expire meanwhile.
func TestAHangingWatchersQueueIsBounded(t *testing.T) {
	w := newWatcher(nil)
	const elections, leaderships = 20, 2000
	for range leaderships {
		for i := range elections {
			name := string(rune('a' + i))
			w.add(elected(name, "me", 1), true, nil)
			w.add(Event{Election: name, Kind: Notice, Reason: ReasonSameID, Leading: true}, true, nil)
			w.add(lostEvent(name, 1), true, nil)
			w.add(elected(name, "b", 2), false, nil)
		}
	}
	if most := elections * maxWaiting; w.queue.Len() > most {
		t.Errorf("%d events are kept, want %d at most", w.queue.Len(), most)
	}
	told := make(map[string]int)
	for _, q := range pending(w) {
		if q.own && q.Kind == Elected {
			told[q.Election]++
		}
		told[q.Election] += q.Coalesced
	}
	for name, n := range told {
		if n != leaderships {
			t.Errorf("%s: %d leaderships are told or counted, want %d", name, n, leaderships)
		}
	}
}

// A watcher that knew a vacancy and missed a short leadership still gets the move.
func TestASlowWatcherStillSeesAMove(t *testing.T) {
	w := newWatcher(nil)
	vacant := &state{kind: Vacant, reason: ReasonReleased, term: 1}
	w.add(elected("jobs", "a", 2), false, vacant)
	w.add(Event{Election: "jobs", Kind: Vacant, Term: 2, Reason: ReasonMoved}, false, &state{kind: Elected})
	if got := pending(w); len(got) != 1 || got[0].Reason != ReasonMoved {
		t.Errorf("waiting: %v", got)
	}
}
