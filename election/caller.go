package election

import (
	"fmt"
	"runtime"
)

// Manager.callers has the goroutines that run lead functions and callbacks. A call that would wait
// for its own caller then returns an error instead of a deadlock. Goroutines that a lead function
// starts are not in it: such a call waits until its context ends.

// enter records that this goroutine runs the lead function of e, or a callback if e is nil.
func (m *Manager) enter(e *Election) (leave func()) {
	id := goroutineID()
	if _, inside := m.callers.LoadOrStore(id, e); inside { // a range of Events in a function or callback
		return func() {}
	}
	return func() { m.callers.Delete(id) }
}

// calledBy returns the election in whose lead function the caller runs, or nil. ok is true in a
// lead function and in a callback.
func (m *Manager) calledBy() (e *Election, ok bool) {
	v, ok := m.callers.Load(goroutineID())
	e, _ = v.(*Election)
	return e, ok
}

// goroutineID returns the number in "goroutine 12 [running]:", as golang.org/x/net/http2
// reads it for its own checks, or 0.
func goroutineID() (id uint64) {
	var buf [64]byte
	n := runtime.Stack(buf[:], false)
	fmt.Sscanf(string(buf[:n]), "goroutine %d", &id)
	return id
}
