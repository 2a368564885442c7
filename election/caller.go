package election

import (
	"bytes"
	"runtime"
	"strconv"
)

// callers knows the goroutines that run lead functions and callbacks, so that a call that
// would wait for its own caller is an error instead of a deadlock. A goroutine that a lead
// function has started is not known: such a call ends with its context.

// enter notes that this goroutine runs the lead function of e, or a callback if e is nil.
func (m *Manager) enter(e *Election) (leave func()) {
	id := goroutineID()
	m.callers.Store(id, e)
	return func() { m.callers.Delete(id) }
}

// calledBy returns the election whose lead function calls, if one does. ok is true for a
// lead function and for a callback.
func (m *Manager) calledBy() (e *Election, ok bool) {
	v, ok := m.callers.Load(goroutineID())
	if ok {
		e = v.(*Election)
	}
	return e, ok
}

// goroutineID returns the number in "goroutine 12 [running]:", as golang.org/x/net/http2
// reads it for its own checks, or 0.
func goroutineID() uint64 {
	var buf [64]byte
	line := buf[:runtime.Stack(buf[:], false)]
	line = bytes.TrimPrefix(line, []byte("goroutine "))
	digits, _, _ := bytes.Cut(line, []byte(" "))
	id, _ := strconv.ParseUint(string(digits), 10, 64)
	return id
}
