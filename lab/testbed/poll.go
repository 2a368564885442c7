package testbed

import (
	"errors"
	"time"
)

// errGiveUp, wrapped in the error that f returns, ends a poll at once.
var errGiveUp = errors.New("giving up")

// poll calls f until it returns nil. After limit it calls f once more and returns that
// error: a test that was stopped for longer than limit still gets one attempt.
func poll(limit time.Duration, f func() error) error {
	began := time.Now()
	for over := false; ; {
		err := f()
		if err == nil || over || errors.Is(err, errGiveUp) {
			return err
		}
		took := time.Since(began) // poll less often as time passes
		<-time.After(min(max(5*time.Millisecond, took/50), 100*time.Millisecond))
		over = time.Since(began) >= limit
	}
}
