package election

import (
	"container/heap"
	"time"
)

// timers orders elections by wake time, and those with equal times by joining, so that a run can
// be replayed.
type timers struct{ h timerHeap }

// set sets the wake time of e; never removes it.
func (t *timers) set(e *elec, at time.Duration) {
	switch e.wake = at; {
	case at == never && e.timerIndex >= 0:
		heap.Remove(&t.h, e.timerIndex)
	case at == never:
	case e.timerIndex >= 0:
		heap.Fix(&t.h, e.timerIndex)
	default:
		heap.Push(&t.h, e)
	}
}

// due removes and returns the next election whose wake time has come, or nil.
func (t *timers) due(now time.Duration) *elec {
	if len(t.h) == 0 || t.h[0].wake > now {
		return nil
	}
	return heap.Pop(&t.h).(*elec)
}

// first returns the earliest wake time.
func (t *timers) first() time.Duration {
	if len(t.h) == 0 {
		return never
	}
	return t.h[0].wake
}

type timerHeap []*elec

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	return h[i].wake < h[j].wake || h[i].wake == h[j].wake && h[i].joinNumber < h[j].joinNumber
}
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timerIndex, h[j].timerIndex = i, j
}
func (h *timerHeap) Push(x any) {
	e := x.(*elec)
	e.timerIndex = len(*h)
	*h = append(*h, e)
}
func (h *timerHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	e.timerIndex = -1
	return e
}
